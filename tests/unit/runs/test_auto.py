"""Settings chosen from the data, against the formula they claim to follow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from josrc.runs.auto import batch_size_for, epochs_for, smoothing_for


def undecided(classes: int, smoothing: float) -> float:
    """P_clean of a uniform prediction: one minus the Jensen-Shannon divergence in bits."""
    label = np.full(classes, smoothing / (classes - 1))
    label[0] = 1 - smoothing
    return float(1 - jensenshannon(np.full(classes, 1 / classes), label, base=2) ** 2)


@pytest.mark.parametrize("classes", [3, 5, 10, 14, 37, 80])
def test_an_undecided_prediction_scores_as_with_the_papers_hundred_classes(classes: int) -> None:
    assert undecided(100, 0.6) == pytest.approx(0.79, abs=0.005)
    chosen = smoothing_for(classes)
    assert undecided(classes, chosen) <= 0.795
    assert chosen == 0.6 or undecided(classes, chosen + 0.01) > 0.795


def test_the_paper_stays_the_paper_and_two_classes_keep_some_smoothing() -> None:
    assert smoothing_for(100) == smoothing_for(1000) == 0.6
    assert smoothing_for(2) >= 0.05


@pytest.mark.parametrize(
    ("samples", "learned", "epochs"),
    [
        (500, False, 100),
        (100_000, False, 50),
        (10**6, False, 20),
        (500, True, 40),
        (10**6, True, 10),
    ],
)
def test_the_more_images_the_fewer_epochs(samples: int, learned: bool, epochs: int) -> None:
    assert epochs_for(samples, learned) == epochs


@pytest.mark.parametrize(
    ("samples", "size", "batch"), [(100, 32, 8), (700, 32, 32), (10**5, 32, 128), (10**5, 224, 64)]
)
def test_twenty_steps_an_epoch_or_more(samples: int, size: int, batch: int) -> None:
    assert batch_size_for(samples, size) == batch
