"""Very many verdicts: parts that everybody reads as the one table they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from PIL import Image

import josrc as package
from commands import josrc
from josrc.errors import UserError
from josrc.review.decisions import Store
from josrc.review.queues import Filter
from josrc.verdicts import table, table_parts
from josrc.verdicts.rule import judge
from josrc.verdicts.table import (
    VERDICT_COLUMNS,
    AuditPart,
    read_verdicts,
    verdicts_of,
    write_verdicts,
)
from josrc.verdicts.table_parts import NUMBERS, write_parts

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
NAMES = ["cat", "dog", 'o"w,l', "ünï"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many are more than 100, and a part has 150 of them or a few more."""
    monkeypatch.setattr(table, "MAX_CSV_ROWS", 100)
    monkeypatch.setattr(table, "CHUNK", 60)
    monkeypatch.setattr(table_parts, "PART_ROWS", 150)


def written(made: dict[str, Any], audit: Path, first: str = "") -> None:
    count = len(made["given"])
    paths = [first, *(f"images/{row}.png" for row in range(1, count))]
    verdicts = judge(made["findings"], made["given"])
    part = AuditPart(verdicts, made["findings"], made["given"], range(count), paths)
    write_verdicts(audit / "verdicts.csv", [part], NAMES)


def whole(audit: Path) -> pandas.DataFrame:
    lines = pandas.concat(read_verdicts(verdicts_of(audit)))
    return lines.astype(dict.fromkeys(NUMBERS, float))


@pytest.mark.usefixtures("few")
def test_parts_hold_what_a_csv_file_would(
    made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(made, tmp_path)
    parts = sorted(path.name for path in (tmp_path / "verdicts").iterdir())
    assert parts == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet", "rows.json"]
    found = whole(tmp_path)
    (first, *_) = read_verdicts(tmp_path / "verdicts", ["id", "score"])
    assert list(first) == ["id", "score"]
    rows = np.array([0, 59, 60, 203, 399])
    some = pandas.concat(read_verdicts(tmp_path / "verdicts", ["path", "verdict"], rows))
    pandas.testing.assert_frame_equal(some, found.loc[rows, ["path", "verdict"]])
    monkeypatch.setattr(table, "MAX_CSV_ROWS", 10_000)
    written(made, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["verdicts.csv"]  # one or the other
    pandas.testing.assert_frame_equal(whole(tmp_path), found)


@pytest.mark.usefixtures("few")
def test_names_that_are_no_utf_8_stay_in_a_csv_file(made: dict[str, Any], tmp_path: Path) -> None:
    written(made, tmp_path, first="caf\udce9.png")
    assert [path.name for path in tmp_path.iterdir()] == ["verdicts.csv"]
    assert whole(tmp_path)["path"][0] == "caf\udce9.png"


@pytest.mark.usefixtures("few")
def test_a_part_that_is_missing_or_damaged_is_named(made: dict[str, Any], tmp_path: Path) -> None:
    written(made, tmp_path)
    last = tmp_path / "verdicts" / "part-00002.parquet"
    content = last.read_bytes()
    last.write_bytes(content[:200])
    with pytest.raises(UserError, match=r"part-00002\.parquet is damaged"):
        whole(tmp_path)
    last.write_bytes((tmp_path / "verdicts" / "part-00000.parquet").read_bytes())
    with pytest.raises(UserError, match="has 540 rows, and should have 400"):
        whole(tmp_path)
    last.unlink()
    with pytest.raises(UserError, match=r"part-00002\.parquet is missing"):
        whole(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("score", ["x", "y"], "score holds string, not double"),
        ("given_label", [1, 2], "given_label holds int64, not dictionary<values=string"),
        ("id", [b"a", b"b"], "id holds binary, not string"),
        ("reason", ["because", None], "reason is missing in 1 rows"),
        ("p_clean", [0.5, None], "p_clean is missing in 1 rows"),
    ],
)
def test_a_column_of_another_type_is_named(
    name: str, values: list[Any], message: str, tmp_path: Path
) -> None:
    row = dict.fromkeys(VERDICT_COLUMNS, "a") | dict.fromkeys(NUMBERS, 0.5) | {"verdict": "clean"}
    write_parts(tmp_path / "verdicts", VERDICT_COLUMNS, [pandas.DataFrame([row] * 2)])
    part = tmp_path / "verdicts" / "part-00000.parquet"
    written = parquet.read_table(part)
    place = written.schema.get_field_index(name)
    parquet.write_table(written.set_column(place, name, pyarrow.array(values)), part)
    with pytest.raises(UserError, match="part-00000") as raised:
        whole(tmp_path)
    assert message in str(raised.value)


@pytest.mark.usefixtures("few")
def test_report_review_apply_and_audit_work_on_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = np.random.default_rng(0)
    true = np.arange(132) % 3
    given = np.where(np.arange(132) % 12 == 0, (true + 1) % 3, true)
    features = np.eye(3)[true] + draw.normal(0, 0.2, (132, 3))
    for number, label in enumerate(given.tolist()):
        path = tmp_path / "pictures" / f"class-{label}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(path)
    order = [path.stem for path in sorted((tmp_path / "pictures").rglob("*.png"))]
    np.save(tmp_path / "features.npy", features[[int(name) for name in order]])
    out, pictures = str(tmp_path / "RUN"), str(tmp_path / "pictures")
    known = ["--features", str(tmp_path / "features.npy"), "--noise-rate", "0.0833"]
    assert josrc("scan", pictures, *known, "--out", out) == 0
    audit = tmp_path / "RUN" / "audit"
    assert not (audit / "verdicts.csv").exists()
    assert f": {audit / 'verdicts'}\n" in capsys.readouterr().out
    verdicts = package.Run.load(out).verdicts()
    assert len(verdicts) == 132
    assert 8 <= (verdicts["verdict"] == "mislabelled").sum() <= 14  # 11 are
    (audit / "report.html").unlink()
    assert josrc("report", out) == 0
    assert (audit / "report.html").is_file()
    store = Store(audit)
    assert {entry["verdict"] for entry in store.page(Filter(), limit=8)} == {"mislabelled"}
    store.decide([store.page(Filter(), limit=1)[0]["row"]], "keep", None)
    store.close()
    corrected = str(tmp_path / "corrected.csv")
    assert josrc("apply", out, "--auto", "0.5", "--out", corrected) == 0
    assert josrc("audit", out, "--noise-rate", "0.05") == 0
    assert len(package.Run.load(out).verdicts()) == 132
    assert (audit / "verdicts").is_dir()
