"""What features say of labels, against scikit-learn's discriminant and by what it may not know."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from josrc.verdicts import features as module
from josrc.verdicts.features import label_probabilities


def made(samples: int = 600, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (samples,), generator=generator)
    centres = torch.tensor([[0.0, 0, 0, 0], [2, 1, 0, 0], [0, 2, 2, 0]])
    return centres[labels] + torch.randn(samples, 4, generator=generator), labels


def test_the_discriminant_is_scikit_learn_s() -> None:
    points, labels = made()
    held, held_labels = made(50, seed=1)
    _, found = label_probabilities(points, labels, labels[:, None], 3, (held, held_labels))
    assert found is not None
    spread = points.std(dim=0)
    scaled = ((points - points.mean(dim=0)) / spread).double().numpy()
    theirs = LinearDiscriminantAnalysis(
        solver="lsqr", covariance_estimator=Shrunk(module.SHRINKAGE), store_covariance=True
    ).fit(scaled, labels.numpy())
    logits = theirs.decision_function(((held - points.mean(dim=0)) / spread).double().numpy())
    flat = torch.from_numpy(module.FLATTENING * logits).softmax(dim=1).numpy()
    wanted = flat[np.arange(50), held_labels.numpy()]
    np.testing.assert_allclose(found.numpy(), wanted, atol=2e-3)


class Shrunk:
    """Scikit-learn asks for the covariance of each class; ours is that inside of all classes."""

    def __init__(self, shrinkage: float) -> None:
        self.shrinkage = shrinkage

    def fit(self, points: np.ndarray) -> Shrunk:
        inside = np.cov(points.T, bias=True)
        alike = np.eye(len(inside)) * np.trace(inside) / len(inside)
        self.covariance_ = (1 - self.shrinkage) * inside + self.shrinkage * alike
        return self

    def get_params(self, deep: bool = True) -> dict[str, float]:
        return {"shrinkage": self.shrinkage}

    def set_params(self, **values: float) -> Shrunk:
        return self


def test_a_sample_s_own_label_has_no_say() -> None:
    points, labels = made()
    asked = torch.zeros(600, 1, dtype=torch.long)
    before, _ = label_probabilities(points, labels, asked, 3)
    changed = labels.clone()
    changed[7] = (changed[7] + 1) % 3
    after, _ = label_probabilities(points, changed, asked, 3)
    assert after[7] == before[7]
    assert (after != before).any(), "others learn from it"


def test_wrong_labels_are_unlikely_and_absent_classes_impossible() -> None:
    points, labels = made()
    both = torch.stack([labels, (labels + 1) % 3], dim=1)
    found, _ = label_probabilities(points, labels, both, 3)
    assert found[:, 0].median() > 0.6
    assert found[:, 1].median() < 0.2
    beyond, _ = label_probabilities(points, labels, torch.full((600, 1), 3), 4)
    assert (beyond == 0).all()


def test_features_without_any_spread_are_no_error() -> None:
    found, _ = label_probabilities(
        torch.ones(40, 3), torch.arange(40) % 2, torch.zeros(40, 1).long(), 2
    )
    assert found.isfinite().all()
