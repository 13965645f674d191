"""Runs that an earlier josrc left still open, with settings that no longer exist in their files.

``earlier-runs.zip`` holds three of them as they were written: ``named`` on digits, ``own`` on the
folder ``photos``, and ``stopped``, whose first epoch of three is done.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import josrc as library
from commands import josrc
from josrc._console import say_once
from josrc.config import DataKind
from josrc.engine.checkpoint import load_tensors, save_tensors

IGNORED = (
    "ignoring obsolete settings: method.guard_empty, method.guard_logarithms, "
    "method.strict_threshold."
)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("earlier-runs.zip")) as archive:
        archive.extractall(tmp_path)
    say_once.cache_clear()
    return tmp_path


def test_networks_predict_evaluate_and_export(
    earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, photos = earlier / "own", earlier / "photos"
    assert josrc("predict", run, photos, "--out", earlier / "p.csv") == 0
    with (earlier / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 32
    assert {row["predicted_label"] for row in rows} <= {"cat", "dog"}
    assert josrc("eval", run, photos, "--out", earlier / "eval") == 0
    assert josrc("export", run, "--format", "torch", "--out", earlier / "m.pt2") == 0
    assert capsys.readouterr().err.count(IGNORED) == 1, "one line, however often it is read"


@pytest.mark.parametrize(
    ("name", "command"), [("own", "report"), ("own", "audit"), ("named", "report")]
)
def test_verdicts_and_report_are_written_again(
    earlier: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = earlier / name
    before = library.Run.load(run).verdicts()
    assert list(before["score"]) == list(before["p_clean"]), "they had no scores of their own"
    say_once.cache_clear()
    capsys.readouterr()
    data = [] if name == "named" else ["--data-root", earlier / "photos"]
    assert josrc(command, run, *data) == 0
    assert capsys.readouterr().err.count(IGNORED) == 1
    assert (run / "audit" / "report.html").is_file()
    after = library.Run.load(run).verdicts()
    assert list(after["given_label"].items()) == list(before["given_label"].items())
    if command == "audit":  # the photos have moved
        moved = before["path"].str.replace("/old/photos", str(earlier / "photos"))
        assert list(after["path"]) == list(moved)


def test_the_review_shows_its_images(
    earlier: Path, serving: Callable[..., tuple[Any, str]]
) -> None:
    import urllib.request

    _, address = serving(earlier / "own", "--data-root", str(earlier / "photos"))
    address, token = address.split("/?token=")
    with urllib.request.urlopen(f"{address}/thumbnail/0?token={token}") as answer:
        assert answer.headers["content-type"] == "image/webp"
    with urllib.request.urlopen(f"{address}/api/queue?limit=200&token={token}") as answer:
        queue = json.load(answer)["samples"]
    assert len(queue) == len(library.Run.load(earlier / "own").verdicts())
    clean = [sample["p_clean"] for sample in queue]
    assert clean == sorted(clean), "the most suspicious first"


def test_a_stopped_run_goes_on_to_its_end(earlier: Path) -> None:
    assert josrc("resume", earlier / "stopped", "--quiet") == 0
    run = library.Run.load(earlier / "stopped")
    assert [row["epoch"] for row in run.metrics] == [1, 2, 3]
    assert run.config.data.kind is DataKind.BUILTIN


def test_a_run_does_not_go_on_without_what_it_had_switched_off(
    earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = earlier / "stopped" / "checkpoint" / "state.safetensors"
    tensors, metadata = load_tensors(checkpoint)
    metadata["config"]["method.guard_empty"] = False
    save_tensors(checkpoint, tensors, metadata)
    assert josrc("resume", earlier / "stopped", "--quiet") == 2
    assert "method.guard_empty was False and is now True" in capsys.readouterr().err


def test_a_file_of_settings_of_an_earlier_run_serves_a_new_one(
    earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = earlier / "named" / "config.yaml"
    out = ["--epochs", "1", "--quiet", "--out", earlier / "again"]
    assert josrc("train", "digits-o", "--config", config, *out) == 0
    assert capsys.readouterr().err.count(IGNORED) == 1
    assert josrc("train", "digits-o", "method.guard_empty=false", *out, "--overwrite") == 2
    assert "Unknown key 'method.guard_empty'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("digits-o", DataKind.BUILTIN),
        ("food101n", DataKind.PUBLISHED),
        ("arrays", DataKind.ARRAYS),
        ("hf:somebody/flowers", DataKind.HUB),
        ("/gone/photos", DataKind.FOLDER),
        ("/gone/photos.csv", DataKind.MANIFEST),
    ],
)
def test_a_run_that_does_not_say_what_kind_of_data_it_had_is_known_by_its_name(
    earlier: Path, name: str, kind: DataKind
) -> None:
    config = earlier / "named" / "config.yaml"
    config.write_text(config.read_text().replace("name: digits-o", f"name: {name}"))
    assert library.Run.load(earlier / "named").config.data.kind is kind
