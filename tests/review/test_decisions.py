"""The queue and the decisions on disk."""

from __future__ import annotations

import csv
import math
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from josrc.errors import UserError
from josrc.review.decisions import RefusedError, Store
from josrc.review.queues import Filter
from josrc.verdicts.proportions import wilson_interval
from josrc.verdicts.report.gallery import read_scores
from josrc.verdicts.table import SCORE, VERDICT_COLUMNS

HOSTILE = "<img src=x onerror=document.title='hacked'>"


@pytest.fixture
def store(reviewed: Path) -> Iterator[Store]:
    opened = Store(reviewed / "audit")
    yield opened
    opened.close()


def rows(store: Store, chosen: Filter | None = None) -> list[int]:
    return [entry["row"] for entry in store.page(chosen or Filter(), limit=200)]


def test_the_queue_goes_from_surely_wrong_over_borderline_to_surely_clean(store: Store) -> None:
    entries = store.page(Filter(), limit=200)
    suspicious = [entry["confidence"] for entry in entries[:15]]
    assert suspicious == sorted(suspicious, reverse=True)
    assert {entry["verdict"] for entry in entries[:15]} == {"mislabelled", "out_of_distribution"}
    clean = [entry["confidence"] for entry in entries[15:]]
    assert clean == sorted(clean)
    assert rows(store)[:6] == [0, 8, 16, 1, 9, 17]


FILTERS = {
    "flagged": (Filter(verdict="flagged"), {r for r in range(24) if r % 8 < 5}),
    "foreign": (Filter(verdict="out_of_distribution"), {4, 12, 20}),
    "class": (Filter(given="cat"), set(range(8, 16))),
    "class and verdict": (Filter(verdict="mislabelled", given=HOSTILE), {0, 1, 2, 3}),
    "suggestion": (Filter(search="DOG"), {8, 9, 10, 11, *range(16, 24)}),
    "file": (Filter(search="q\" <b>"), {8}),
    "wildcards are letters": (Filter(search="%"), set()),
    "one letter wildcard": (Filter(search="c_t"), set()),
    "decided": (Filter(state="decided"), {9}),
    "open": (Filter(verdict="mislabelled", given="cat", state="open"), {8, 10, 11}),
    # 0.99, 0.89, 0.79, 0.69 ... less 0.01 a class: from the fourth on all are below 0.7
    "borderline": (Filter(verdict="borderline"), {r for r in range(24) if r % 8 > 2}),
    "spot check": (Filter(verdict="spot_check", given="cat"), set(range(8, 16))),
    "nonsense": (Filter(verdict="'; DROP TABLE sample; --"), set()),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
def test_filters(store: Store, name: str) -> None:
    store.decide([9], "keep")
    chosen, expected = FILTERS[name]
    assert set(rows(store, chosen)) == expected


def test_a_spot_check_draws_a_hundred_whatever_their_verdict_and_counts_what_is_wrong(
    tmp_path: Path,
) -> None:
    with (tmp_path / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerow(VERDICT_COLUMNS)
        for row in range(1000):
            verdict = "mislabelled" if row < 300 else "clean"
            csv.writer(file).writerow([row, "", "a", verdict, "b", 0.5, 0.5, 0.9, -1, "why"])
    store = Store(tmp_path)
    drawn = rows(store, Filter(verdict="spot_check"))
    assert len(set(drawn)) == 100
    assert 15 <= sum(row < 300 for row in drawn) <= 45
    halves = [sum(row < 300 for row in half) for half in (drawn[:50], drawn[50:])]
    assert min(halves) >= 5, "whoever stops early has seen samples of every kind"
    nothing = {"samples": 100, "decided": 0, "wrong": 0, "low": 0, "high": 1}
    assert store.spot_check() == nothing
    pages = [store.page(Filter(verdict="spot_check"), after, 40) for after in (-1, 39, 79)]
    assert [entry["row"] for page in pages for entry in page] == drawn
    other = next(row for row in range(1000) if row not in drawn)
    store.decide([drawn[0], drawn[1], other], "remove")
    store.decide([drawn[1]], "keep")
    store.decide([drawn[2]], "label", "b")
    found = store.spot_check()
    assert found == nothing | {"decided": 3, "wrong": 2, "low": found["low"], "high": found["high"]}
    assert (found["low"], found["high"]) == wilson_interval(2, 3)
    store.close()
    (tmp_path / "index.sqlite").unlink()
    again = Store(tmp_path)
    assert rows(again, Filter(verdict="spot_check")) == drawn
    again.close()


def test_review_and_report_call_the_same_borderline(tmp_path: Path) -> None:
    verdicts = ("clean", "mislabelled", "out_of_distribution")
    sure = [0.0, 0.0001, 0.35, 0.6999, 0.7, 0.7001, 1.0]
    with (tmp_path / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerow(VERDICT_COLUMNS)
        for row, (verdict, level) in enumerate(product(verdicts, sure)):
            numbers = [0.5, 0.5, f"{level:.4f}", -row]
            csv.writer(file).writerow([row, "", "a", verdict, "", *numbers, "why"])
    store = Store(tmp_path)
    found = set(rows(store, Filter(verdict="borderline")))
    store.close()
    assert found == {group + place for group in (0, 7, 14) for place in (1, 2, 3)}
    galleries = read_scores(tmp_path / "verdicts.csv", ["a"]).galleries()
    assert set(galleries["borderline"].tolist()) == found


def test_pages_hold_every_sample_once_in_order(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    verdicts = generator.choice(["clean", "mislabelled", "out_of_distribution"], 5000)
    scores = generator.choice([-12.5, -3.0000012, -3.0000011, 0.25], 5000)  # many equal ones
    with (tmp_path / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerow(VERDICT_COLUMNS)
        for row in range(5000):
            numbers = [0.5, 0.5, 0.9, f"{scores[row]:.9g}"]
            csv.writer(file).writerow([row, "", "a", verdicts[row], "b", *numbers, "why"])
    store = Store(tmp_path)
    seen, after = [], -1
    while page := store.page(Filter(), after, 170):
        seen += [entry["row"] for entry in page]
        after = page[-1]["place"]
    assert seen == np.argsort(scores, kind="stable").tolist()
    counts = {name: int((verdicts == name).sum()) for name in np.unique(verdicts)}
    assert {name: found["samples"] for name, found in store.progress().items()} == counts
    store.close()


def test_the_queue_and_the_report_follow_scores_that_differ_in_the_seventh_digit(
    tmp_path: Path,
) -> None:
    order = np.random.default_rng(0).permutation(3000)
    with (tmp_path / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerow(VERDICT_COLUMNS)
        for row, place in enumerate(order.tolist()):
            # The surer a verdict, the later it comes: confidence has no say.
            sure, score = f"{place / 3000:.4f}", SCORE.format(-9.0 + 1e-6 * place)
            cells = [row, "", "a", "mislabelled", "b", 0.1, 0.0, sure, score, "why"]
            csv.writer(file).writerow(cells)
    store = Store(tmp_path)
    entries = store.page(Filter(verdict="flagged"), limit=3000)
    doubtful = rows(store, Filter(verdict="borderline"))
    store.close()
    expected = np.argsort(order).tolist()
    assert [entry["row"] for entry in entries] == expected
    assert [entry["place"] for entry in entries] == list(range(3000))
    assert doubtful == expected[1:201], "all but that of confidence 0, and in the same order"
    galleries = read_scores(tmp_path / "verdicts.csv", ["a", "b"]).galleries()
    assert galleries["mislabelled"].tolist() == expected


def test_accepting_means_what_the_verdict_says(store: Store) -> None:
    store.decide([0, 4, 5], "accept")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {0: ("relabel", "cat"), 4: ("remove", None), 5: ("keep", None)}


def test_a_label_that_is_the_given_one_keeps_it(store: Store) -> None:
    store.decide([0, 8], "label", "cat")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {0: ("relabel", "cat"), 8: ("keep", None)}


def test_undo_takes_whole_steps_back_to_what_was_before(store: Store) -> None:
    store.decide([1, 2, 3], "accept")
    store.decide([2], "remove")
    store.decide([7, 6], "remove")
    assert {entry["row"]: entry["outcome"] for entry in store.undo()} == {7: None, 6: None}
    assert {entry["row"]: entry["outcome"] for entry in store.undo()} == {2: "relabel"}
    assert set(store.decisions()) == {1, 2, 3}
    store.decide([9], "keep")
    assert [entry["row"] for entry in store.undo()] == [9], "an undo is not undone"
    assert len(store.undo()) == 3
    assert store.decisions() == {}
    assert store.undo() == []


def test_among_several_what_is_decided_stays(store: Store) -> None:
    store.decide([0], "keep")
    store.decide([1], "remove")
    assert [entry["row"] for entry in store.decide([0, 1, 2, 2], "accept")] == [2]
    assert store.decide([0, 1], "accept") == []
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {0: ("keep", None), 1: ("remove", None), 2: ("relabel", "cat")}
    assert [entry["row"] for entry in store.undo()] == [2], "a step without a change is none"
    store.decide([0, 0], "accept")
    assert store.decisions()[0][1] == ("relabel", "cat"), "alone it is changed"


def test_a_step_that_fails_changes_nothing(store: Store) -> None:
    with pytest.raises(RefusedError, match="There is no sample 99"):
        store.decide([1, 99], "keep")
    assert store.decisions() == {}
    assert store.latest() == 0
    store.decide([1], "keep")
    assert set(store.decisions()) == {1}


def test_another_process_sees_decisions_and_undoes_them(store: Store, reviewed: Path) -> None:
    other = Store(reviewed / "audit")
    before = other.latest()
    store.decide([3, 4], "accept")
    assert [(row, outcome) for _, row, outcome, _ in other.changes(before)] == [
        (3, "relabel"),
        (4, "remove"),
    ]
    assert other.progress()["mislabelled"] == {"samples": 12, "decided": 1}
    assert other.progress("dog")["mislabelled"] == {"samples": 4, "decided": 0}
    other.undo()
    other.close()
    assert store.decisions() == {}


def test_decisions_are_synchronised_to_the_disk(store: Store) -> None:
    assert store._writer.execute("PRAGMA main.synchronous").fetchone() == (2,)  # FULL
    assert store._writer.execute("PRAGMA main.journal_mode").fetchone() == ("wal",)


def test_new_verdicts_keep_decisions_and_a_damaged_index_is_made_anew(reviewed: Path) -> None:
    audit = reviewed / "audit"
    store = Store(audit)
    store.decide([4], "accept")
    store.close()
    text = (audit / "verdicts.csv").read_text()
    (audit / "verdicts.csv").write_text(text.replace("out_of_distribution", "mislabelled"))
    store = Store(audit)
    assert store.progress()["mislabelled"] == {"samples": 15, "decided": 1}
    store.close()
    (audit / "index.sqlite").write_bytes(b"junk" * 1000)
    store = Store(audit)
    assert set(store.decisions()) == {4}
    store.close()


def test_decisions_on_other_samples_are_refused(reviewed: Path) -> None:
    audit = reviewed / "audit"
    store = Store(audit)
    store.decide([1], "keep")
    store.close()
    with sqlite3.connect(audit / "decisions.sqlite") as database:
        database.execute("UPDATE decision SET id = 'another.png'")
    database.close()
    with pytest.raises(UserError, match="1 decisions on samples other"):
        Store(audit)


def test_damaged_decisions_are_told_and_left_alone(reviewed: Path) -> None:
    damaged = reviewed / "audit" / "decisions.sqlite"
    damaged.write_bytes(b"junk" * 1000)
    with pytest.raises(
        UserError, match=r"decisions.sqlite can't be opened: file is not a database"
    ):
        Store(reviewed / "audit")
    assert damaged.read_bytes() == b"junk" * 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "columns other than"),
        (",".join(VERDICT_COLUMNS) + "\n1,,a,wrong\n", "line 2"),
    ],
)
def test_verdicts_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match="josrc audit"):
        Store(tmp_path)
    (tmp_path / "verdicts.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        Store(tmp_path)
    assert not (tmp_path / "index.sqlite").exists()


def test_new_verdicts_are_taken_up_and_decisions_in_sight_of_old_ones_refused(
    reviewed: Path, store: Store
) -> None:
    store.decide([0], "accept", verdicts=store.refresh())
    verdicts = reviewed / "audit" / "verdicts.csv"
    verdicts.write_text(verdicts.read_text().replace(",mislabelled,cat,", ",mislabelled,dog,"))
    assert store.refresh() == 1
    assert store.refresh() == 1, "they are new but once"
    assert {entry["suggested"] for entry in store.page(Filter("mislabelled", HOSTILE))} == {"dog"}
    with pytest.raises(RefusedError, match="new verdicts"):
        store.decide([1], "accept", verdicts=0)
    store.decide([1], "accept", verdicts=1)
    decided = {row: decision for row, (_, decision) in store.decisions().items()}
    assert decided == {0: ("relabel", "cat"), 1: ("relabel", "dog")}
    verdicts.unlink()
    assert store.refresh() == 1, "those that were there serve"


@pytest.mark.parametrize("search", ["ÄPFEL", "äpfel", "a\u0308pfel"])
def test_letters_with_accents_are_found_however_they_are_spelled(
    reviewed: Path, search: str
) -> None:
    verdicts = reviewed / "audit" / "verdicts.csv"
    verdicts.write_bytes(verdicts.read_bytes().replace(b"cat/1.png", "cat/Äpfel.png".encode()))
    store = Store(reviewed / "audit")
    assert rows(store, Filter(search=search)) == [9]
    store.close()


def test_a_file_name_that_is_no_utf8_is_shown_and_found(reviewed: Path) -> None:
    verdicts = reviewed / "audit" / "verdicts.csv"
    verdicts.write_bytes(verdicts.read_bytes().replace(b"cat/1.png", b"cat/\xff1.png"))
    store = Store(reviewed / "audit")
    (entry,) = store.page(Filter(search="\ufffd1.png"))
    assert entry["path"].endswith("cat/\ufffd1.png")
    store.decide([entry["row"]], "keep")
    store.close()
    Store(reviewed / "audit").close()


def test_the_interval_is_wilsons() -> None:
    """Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927."""
    z = 1.959963984540054
    for draws in (1, 2, 24, 100, 1000):
        for hits in {0, 1, draws // 5, draws - 1, draws}:
            share, weight = hits / draws, z**2 / draws
            middle = (share + weight / 2) / (1 + weight)
            reach = z * math.sqrt(share * (1 - share) / draws + weight / (4 * draws)) / (1 + weight)
            expected = max(0.0, middle - reach), min(1.0, middle + reach)
            assert wilson_interval(hits, draws) == pytest.approx(expected, abs=1e-9)


def test_before_the_first_sample_every_share_is_possible() -> None:
    assert wilson_interval(0, 0) == (0, 1)
