"""What an audit writes: a table that any program reads back, sentences, and sums."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from josrc.errors import UserError
from josrc.verdicts import table
from josrc.verdicts.findings import held_out_findings
from josrc.verdicts.judge_run import unlearned_warning, verdict_line
from josrc.verdicts.reasons import reasons
from josrc.verdicts.rule import judge, judge_held_out
from josrc.verdicts.table import (
    VERDICT_COLUMNS,
    AuditPart,
    read_verdicts,
    summarise,
    write_verdicts,
)

Made = dict[str, Any]
NAMES = ["cat", "dog", "owl", "bee"]
HOSTILE = ['a,b "c"', "new\nline", "=cmd|' /C calc'!A0", "  ünï\tcode "]


def judged(made: Made, ids: Sequence[Any] = (), paths: Sequence[str] = ()) -> AuditPart:
    verdicts = judge(made["findings"], made["given"])
    return AuditPart(verdicts, made["findings"], made["given"], ids, paths)


def written(made: Made, folder: Path, names: list[str] = NAMES) -> list[dict[str, str]]:
    path, count = folder / "verdicts.csv", len(made["given"])
    paths = [f"images/{row},{row}.png" for row in range(count)]
    write_verdicts(path, [judged(made, range(count), paths)], names)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("chunk", [7, 400, 50_000])
def test_the_table_holds_every_sample_in_order(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(table, "CHUNK", chunk)
    rows = written(made, tmp_path)
    columns = "id,path,given_label,verdict,suggested_label,p_clean,p_ood,confidence,score,reason"
    assert ",".join(rows[0]) == columns
    assert [row["id"] for row in rows] == [str(row) for row in range(400)]
    assert rows[7]["path"] == "images/7,7.png"
    assert [NAMES.index(row["given_label"]) for row in rows] == made["given"].tolist()
    titles = ["clean"] * 300 + ["mislabelled"] * 60 + ["out_of_distribution"] * 40
    assert [row["verdict"] for row in rows] == titles
    suggested = [NAMES[true] for true in made["true"][300:360]]
    assert [row["suggested_label"] for row in rows] == [""] * 300 + suggested + [""] * 40
    verdicts = judge(made["findings"], made["given"])
    assert [float(row["p_ood"]) for row in rows] == pytest.approx(verdicts.p_ood, abs=1e-4)
    assert [float(row["score"]) for row in rows] == pytest.approx(verdicts.score, rel=1e-8)


def test_scores_that_differ_in_the_seventh_digit_keep_their_order(
    made: Made, tmp_path: Path
) -> None:
    count, path = 5000, tmp_path / "verdicts.csv"
    places = np.random.default_rng(0).permutation(count)
    rows = np.arange(count) % 400
    verdicts = judge(made["findings"].part(rows), made["given"][rows])
    for highest in (-1.0, -10.0, 1000.0):  # scores of any size
        step = 10.0 ** (np.floor(np.log10(abs(highest))) - 6)
        part = replace(
            judged(made, range(count), [""] * count),
            verdicts=replace(verdicts, score=highest - step * places),
            findings=made["findings"].part(rows),
            given=made["given"][rows],
        )
        write_verdicts(path, [part], NAMES)
        (frame,) = read_verdicts(path)
        scores = frame["score"].to_numpy(float)
        assert len(np.unique(scores)) == count
        np.testing.assert_array_equal(np.argsort(scores), np.argsort(-places))


def test_where_a_file_has_no_scores_the_probability_of_being_clean_is_one(
    made: Made, tmp_path: Path
) -> None:
    with_scores = written(made, tmp_path)
    path = tmp_path / "verdicts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        columns = [name for name in VERDICT_COLUMNS if name != "score"]
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(with_scores)
    (frame,) = read_verdicts(path)
    assert tuple(frame.columns) == VERDICT_COLUMNS
    assert frame["score"].tolist() == [row["p_clean"] for row in with_scores]
    assert frame["reason"].tolist() == [row["reason"] for row in with_scores]


def test_a_first_line_with_a_cell_too_many_is_refused_and_warnings_stay_as_they_are(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "CHUNK", 7)
    written(made, tmp_path)
    path, before = tmp_path / "verdicts.csv", list(warnings.filters)
    reading = read_verdicts(path)
    assert len(next(reading)) == 7
    assert warnings.filters == before, "while somebody works on the first lines"
    assert sum(map(len, reading)) == 393
    header, first, *others = path.read_text().splitlines()
    path.write_text("\n".join([header, f"{first},more", *others]))
    with pytest.raises(UserError, match="can't be read"):
        next(read_verdicts(path))


def test_names_of_classes_are_data_whatever_they_hold(made: Made, tmp_path: Path) -> None:
    rows = written(made, tmp_path, HOSTILE)
    assert [row["given_label"] for row in rows] == [HOSTILE[label] for label in made["given"]]
    assert rows[300]["suggested_label"] == HOSTILE[made["true"][300]]
    assert all(HOSTILE[made["true"][place]] in rows[place]["reason"] for place in range(300, 360))
    summary = json.loads(json.dumps(summarise([judged(made)], HOSTILE)))
    assert [entry["class"] for entry in summary["classes"]] == HOSTILE


def test_reasons_are_sentences_about_the_sample(made: Made) -> None:
    rows = np.array([0, 300, 360, 1, 2])
    findings = replace(
        made["findings"].part(rows),
        visits=np.array([50, 50, 50, 3, 0]),
        label_share=np.array([0.94, 0.0, 0.2, 1.0, 0.0]),
        rival=np.array([1, 1, 1, -1, -1]),
        rival_share=np.array([0.06, 0.97, 0.4, 0.0, 0.0]),
        confidence=np.array([0.8, 0.8, 0.314, 0.8, 0.0]),
    )
    verdicts = judge(made["findings"], made["given"])
    chosen = replace(verdicts.part(slice(5)), group=np.array([0, 1, 2, 0, 0]))
    reference = f"{100 * verdicts.reference.confidence:.0f} %"
    assert list(reasons(chosen, findings, np.zeros(5, dtype=int), NAMES)) == [
        'In the last epochs the model saw "cat", the given label, in 94 % of its looks and "dog" '
        "in 6 % of its looks.",
        'In the last epochs the model saw "dog" in 97 % of its looks and "cat", the given label, '
        "in none.",
        "In the last epochs the model could not tell what this is: its best guess had 31 % on "
        f"average, against {reference} for images whose label it believes.",
        'In its first 3 looks the model saw "cat", the given label, in all of its looks.',
        "The model has not seen this image yet.",
    ]


def test_reasons_of_held_out_images_say_that_they_were_held_out(made: Made) -> None:
    reference = judge(made["findings"], made["given"]).reference
    given = np.zeros(3, dtype=int)
    predicted = np.array([[0.8, 0.2, 0, 0], [0.05, 0.9, 0.05, 0], [0.2, 0.3, 0.25, 0.25]])
    findings = held_out_findings(predicted, given)
    verdicts = judge_held_out(findings, given, reference)
    first, second, third = reasons(verdicts, findings, given, NAMES)
    start = "Held out of training; the final model"
    assert first == f'{start} gives 80 % to "cat", the given label, and 20 % to "dog".'
    assert second == f'{start} gives 90 % to "dog", and 5 % to "cat", the given label.'
    assert third.startswith(f"{start} can't tell what this is: its best guess has 30 %, against")


def test_the_summary_counts_by_class_and_names_the_pairs(made: Made) -> None:
    verdicts, given = judge(made["findings"], made["given"]), made["given"]
    summary = summarise([AuditPart(verdicts, made["findings"], given, (), ())], NAMES)
    assert summary["samples"] == 400
    assert summary["counts"] == {"clean": 300, "mislabelled": 60, "out_of_distribution": 40}
    assert (summary["noise_rate"], summary["ood_share"]) == (0.25, 0.1)
    dogs = summary["classes"][1]
    assert dogs["class"] == "dog"
    assert dogs["samples"] == np.sum(given == 1)
    assert dogs["mislabelled"] == np.sum(given[300:360] == 1)
    assert dogs["noise_rate"] == pytest.approx(np.sum(given[300:] == 1) / np.sum(given == 1))
    pairs = summary["confused_pairs"]
    assert sum(pair["count"] for pair in pairs) == 60
    assert [pair["count"] for pair in pairs] == sorted((p["count"] for p in pairs), reverse=True)
    first, true = pairs[0], made["true"][300:360]
    wrong = (given[300:360] == NAMES.index(first["given"])) & (
        true == NAMES.index(first["suggested"])
    )
    assert first["count"] == np.sum(wrong)


def test_a_class_without_samples_has_no_noise(made: Made) -> None:
    summary = summarise([judged(made)], [*NAMES, "unicorn"])
    assert summary["classes"][-1]["samples"] == 0
    assert summary["classes"][-1]["noise_rate"] == 0


def class_entry(name: str, samples: int, flagged: int) -> Made:
    """What a summary says of a class, so many of whose labels look wrong."""
    clean = samples - flagged
    return {"class": name, "samples": samples, "clean": clean, "noise_rate": flagged / samples}


@pytest.mark.parametrize(
    ("flagged", "samples", "told"),
    [
        ([77, 18, 18, 18], 100, "'cat' 77 % look wrong, of all others 18 %."),
        ([100, 0, 0, 0], 100, "'cat' 100 % look wrong, of all others 0 %."),
        ([60, 10, 77, 20], 100, "'owl' (77 %) and 'cat' (60 %) most look wrong, of all others 15"),
        # Each of three would hide the other two, taken one by one.
        ([80, 90, 85, 5], 100, "'dog' (90 %), 'owl' (85 %) and 'cat' (80 %) most look wrong, of"),
        # Owls are not twice as bad as dogs and bees, so they count with them.
        ([99, 30, 55, 40], 100, "'cat' 99 % look wrong, of all others 42 %."),
        ([62, 60, 64, 62], 100, None),  # all are as noisy
        ([77, 40, 40, 40], 100, None),  # less than twice the others
        ([50, 5, 5, 5], 100, None),  # half of its labels still look right
        ([9, 0, 0, 0], 9, None),  # too few to tell
        ([0, 0, 0, 0], 100, None),
    ],
)
def test_classes_stand_out_by_their_share_of_wrong_labels(
    flagged: list[int], samples: int, told: str | None
) -> None:
    classes = [class_entry(name, samples, n) for name, n in zip(NAMES, flagged, strict=True)]
    said = unlearned_warning({"samples": 4 * samples, "classes": classes})
    assert (said is not None) == (told is not None)
    assert (said or "").startswith(f"Of the images labelled {told}" if told else "")


@pytest.mark.parametrize(("count", "named", "more"), [(10, 10, 0), (12, 10, 2)])
def test_of_very_many_classes_that_stand_out_the_worst_are_named(
    count: int, named: int, more: int
) -> None:
    classes = [class_entry("good", 1000, 50)]
    classes += [class_entry(f"c{number}", 100, 80 + number) for number in range(count)]
    said = unlearned_warning({"samples": 1000 + 100 * count, "classes": classes})
    assert said is not None
    assert [word for word in said.split("'") if word.startswith("c")] == [
        f"c{number}" for number in range(count - 1, count - 1 - named, -1)
    ]
    assert (f" and {more} more most look wrong" in said) == bool(more)
    assert ("all classes: noise_rate in audit/summary.json." in said) == bool(more)


def test_verdicts_of_few_epochs_come_with_a_warning() -> None:
    counts = {"clean": 3, "mislabelled": 2, "out_of_distribution": 1}
    for visits, told in ((1, "seen once."), (9, "seen 9 times."), (10, None)):
        said = verdict_line({"counts": counts, "noise_rate": 0.5, "visits": visits}, Path("audit"))
        assert said.startswith("Verdicts: 3 clean, 2 mislabelled, 1 out of distribution: audit")
        assert said.endswith(told or "verdicts.csv")


def test_it_is_said_where_errors_were_planted_in_vain() -> None:
    counts = {"clean": 3, "mislabelled": 2, "out_of_distribution": 1}
    summary = {"counts": counts, "noise_rate": 0.5, "visits": 40, "planted": None}
    assert "planted" not in verdict_line(summary, Path("audit"))
    said = verdict_line(summary | {"planted_unlike": True}, Path("audit"))
    assert "Errors were planted, but can't be used here" in said


def test_a_rare_class_hides_no_other_and_a_single_one_does_not_stand_out() -> None:
    rare, bad = class_entry("owl", 2, 2), class_entry("cat", 100, 90)
    good = class_entry("dog", 98, 8)
    # Of the others 8 and 2 of 100.
    said = unlearned_warning({"samples": 200, "classes": [rare, bad, good]})
    assert said is not None
    assert said.startswith("Of the images labelled 'cat' 90 % look wrong, of all others 10 %.")
    assert unlearned_warning({"samples": 100, "classes": [bad]}) is None
    assert unlearned_warning({"samples": 102, "classes": [bad, rare]}) is None, "too few others"
    assert unlearned_warning({"samples": 0, "classes": []}) is None
