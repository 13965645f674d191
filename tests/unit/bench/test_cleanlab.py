"""cleanlab's side of the comparison."""

from __future__ import annotations

import numpy as np
import torch

from josrc.bench.cleanlab import Fold, judge_with_cleanlab, predict
from josrc.data.registry import open_source
from josrc.engine.state import TrainState
from josrc.runs.start import configure


def test_features_are_what_the_last_layer_sees() -> None:
    config = configure("digits-o", method="standard")
    source = open_source(config.data)
    state = TrainState(config, source, torch.device("cpu"))
    features, probabilities = predict(state, source.images.pixels[:50])
    head = state.method.network.head
    assert features.shape == (50, head[-1].in_features)
    with torch.no_grad():
        again = head[-1](torch.from_numpy(features)).softmax(dim=1)
    np.testing.assert_allclose(probabilities, again.numpy(), rtol=1e-4)
    assert state.method.training


def test_cleanlab_judges_what_anybody_would_judge() -> None:
    generator = np.random.default_rng(0)
    true = np.arange(300) % 3
    given = np.where(np.arange(300) % 20 == 0, (true + 1) % 3, true)
    probabilities = 0.9 * np.eye(3)[true] + 0.1 / 3 + generator.uniform(0, 0.01, (300, 3))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    distance = generator.normal(1, 0.1, 300)
    distance[7] = 5
    rows = np.array_split(np.arange(300), 5)
    folds = [
        Fold(i, probabilities[i], np.exp(-distance[i]), distance[i], np.array(0), np.array(0))
        for i in rows
    ]
    judged = judge_with_cleanlab(folds, given)
    assert judged.group[7] == 2
    assert (judged.group[given != true] == 1).all()
    assert (judged.group[(given == true)] == 0).mean() > 0.98
    np.testing.assert_array_equal(judged.suggested[given != true], true[given != true])
    assert judged.ood_score.argmax() == 7
