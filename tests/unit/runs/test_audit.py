"""Audits of real runs: through the command line, of every method, finished or not."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import josrc as library
from commands import josrc
from josrc.data.registry import open_source
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.methods import get_method, method_names
from josrc.runs.audit import audit, read_evidence
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure
from josrc.verdicts.findings import Findings
from josrc.verdicts.judge_run import read_ledger
from josrc.verdicts.measures import measure
from josrc.verdicts.rule import judge
from josrc.verdicts.table import SCORE

TITLES = ["clean", "mislabelled", "out_of_distribution"]


def verdicts(run: Path) -> list[dict[str, str]]:
    with (run / "audit" / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits with other noise than the rule was chosen on."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    noise = ["--noise", "symmetric", "--rate", "0.3", "--noise-seed", "5"]
    short = ["--epochs", "16", "--device", "cpu", "--out", folder]
    assert josrc("train", "digits-o", *noise, *short) == 0
    return folder


def test_wrong_labels_and_foreign_digits_are_found(run: Path) -> None:
    rows = verdicts(run)
    with np.load(run / "noise.npz") as labels:
        true, kind, given = labels["true"], labels["kind"], labels["given"]
    assert [row["given_label"] for row in rows] == [str(label) for label in given]
    assert {row["path"] for row in rows} == {""}
    group = np.array([TITLES.index(row["verdict"]) for row in rows])
    wrong = 1 - np.array([float(row["p_clean"]) for row in rows])
    ood = np.array([float(row["p_ood"]) for row in rows])
    suggested = np.array([int(row["suggested_label"] or -1) for row in rows])
    found = measure(group, wrong, ood, suggested, true, kind)
    for name in TITLES:
        assert (found[f"precision_{name}"] or 0) > 0.7, name
        assert (found[f"recall_{name}"] or 0) > 0.7, name
    assert (found["auroc_wrong"] or 0) > 0.97
    assert (found["auroc_ood"] or 0) > 0.93
    mislabelled = (group == 1) & (kind == 1)
    assert (suggested[mislabelled] == true[mislabelled]).mean() > 0.95
    summary = json.loads((run / "audit" / "summary.json").read_text())
    assert summary["noise_rate"] == pytest.approx((kind > 0).mean(), abs=0.08)
    assert summary["ood_share"] == pytest.approx((kind == 2).mean(), abs=0.1)


def test_auditing_again_writes_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "audit" / "verdicts.csv").read_bytes()
    (run / "audit" / "verdicts.csv").unlink()
    assert josrc("audit", run) == 0
    assert (run / "audit" / "verdicts.csv").read_bytes() == before
    counts = json.loads((run / "audit" / "summary.json").read_text())["counts"]
    said = " ".join(capsys.readouterr().out.split())
    assert f"Verdicts: {counts['clean']} clean, {counts['mislabelled']} mislabelled" in said
    assert "verdicts.csv" in said
    assert "Report: " in said
    assert "Train longer" not in said


def test_a_known_noise_rate_is_kept_beside_the_verdicts_until_the_next_audit(run: Path) -> None:
    before = (run / "audit" / "verdicts.csv").read_bytes()
    assert josrc("audit", run, "--noise-rate", "0.1") == 0
    summary = json.loads((run / "audit" / "summary.json").read_text())
    assert summary["known_noise_rate"] == 0.1
    assert summary["noise_rate"] == pytest.approx(0.1, abs=1e-3)
    assert summary["noise_rate_low"] == 0.1
    assert josrc("audit", run, "--noise-rate", "1.5") == 2
    assert josrc("audit", run, "--noise-rate", "0.1", "--ood-rate", "0.3") == 2
    assert josrc("audit", run, "--ood-rate", "0") == 0
    summary = json.loads((run / "audit" / "summary.json").read_text())
    assert (summary["known_ood_rate"], summary["counts"]["out_of_distribution"]) == (0.0, 0)
    assert josrc("audit", run) == 0
    assert (run / "audit" / "verdicts.csv").read_bytes() == before
    assert json.loads((run / "audit" / "summary.json").read_text())["known_noise_rate"] is None


@pytest.mark.parametrize("method", method_names())
def test_every_method_trains_and_judges(tmp_path: Path, method: str) -> None:
    arguments = ["model.width=0.25", "--method", method, "--epochs", "2", "--batch-size", "256"]
    noise = ["--noise", "symmetric", "--rate", "0.5", "--device", "cpu", "--quiet"]
    assert josrc("train", "digits-o", *noise, *arguments, "--out", tmp_path / "run") == 0

    epochs = RunFolder(tmp_path / "run").read_metrics()
    assert len(epochs) == 2
    for epoch in epochs:
        assert math.isfinite(epoch["loss"] or math.nan)
        assert 0 <= (epoch["test_accuracy"] or 0) <= 100
        groups = [epoch[name] for name in ("n_clean", "n_id", "n_ood")]
        assert sum(groups) == 1436 if get_method(method).selects else groups == [None] * 3

    rows = verdicts(tmp_path / "run")
    assert len(rows) == 1436
    assert {row["verdict"] for row in rows} <= set(TITLES)
    for row in rows:
        assert 0 <= float(row["p_clean"]) <= 1
        assert 0 <= float(row["p_clean"]) + float(row["p_ood"]) <= 1.0001
        assert 0 <= float(row["confidence"]) <= 1
        assert math.isfinite(float(row["score"]))
        assert (row["verdict"] == "mislabelled") == (row["suggested_label"] != "")
        assert row["suggested_label"] != row["given_label"]
        assert re.match(r"In its first (look|\d looks) the model ", row["reason"])

    images = load_digits().images[:20, :, :, None]
    predicted = library.Run.load(tmp_path / "run").predict(images / 16)
    assert set(predicted) <= {str(digit) for digit in range(8)}


@pytest.mark.slow
@pytest.mark.parametrize("method", method_names())
def test_every_method_predicts_evaluates_and_exports(tmp_path: Path, method: str) -> None:
    """With the networks that were trained and no others."""
    run = tmp_path / "run"
    short = {"epochs": 2, "batch_size": 256, "device": "cpu", "settings": {"model.width": 0.25}}
    noise = {"noise": "symmetric", "rate": 0.5}
    finished = library.train("digits-o", method=method, out=run, **noise, **short)
    images = open_source(finished.config.data).test_images
    assert finished.model is not None
    assert len(finished.predict(images.pixels)) == 361  # type: ignore[union-attr]
    assert josrc("eval", run, "digits-o", "--last", "--quiet") == 0
    results = json.loads((run / "eval" / "digits-o-last" / "results.json").read_text())
    if len(finished.predictor().networks) == 1:  # of two the mean of accuracies is another number
        assert results["accuracy"] == pytest.approx(finished.summary["final"])
    assert josrc("export", run, "--format", "torch") == 0


def stopped(folder: Path, steps: int) -> None:
    """A run that was interrupted after a few steps of its first epoch."""
    config = configure("digits-o", noise="symmetric", rate=0.3, epochs=3, device="cpu")
    source = open_source(config.data)
    config = with_noise_rate(config, source)
    trainer = Trainer(config, source, RunFolder(folder))
    trainer.folder.create(config, source, trainer.device)
    trainer.state.begin_epoch(config, 0)
    for size in trainer.state.loader.sizes()[:steps]:
        trainer.stepper(size)
        trainer.position += size
    trainer.save()


def test_a_run_stopped_in_its_first_epoch_can_be_audited(tmp_path: Path) -> None:
    stopped(tmp_path / "run", steps=5)
    assert josrc("audit", tmp_path / "run") == 0
    rows = verdicts(tmp_path / "run")
    unseen = [row for row in rows if row["reason"] == "The model has not seen this image yet."]
    seen = int((read_ledger(RunFolder(tmp_path / "run").checkpoint)["visits"] > 0).sum())
    assert 0 < seen < 1436
    assert len(unseen) == 1436 - seen
    assert {(row["verdict"], row["confidence"]) for row in unseen} == {("clean", "0.0000")}
    seen_rows = [row for row in rows if row not in unseen]
    assert all("its first look" in row["reason"] for row in seen_rows)


def test_a_run_without_a_step_has_nothing_to_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped(tmp_path / "run", steps=0)
    assert josrc("audit", tmp_path / "run") == 2
    assert "not seen any sample" in capsys.readouterr().err


def test_a_ledger_of_another_version_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped(tmp_path / "run", steps=1)
    checkpoint = RunFolder(tmp_path / "run").checkpoint
    tensors, metadata = load_tensors(checkpoint)
    tensors["ledger.confidence"] = tensors.pop("ledger.mean_confidence")
    save_tensors(checkpoint, tensors, metadata)
    assert josrc("audit", tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert "another version of josrc" in error
    assert "mean_confidence" in error
    checkpoint.write_bytes(b"garbage")
    assert josrc("audit", tmp_path / "run") == 2
    assert "can't be read" in capsys.readouterr().err


def test_a_folder_without_a_checkpoint_or_run_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped(tmp_path / "run", steps=1)
    RunFolder(tmp_path / "run").checkpoint.unlink()
    assert josrc("audit", tmp_path / "run") == 2
    assert "has no checkpoint yet" in capsys.readouterr().err
    assert josrc("audit", tmp_path / "nothing") == 2
    assert not (tmp_path / "nothing").exists()


def test_a_ledger_of_other_data_is_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "run", steps=1)
    checkpoint = RunFolder(tmp_path / "run").checkpoint
    tensors, metadata = load_tensors(checkpoint)
    short = {k: v[:100].clone() if k.startswith("ledger.") else v for k, v in tensors.items()}
    save_tensors(checkpoint, short, metadata)
    with pytest.raises(UserError, match="knows 100 samples, but the data has 1,436"):
        audit(tmp_path / "run")


def test_verdicts_from_memory_and_from_the_checkpoint_are_the_same(run: Path) -> None:
    ledger = read_ledger(RunFolder(run).checkpoint)
    evidence = read_evidence(RunFolder(run))
    assert evidence is not None
    with np.load(run / "noise.npz") as labels:
        again = judge(Findings.of(ledger, evidence.features), labels["given"])
    rows = verdicts(run)
    assert [TITLES[group] for group in again.group] == [row["verdict"] for row in rows]
    assert [SCORE.format(score) for score in again.score] == [row["score"] for row in rows]


def test_a_finished_run_without_verdicts_is_still_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--method", "standard", "--epochs", "1", "--device", "cpu", "--quiet"]
    assert josrc("train", "digits-o", *short, "--out", tmp_path / "run") == 0
    shutil.rmtree(tmp_path / "run" / "audit")
    capsys.readouterr()
    assert josrc("resume", tmp_path / "run") == 0
    said = capsys.readouterr().out
    assert "has finished" in said
    assert "Verdicts" not in said
    assert josrc("audit", tmp_path / "run") == 0
    assert len(verdicts(tmp_path / "run")) == 1436


def test_training_ends_with_a_report_that_can_be_written_again(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "audit" / "report.html"
    before = path.read_text()
    found = json.loads(before.split('type="application/json">')[1].split("</script>")[0])
    wrong = [row for row in verdicts(run) if row["verdict"] != "clean"]
    assert len(found["samples"]) >= len(wrong)
    assert all(sample["image"] and sample["pixels"] for sample in found["samples"])
    with np.load(run / "noise.npz") as labels:
        true = labels["true"]
    assert all(sample["true"] == true[sample["number"]] for sample in found["samples"])
    assert [chart["title"] for chart in found["charts"]] == [
        "Test accuracy",
        "Images in each group",
        "Precision of each group",
        "Threshold of the clean likelihood",
    ]
    path.unlink()
    assert josrc("report", run) == 0
    assert f"Report: {path}" in " ".join(capsys.readouterr().out.split())
    assert path.read_text() == before
