"""The list of copies beside verdicts."""

from __future__ import annotations

from pathlib import Path

from josrc.data.duplicates import MAX_LISTED_COPIES, Duplicate, tally
from josrc.verdicts.duplicates import read_duplicates, write_duplicates


def test_of_many_copies_every_label_is_named_and_names_come_back(tmp_path: Path) -> None:
    rows = [Duplicate(1, "training", n, f"/a/{n}, \udcff.png", "cat") for n in range(9)]
    rows.append(Duplicate(1, "training", 9, "/b.png", 'the "dog"', "out_of_distribution"))
    write_duplicates(tmp_path / "d.csv", rows)
    assert list(read_duplicates(tmp_path / "d.csv")) == rows
    (named,) = tally(rows).named
    assert [copy.given_label for copy in named] == [
        "cat",
        'the "dog"',
        *["cat"] * (MAX_LISTED_COPIES - 2),
    ]


def test_a_list_of_an_earlier_josrc_knows_exact_copies_alone(tmp_path: Path) -> None:
    old = tmp_path / "duplicates.csv"
    old.write_text("group,part,row,path,given_label,verdict\n1,training,3,/a.png,cat,clean\n")
    (copy,) = read_duplicates(old)
    assert copy == Duplicate(1, "training", 3, "/a.png", "cat", "clean", "exact", 1.0)
