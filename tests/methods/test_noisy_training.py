"""Short trainings on digits half of whose labels are wrong.

Without augmentation and at a high rate plain training learns the wrong labels by heart in seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import josrc

FAST = {"model.width": 0.25, "views.pad": 0, "optimizer.lr": 0.003}
SMALLER = {"mlnt": {"method.synthetic": 1}}
# By how many points of test accuracy each method must be better than plain training.
MARGINS = {
    "f-correction": 5,
    "pencil": 25,
    "joint-optim": 15,
    "dividemix": 30,
    "m-correction": 20,
    "mlnt": 15,
    "metacleaner": 5,
    "deepself": 5,
    "cleannet": 15,
}


def accuracy(method: str, folder: Path) -> float:
    settings = FAST | SMALLER.get(method, {})
    noise = {"noise": "symmetric", "rate": 0.5}
    run = josrc.train("digits-o", method=method, epochs=20, settings=settings, out=folder, **noise)
    return float(run.summary["last10_mean"])


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> float:
    return accuracy("standard", tmp_path_factory.mktemp("standard") / "run")


@pytest.mark.parametrize(("method", "margin"), MARGINS.items())
def test_half_wrong_labels_are_withstood(
    method: str, margin: float, standard: float, tmp_path: Path
) -> None:
    assert accuracy(method, tmp_path / "run") > standard + margin
