"""Short trainings on digits half of whose labels are wrong.

Few images without augmentation, at a high rate: plain training learns them by heart in seconds.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest

from josrc.data.registry import open_source
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure

pytestmark = pytest.mark.slow
# By how many points of test accuracy each method must be better than plain training.
MARGINS = {
    "josrc": 10,
    "coteaching": 15,
    "coteaching-plus": 10,
    "jocor": 15,
    "f-correction": 3,
    "pencil": 15,
    "joint-optim": 10,
    "dividemix": 20,
    "m-correction": 15,
    "mlnt": 10,
    "metacleaner": 0,
    "deepself": 0,
    "cleannet": 0,
}
FAST = {"model": {"width": 0.25}, "views": {"pad": 0}, "optimizer": {"lr": 0.003}}
SMALLER = {
    "mlnt": {"method": {"synthetic": 1}},
    "joint-optim": {"stop_on_collapse": False},  # it begins anew, with labels that it learned
}


def accuracy(method: str, folder: Path) -> float:
    layers = [FAST, SMALLER.get(method, {})]
    noise = {"noise": "symmetric", "rate": 0.5}
    config = configure("digits-o", method=method, epochs=20, layers=layers, **noise)
    whole = open_source(config.data)
    source = whole.take(np.arange(700))
    trainer = Trainer(with_noise_rate(config, source), source, RunFolder(folder))
    trainer.folder.create(config, source, trainer.device)
    trainer.run()
    # The last five epochs: Joint-Optim begins anew shortly before the last ten.
    return statistics.fmean(row["test_accuracy"] or 0 for row in trainer.rows[-5:])


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> float:
    return accuracy("standard", tmp_path_factory.mktemp("standard") / "run")


@pytest.mark.parametrize("method", MARGINS)
def test_half_wrong_labels_are_withstood(method: str, standard: float, tmp_path: Path) -> None:
    assert accuracy(method, tmp_path / "run") > standard + MARGINS[method]
