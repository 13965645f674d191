"""The estimate of the time a suite takes."""

from __future__ import annotations

import pytest

from josrc.bench.progress import SuiteProgress


def test_the_estimate_counts_only_work_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("josrc.bench.progress.time.monotonic", lambda: now[0])
    progress = SuiteProgress("table2", runs=3)
    progress.started(epochs=10, done=5)
    for epoch in range(6, 11):
        now[0] += 20  # 100 s for the half of a run: 200 s a run
        progress.epoch_ended({"epoch": epoch})
    assert progress.pace == pytest.approx(200)
    assert progress.run_ended() == "run 1 of 3, about 7 min left"
    assert progress.bar.tasks[0].fields["run"] == 1
