"""CSV and parquet with all columns."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

from commands import josrc
from exports import check, number_of
from reviewing import read


@pytest.mark.parametrize("to", [[], ["--to", "csv"]])
def test_a_csv_keeps_all_columns(listed: Path, to: list[str]) -> None:
    out = listed.parent / "clean.csv"
    assert josrc("apply", listed, *to, "--out", out) == 0
    check({number_of(row["path"]): row for row in read(out)})


def test_a_parquet_file_keeps_all_columns(listed: Path) -> None:
    out = listed.parent / "clean.parquet"
    assert josrc("apply", listed, "--to", "parquet", out) == 0
    rows = pandas.read_parquet(out).to_dict("records")
    check({number_of(row["path"]): row for row in rows})


def test_what_does_not_fit_is_refused(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["--to", "coco", "a.csv"], "a.csv does not end in .json"),
        (["--to", "cocoa", "a.json"], "--to cocoa is not a known format. Did you mean 'coco'?"),
        (["--to", "coco", "a.json", "--copy"], "--copy and --link are for folders"),
        ([], "Name one file or folder to write"),
        (["a.csv", "--out", "b.csv"], "Name one file or folder to write"),
        (["a.csv", "--images", "http://x"], "--images needs --to label-studio"),
        (["--to", "label-studio", "a.json", "--images", "x/y"], "--images x/y is not a URL"),
        (["--to", "label-studio", "a.json", "--auto", "0.5"], "lets people decide"),
    ):
        assert josrc("apply", listed, *words) == 2
        assert message in capsys.readouterr().err
