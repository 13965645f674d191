"""The index over verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc.errors import UserError
from josrc.review.decisions import RefusedError, Store
from josrc.review.queues import Filter
from josrc.verdicts.table import VERDICT_COLUMNS

HOSTILE = "<img src=x onerror=document.title='hacked'>"


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
