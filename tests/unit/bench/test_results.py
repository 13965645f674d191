"""What a result holds, and what counts as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench_results import PutResult
from bench_runs import Asked, run
from josrc.bench.provenance import commit


@pytest.mark.usefixtures("small_cifar")
def test_a_result_holds_the_summary_and_every_epoch(tmp_path: Path) -> None:
    run(tmp_path, cells=["symmetric-0.2"], options={"epochs": 2, "batch_size": 100})
    place = "trial/table2/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json"
    result = json.loads((tmp_path / "results" / place).read_text())

    assert (result["method"], result["noise"], result["rate"]) == ("josrc", "symmetric", 0.2)
    assert result["metrics"]["epoch"] == [1, 2]
    assert len(result["metrics"]["test_accuracy"]) == 2
    assert result["versions"]["torch"]
    assert result["settings"]["variant"] == "full"
    assert result["configuration"]["batch_size"] == 100
    assert result["configuration"]["optimizer.decay_start"] == 1  # 80 of 200
    assert result["commit"] == commit()


def test_only_a_result_counts_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_result: PutResult
) -> None:
    asked = Asked(monkeypatch)
    broken, other = (
        f"results/trial/table2/cifar80n-o-{cell}/josrc/augmented"
        for cell in ("symmetric-0.2", "asymmetric-0.4")
    )
    put_result(broken).write_text("{ not json")
    put_result(other, epochs=2)
    log = run(tmp_path)
    assert "2 runs, 0 of them already done" in log
    assert f"Left out: {tmp_path / broken / 'seed-0.json'} is not a result" in log
    assert [asked["noise"] for asked in asked.runs] == ["asymmetric"], "a trial of another length"
    assert "2 runs, 1 of them already done" in run(tmp_path, options={"epochs": 2})
