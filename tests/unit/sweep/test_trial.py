"""A trial as its worker runs it, with somebody else than Ray to report to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from josrc.sweep.plan import SweepPlan, Trial, trials_of
from josrc.sweep.record import SweepFolder
from josrc.sweep.trial import run_trial

FIXED: dict[str, Any] = {
    "data.noise": "symmetric",
    "data.rate": 0.3,
    "method.name": "standard",
    "epochs": 4,
    "device": "cpu",
    "plant": 0.05,
}


def trial(**settings: Any) -> Trial:
    (made,) = trials_of(SweepPlan(data="digits-o", fixed=FIXED | settings))
    return made


class Reports(list[tuple[int, float]]):
    """What was reported; the sweep is stopped at one epoch, as Ray does it."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop = stop

    def __call__(self, epoch: int, value: float) -> None:
        self.append((epoch, value))
        if epoch == self.stop:
            raise SystemExit


@pytest.mark.slow
def test_a_trial_that_was_stopped_reports_what_it_knows_and_goes_on(tmp_path: Path) -> None:
    made, folder = trial(), SweepFolder(tmp_path)
    first = Reports(stop=3)
    with pytest.raises(SystemExit):
        run_trial(made, folder, "estimated_precision", first)
    assert folder.state(made.name) == "interrupted"
    assert folder.reports(made.name) == first, "kept before it is told"
    done = len(folder.run(made.name).read_metrics())
    second = Reports()
    run_trial(made, folder, "estimated_precision", second)
    assert folder.state(made.name) == "finished"
    epochs = [epoch for epoch, _ in second]
    assert epochs == [*range(epochs[0], 5)], "each epoch once"
    assert set(first[:-1]) <= set(second), "what the checkpoint knows is reported again"
    assert second == folder.reports(made.name)
    audit = folder.run(made.name).read_audit()
    assert audit is not None
    assert second[-1] == (4, audit["estimated_precision"])
    rows = folder.run(made.name).read_metrics()
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert done <= 3


def test_a_training_that_fails_has_ended(tmp_path: Path) -> None:
    made, folder = trial(**{"optimizer.name": "sgd", "optimizer.lr": 1e6}), SweepFolder(tmp_path)
    run_trial(made, folder, None, Reports())
    assert folder.state(made.name) == "failed"
    assert folder.has_ended(made.name)


def test_what_may_work_next_time_is_not_an_end(tmp_path: Path) -> None:
    made, folder = trial(**{"model.weights": str(tmp_path / "no-such.pt")}), SweepFolder(tmp_path)
    run_trial(made, folder, None, Reports())
    assert not folder.has_ended(made.name)
    assert folder.state(made.name) == "not begun"
