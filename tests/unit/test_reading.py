"""Whatever a file of a run folder holds, a command that reads it names the file and the fault."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from commands import josrc
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.review.decisions import Store
from josrc.runs.snapshot import open_run

Change = Callable[[Path], None]
DEEP = "[" * 100_000


def text(content: str) -> Change:
    return lambda path: path.write_text(content) and None


def values(**changes: Any) -> Change:
    """Other values in a JSON object; those that are ... go."""

    def change(path: Path) -> None:
        found = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: v for key, v in found.items() if v is not ...}))

    return change


def arrays(**changes: Any) -> Change:
    """Other arrays in an archive; those that are ... go."""

    def change(path: Path) -> None:
        with np.load(path) as file:
            found: dict[str, Any] = {**file, **changes}
        found = {key: v(file_of(path)[key]) if callable(v) else v for key, v in found.items()}
        np.savez(path, **{key: v for key, v in found.items() if v is not ...})

    return change


def file_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


def cell(column: str, value: str) -> Change:
    """Another text in the second line of a CSV file."""

    def change(path: Path) -> None:
        with path.open(newline="") as file:
            lines = list(csv.DictReader(file))
        lines[1][column] = value
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)

    return change


def metadata(**changes: Any) -> Change:
    """Other metadata in a file of tensors."""

    def change(path: Path) -> None:
        tensors, found = load_tensors(path)
        found |= changes
        save_tensors(path, tensors, {key: v for key, v in found.items() if v is not ...})

    return change


def images(**changes: Any) -> Change:
    """The same of what a network sees of images."""

    def change(path: Path) -> None:
        _, found = load_tensors(path)
        metadata(images=found["images"] | changes)(path)

    return change


def tensors(prefix: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Other tensors below a name."""

    def change(path: Path) -> None:
        found, told = load_tensors(path)
        made = {k: make(v) if k.startswith(prefix) else v for k, v in found.items()}
        save_tensors(path, made, told)

    return change


def raw_metadata(content: str) -> Change:
    from safetensors.torch import save_file

    return lambda path: save_file(load_tensors(path)[0], path, metadata={"josrc": content})


def nan(tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, float("nan")) if tensor.is_floating_point() else tensor


SUMMARY, AUDIT, SAMPLES = "summary.json", "audit/summary.json", "samples.npz"
VERDICTS, STATE = "audit/verdicts.csv", "checkpoint/state.safetensors"
BEST = "weights/best.safetensors"
# Of each file first what the default tests try, then what the slow ones do.
DAMAGES: dict[tuple[str, str], list[Change]] = {
    (SUMMARY, "resume"): [
        text("{}"), text("[]"), text(""), text(DEEP), text('"x"'), values(last10_mean="much"),
        values(epochs=None), values(best_epoch=...), values(seconds_total=None),
        values(last10_mean=3.0, best=None), values(seconds_total="1"),
    ],
    (AUDIT, "report"): [
        text("{}"), text("[]"), text(DEEP), values(classes=None), values(classes=["zero"]),
        values(counts=[1]), values(counts={"clean": "1"}), values(samples=-1), values(classes=[]),
        values(noise_rate=7), values(planted={"count": 1}), values(noise_rate_low="x"),
    ],
    (AUDIT, "apply"): [text("{}"), values(planted=3), values(noise_rate=None)],
    (VERDICTS, "apply"): [
        cell("confidence", "abc"), cell("confidence", ""), cell("confidence", "nan"),
        cell("confidence", "1e300"), cell("p_clean", "x"), cell("score", "inf"),
        cell("verdict", "guilty"), cell("p_ood", "-1"), text("\x00"),
    ],
    (VERDICTS, "review"): [cell("confidence", "inf"), cell("p_clean", "x"), cell("score", "")],
    (SAMPLES, "report"): [
        arrays(labels=np.arange(3)), text("no archive"), arrays(labels=...),
        arrays(labels=lambda v: v + 90), arrays(labels=lambda v: v - 50),
        arrays(labels=lambda v: v * 1.5), arrays(labels=lambda v: v.astype(str)),
        arrays(labels=lambda v: v[:, None]), arrays(ids_ends=lambda v: v[:3]),
        arrays(ids_ends=lambda v: v[::-1]), arrays(names=lambda v: v[:5]),
        arrays(classes=np.zeros(0, np.uint8), classes_ends=np.zeros(0, np.int64)),
        arrays(split=lambda v: v + 2), arrays(split=lambda v: v[::-1]),
        arrays(labels=np.array(["x"] * 120, dtype=object)),
    ],
    (STATE, "resume"): [
        metadata(epoch="3"), metadata(position="x"), metadata(position=10**9), metadata(rows=None),
        metadata(rows="rows"), metadata(rows=[{"lr": 1}]), metadata(seconds="1"),
        metadata(config=None), metadata(epoch=99), metadata(rows=[]), raw_metadata(DEEP),
        raw_metadata("[]"), tensors("ledger.mean_loss", nan), tensors("", nan),
        tensors("ledger.prediction", lambda t: t + 999), tensors("ledger.", lambda t: t[:, None]),
        tensors("ledger.group", lambda t: t * 0 + 9), text("x"),
    ],
    (STATE, "audit"): [
        tensors("ledger.mean_loss", nan), tensors("ledger.prediction", lambda t: t + 999),
        tensors("ledger.", lambda t: t[:, None]), tensors("ledger.", lambda t: t[:7]), text(""),
        tensors("ledger.rival", lambda t: t - 9),
    ],
    (BEST, "predict"): [
        metadata(classes=7), metadata(classes=...), metadata(classes=["zero"]),
        metadata(classes=[str(n) for n in range(50)]), metadata(classes=[]), metadata(epoch=None),
        images(tile="abc"), images(tile=[0, 0, 3]), images(tile=[-4, 20, 3]), images(crop=10**6),
        images(tile=[10**6, 10**6, 3]), images(mean=None), images(mean=[0.5]),
        images(std=[0, 0, 0]),
        tensors("", lambda t: t.reshape(-1)),
        raw_metadata(DEEP), raw_metadata("[]"), text(""),
    ],
    ("config.yaml", "report"): [text(f"method: {DEEP}"), text("a: &a [*a]"), text("\x00")],
    ("noise.npz", "report"): [
        arrays(given=...), arrays(true=np.array(["x"] * 5), kind=...), text(""),
    ],
    ("metrics.csv", "report"): [
        cell("epoch", "x"), text("loss\n1\n"), cell("loss", "inf"), text("epoch,lr\n1,2,3\n"),
    ],
    ("evidence.npz", "audit"): [
        text("x"), arrays(features=np.zeros(3)), arrays(planted=np.array([10**6])),
        arrays(features=np.array(["x"])),
    ],
    ("skipped.csv", "report"): [text("junk\n1\n")],
    ("audit/duplicates.csv", "report"): [
        text("a,b,c,d,e,f\n1,train,-99,x,y,z\n"), text("a\n1\n"),
        text("a,b,c,d,e,f\n1,x,0,x,y,z\n"),
    ],
    ("audit/map.npz", "report"): [
        text("x"), arrays(kind=...), arrays(position=lambda v: v + np.inf),
    ],
}  # fmt: skip


def cases() -> list[Any]:
    """All of them; of each file and command the first one by default."""
    return [
        pytest.param(name, command, change, id=f"{name}-{command}-{place}",
                     marks=[pytest.mark.slow] if place else [])
        for (name, command), changes in DAMAGES.items() for place, change in enumerate(changes)
    ]  # fmt: skip


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    return run


@pytest.mark.parametrize(("name", "command", "change"), cases())
def test_a_damaged_file_is_named(
    name: str,
    command: str,
    change: Change,
    copied: Path,
    pictures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(copied / name)
    if name == STATE and command == "resume":
        (copied / SUMMARY).unlink()
    more = {
        "predict": [pictures / "zero", "--out", tmp_path / "p.csv"],
        "apply": ["--auto", "0", "--out", tmp_path / "out.csv"],
    }
    assert josrc(command, copied, *more.get(command, [])) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert name in error
    assert len(error) < 3000
    assert not (tmp_path / "out.csv").exists()


def test_an_archive_that_expands_without_end_is_not_expanded(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("josrc._reading.MAX_EXPANDED_BYTES", 10**6)
    noise = file_of(copied / "noise.npz")
    np.savez_compressed(copied / "noise.npz", **noise | {"true": np.zeros(10**6, np.int64)})
    assert josrc("report", copied) == 2
    assert "noise.npz is damaged: it would expand from" in capsys.readouterr().err


def test_a_whole_run_is_read_as_it_was(copied: Path) -> None:
    opened = open_run(copied)
    assert len(opened.source) + len(opened.source.val or ()) == 120
    assert josrc("report", copied) == 0
    assert josrc("resume", copied) == 0


@pytest.mark.parametrize("name", ["audit", "weights", "audit/thumbnails/0"])
def test_a_folder_that_is_a_link_out_of_the_run_is_refused(
    copied: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere, link = tmp_path / "elsewhere", copied / name
    if link.is_dir():
        link.rename(elsewhere)
    else:
        elsewhere.mkdir()
        link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    for words in (
        ("audit", copied),
        ("report", copied),
        ("review", copied),
        ("resume", copied),
        ("apply", copied, "--auto", "0", "--out", tmp_path / "c.csv"),
        ("predict", copied, tmp_path, "--out", tmp_path / "p.csv"),
        ("scan", "digits-o", "--out", copied, "--overwrite"),
    ):
        assert josrc(*words) == 2
        assert f"{link} is a link that leads out of the run folder" in capsys.readouterr().err
    after = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    assert after == before


def test_decisions_are_not_written_to_a_database_elsewhere(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(elsewhere)) as database, database:
        database.execute("CREATE TABLE visits (address TEXT)")
    before = elsewhere.read_bytes()
    (copied / "audit" / "decisions.sqlite").symlink_to(elsewhere)
    assert josrc("review", copied) == 2
    assert "decisions.sqlite is a link that leads out" in capsys.readouterr().err
    assert elsewhere.read_bytes() == before


def test_links_within_a_run_folder_and_to_it_are_followed(copied: Path, tmp_path: Path) -> None:
    (copied / "weights").rename(copied / "logs")
    (copied / "weights").symlink_to("logs")
    (tmp_path / "same").symlink_to(copied)
    assert josrc("report", tmp_path / "same") == 0


def test_links_in_a_run_folder_lead_no_write_elsewhere(copied: Path, tmp_path: Path) -> None:
    names = (".lock", "metrics.csv", "summary.json.partial", "audit/report.html.partial",
             "audit/verdicts.csv.partial", "audit/summary.json.partial",
             "audit/index.sqlite.partial", "audit/.index.lock")  # fmt: skip
    for place, name in enumerate(names):
        (tmp_path / f"{place}.txt").write_text("precious")
        (copied / name).unlink(missing_ok=True)
        (copied / name).symlink_to(tmp_path / f"{place}.txt")
    (copied / SUMMARY).unlink()
    assert josrc("resume", copied, "--quiet") == 0
    assert josrc("audit", copied) == 0
    Store(copied / "audit").close()
    assert {path.read_text() for path in tmp_path.glob("*.txt")} == {"precious"}
