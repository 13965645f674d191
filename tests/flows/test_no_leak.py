"""No method learns from the truth but those that say so: without it the same weights come out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from josrc.data.registry import open_source
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.methods import method_names
from josrc.runs.start import configure

# The noise rate of the data, or the truth of a share of it, is what these are told on purpose.
TOLD = {"coteaching", "coteaching-plus", "jocor", "cleannet"}
SMALL = {"model": {"width": 0.125}, "views": {"pad": 0}, "batch_size": 64}


def weights(method: str, folder: Path, shuffled: bool) -> dict[str, torch.Tensor]:
    noise = {"noise": "symmetric", "rate": 0.5}
    config = configure("digits-o", method=method, epochs=3, layers=[SMALL], device="cpu", **noise)
    source = open_source(config.data).take(np.arange(200))
    if shuffled:
        order = np.random.default_rng(0).permutation(200)
        test = np.random.default_rng(0).permutation(source.test_labels)
        source = replace(source, true=source.true[order], test_labels=test)
    trainer = Trainer(config, source, RunFolder(folder))
    trainer.folder.create(config, source, trainer.device)
    trainer.run()
    return trainer.state.method.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(method_names()) - TOLD))
def test_without_the_truth_the_same_is_learned_to_the_last_bit(method: str, tmp_path: Path) -> None:
    own, other = (weights(method, tmp_path / str(s), s) for s in (False, True))
    assert own.keys() == other.keys()
    assert all(torch.equal(value, other[key]) for key, value in own.items())
