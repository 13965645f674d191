"""Two rounds on the same images, and images that came since, through the command line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import josrc as package
from commands import josrc
from josrc.runs.compare import compare_runs
from josrc.verdicts.decided import read_sample_decisions
from reviewing import decide, read
from two_rounds import Rounds, failing


def test_a_comparison_counts_samples_labels_verdicts_and_decisions(
    rounds: Rounds, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert josrc("compare", rounds.first, rounds.second) == 0
    said = capsys.readouterr().out
    assert (
        f"299 images are in both runs, 1 only in {rounds.first}; 4 have a different label" in said
    )
    found = compare_runs(rounds.first, rounds.second)
    assert (found.both, found.gone, found.new, found.relabelled) == (299, 1, 0, 4)
    assert sum(found.verdicts.values()) == 299
    assert found.decisions["relabel", "confirmed"] == 3
    assert found.decisions["relabel", "contradicted"] == 1
    assert found.decisions["keep", "contradicted"] == 1
    assert found.decisions["remove", "gone"] == 1
    assert "Of 6 decisions" in said
    assert "3 are confirmed" in said
    assert "relabelled: 3 confirmed, 1 contradicted" in said
    # The two that was called one, and the zero that was kept a one.
    assert {Path(one.id).name for one in found.contradicted} == {"two-20.png", "zero-03.png"}
    against = next(one for one in found.contradicted if one.id.endswith("two-20.png"))
    assert against.decided == "now one"
    assert against.now == "it looks like 'two', not 'one'"
    assert re.search(r"mislabelled +\d+ +\d+", said)
    assert re.search(r"two-20\.png: now one, but it looks like 'two', not 'one' \(0\.\d\d\)", said)


def test_decisions_and_an_earlier_run_stand_in_the_report(
    rounds: Rounds, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("report", rounds.second, "--compare", rounds.first) == 0
    page = (rounds.second / "audit" / "report.html").read_text()
    assert "Compared with an earlier run" in page
    assert "it looks like &#39;two&#39;, not &#39;one&#39;" in page
    assert 'id="decisions"' not in page, "nobody has decided on anything there"
    assert josrc("report", rounds.first) == 0
    page = (rounds.first / "audit" / "report.html").read_text()
    assert "People had decided on 6 images when this report was written:" in page
    assert "1 kept, 4 relabelled, 1 removed." in page
    assert '"decided":["relabel","now zero"]' in page
    assert "Compared with an earlier run" not in page


def test_runs_that_can_not_be_compared(
    rounds: Rounds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the same run" in failing(capsys, "compare", rounds.first, rounds.first)
    assert "nowhere" in failing(capsys, "compare", rounds.first, tmp_path / "nowhere")
    labels = ["cat", "dog"] * 60
    other = tmp_path / "OTHER"
    package.scan(labels, features=np.random.default_rng(0).normal(size=(120, 8)), out=other)
    assert "no image in common" in failing(capsys, "compare", rounds.first, other)
    unfinished = tmp_path / "UNFINISHED"
    shutil.copytree(rounds.first, unfinished)
    (unfinished / "summary.json").unlink()
    assert "josrc resume" in failing(capsys, "compare", unfinished, rounds.second)
    silent = tmp_path / "SILENT"
    shutil.copytree(rounds.first, silent)
    (silent / "audit" / "verdicts.csv").unlink()
    assert "josrc audit" in failing(capsys, "compare", rounds.second, silent)
    assert "josrc audit" in failing(capsys, "report", rounds.second, "--compare", silent)
    damaged = tmp_path / "DAMAGED"
    shutil.copytree(rounds.first, damaged)
    (damaged / "audit" / "decisions.sqlite").write_bytes(b"no database" * 100)
    for name in ("decisions.sqlite-wal", "decisions.sqlite-shm"):
        (damaged / "audit" / name).unlink(missing_ok=True)
    assert "decisions.sqlite can't be opened" in failing(capsys, "compare", damaged, rounds.second)


def test_nobody_has_decided(rounds: Rounds, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_sample_decisions(rounds.second / "audit") == {}
    capsys.readouterr()
    assert josrc("compare", rounds.second, rounds.first) == 0
    assert "There are no decisions in" in capsys.readouterr().out


def test_new_images_lead_on_to_report_decisions_and_a_corrected_set(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, grown = tmp_path / "run", tmp_path / "pictures"
    shutil.copytree(finished, run)
    shutil.copytree(pictures, grown)
    for number, path in enumerate(sorted(pictures.glob("zero/*.png"))[:6]):
        label = "zero" if number else "three"  # and none of the other classes
        Image.open(path).rotate(3).save(grown / label / f"new-{number}.png")
    (grown / "zero" / "torn.png").write_bytes(b"no picture")
    capsys.readouterr()
    out = tmp_path / "judged"
    words = ("audit", run, "--new", grown, "--out", out)
    assert josrc(*words, "--data-root", grown) == 0
    said = capsys.readouterr().out
    assert "6 new images, judged by the trained network" in said
    assert (
        f"Left out, as the run has them already: {len(list(pictures.glob('*/*.png')))} im" in said
    )
    lines = read(out / "audit" / "verdicts.csv")
    assert len(lines) == 6
    assert (run / "audit" / "new-verdicts.csv").read_text() == (
        (out / "audit" / "verdicts.csv").read_text()
    )
    assert "judged <bdi>by the trained network" in (out / "audit" / "report.html").read_text()
    assert "contains a run" in failing(capsys, *words, "--data-root", grown)

    # People decide on them: classes that no new image has can be chosen, too.
    wrong = next(row for row, line in enumerate(lines) if line["given_label"] == "three")
    decide(out, ([wrong], "label", "one"))
    assert josrc("report", out) == 0
    tasks = tmp_path / "tasks.json"
    assert josrc("apply", out, "--to", "label-studio", tasks) == 0
    capsys.readouterr()
    cleaned = tmp_path / "cleaned.csv"
    assert josrc("apply", out, "--out", cleaned) == 0
    assert "Since the training" not in capsys.readouterr().out, "known images are not new"
    labels = {row["id"]: row["label"] for row in read(cleaned)}
    assert labels == {
        line["id"]: "one" if row == wrong else "zero" for row, line in enumerate(lines)
    }
    assert "contains 1 review decision" in failing(
        capsys, *words, "--data-root", grown, "--overwrite"
    )
    # It has no network, and its verdicts need another run's.
    judge = f"josrc audit {run} --new PATH"
    assert judge in failing(capsys, "audit", out)
    assert judge in failing(capsys, "audit", out, "--new", pictures)
    assert "go with --new" in failing(capsys, "audit", run, "--out", tmp_path / "other")
