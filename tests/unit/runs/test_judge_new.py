"""Images that came since a run are judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import josrc as package
from commands import josrc
from reviewing import read
from two_rounds import Rounds, failing


def test_new_images_need_features_that_can_be_made(
    rounds: Rounds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new" / "one"
    new.mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(new / "fresh.png")
    said = failing(capsys, "audit", rounds.first, "--new", new.parent)
    assert "was made from features of your own" in said
    assert "does not have" in failing(capsys, "audit", rounds.first, "--new", rounds.photos)
    assert "nowhere" in failing(capsys, "audit", rounds.first, "--new", tmp_path / "nowhere")
    rated = failing(capsys, "audit", rounds.first, "--new", new.parent, "--noise-rate", "0.1")
    assert "without --new first" in rated
    (tmp_path / "new" / "one").rename(tmp_path / "new" / "emu")
    assert "emu" in failing(capsys, "audit", rounds.first, "--new", new.parent)


def test_new_images_are_judged_by_a_trained_network(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    before = (run / "audit" / "verdicts.csv").read_bytes()
    new = tmp_path / "new"
    for number, path in enumerate(sorted(pictures.glob("zero/*.png"))[:5]):
        label = "zero" if number else "three"
        (new / label).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, new / label / f"new-{number}.png")
    (new / "zero" / "torn.png").write_bytes(b"no picture")
    capsys.readouterr()
    assert josrc("audit", run, "--new", new) == 0
    said = capsys.readouterr().out
    assert "5 new images, judged by the trained network" in said
    assert "Could not be read: 1 file, such as" in said
    assert f"Report: {tmp_path / 'run-new' / 'audit' / 'report.html'}" in said
    lines = read(run / "audit" / "new-verdicts.csv")
    assert list(lines[0]) == list(read(run / "audit" / "verdicts.csv")[0])
    assert [line["given_label"] for line in lines].count("three") == 1
    assert all(Path(line["path"]).is_file() for line in lines)
    # The less likely the network finds a label, the more suspicious it is.
    predictor = package.Run.load(run).predictor(last=True)
    likely = predictor.probabilities([line["path"] for line in lines])
    own = [predictor.class_names.index(line["given_label"]) for line in lines]
    chance = likely[np.arange(5), own]
    scores = [float(line["score"]) for line in lines]
    assert (np.diff(np.array(scores)[np.argsort(chance)]) >= 0).all()
    assert max(scores) > min(scores)
    assert (run / "audit" / "verdicts.csv").read_bytes() == before
    # Where the run's own images lie among them, only the new ones are judged.
    both = tmp_path / "both.csv"
    rows = [f"{path},zero" for path in sorted(pictures.glob("zero/*.png"))[:3]]
    rows.append(f"{new / 'zero' / 'new-1.png'},zero")
    both.write_text("\n".join(["path,label", *rows]) + "\n")
    said = failing(capsys, "audit", run, "--new", both)
    assert "allow" in said
