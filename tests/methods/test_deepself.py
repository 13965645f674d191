"""DeepSelf: prototypes on a circle, and what they make of labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import Tensor, nn

from batches import batch_of
from josrc.methods.deepself import DeepSelf, DeepSelfSettings, choose_prototypes

CLEAN, ID = 0, 1


def on_circle(*degrees: float) -> Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def test_density_and_distance_are_those_of_the_paper() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(30, 4))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    similarity = features @ features.T
    close = np.sort(similarity.flatten())[round(0.6 * 900) - 1]  # 40 % of all are above it
    density = np.sign(similarity - close).sum(axis=1)
    eta = np.empty(30)
    for i in range(30):
        denser = [similarity[i, j] for j in range(30) if density[j] > density[i]]
        eta[i] = max(denser) if denser else similarity[i].min()
    wanted = sorted((i for i in range(30) if eta[i] < 0.8), key=lambda i: (-density[i], i))[:5]
    found = choose_prototypes(torch.tensor(features), 5, 0.4, 0.8)
    assert found.tolist() == wanted


def test_a_second_heap_gets_a_prototype_of_its_own() -> None:
    # Five around 0 degrees, three around 90, and one far from all.
    features = on_circle(-4, -2, 0, 2, 4, 88, 90, 92, 180)
    best = choose_prototypes(features, 2, 0.5, 0.9).tolist()
    assert len([i for i in best if i < 5]) == 1
    assert len([i for i in best if 5 <= i < 8]) == 1


def test_a_class_with_too_few_apart_is_filled_up_with_the_densest() -> None:
    features = on_circle(0, 1, 2)
    assert len(choose_prototypes(features, 8, 0.4, 0.95)) == 3
    assert choose_prototypes(on_circle(10), 8, 0.4, 0.95).tolist() == [0]


def test_prototypes_lie_in_the_heap_of_right_samples_and_not_between_all() -> None:
    """Noise in the labels: of 100 samples of a class 40 are right, others from seven classes.

    What is like all of them a little has more similarities above a low bar than what is like the
    right ones very much.
    """
    torch.manual_seed(0)
    heaps = torch.eye(8)
    right = heaps[0] + 0.05 * torch.randn(40, 8)
    others = heaps[torch.arange(42) % 7 + 1] + 0.05 * torch.randn(42, 8)
    between = torch.ones(8) / 8**0.5 + 0.05 * torch.randn(18, 8)
    features = torch.nn.functional.normalize(torch.cat([right, others, between]), dim=1)
    low, paper = (choose_prototypes(features, 8, share, 1.1) for share in (0.6, 0.15))
    assert (low >= 82).all()
    assert (paper < 40).all()


class Circle:
    """A survey of two classes at 0 and at 90 degrees, the last label of each wrong."""

    seed = 0
    labels = torch.tensor([0] * 8 + [1] * 8)

    def features(self, network: nn.Module) -> Tensor:
        right = on_circle(-6, -4, -2, 0, 2, 4, 6)
        left = on_circle(84, 86, 88, 90, 92, 94, 96)
        return torch.cat([right, left[3:4], left, right[3:4]]).float() * 3


def deepself(**settings: float) -> DeepSelf:
    method = DeepSelf(DeepSelfSettings(**settings), nn.Identity)
    method.classes = 2
    method.register_buffer("corrected", Circle.labels.clone())
    method.register_buffer("likelihood", torch.ones(16))
    return method


def test_a_label_becomes_that_of_the_prototypes_most_alike_after_the_warm_up() -> None:
    method = deepself(warm_up=1, prototypes=3, similarity_limit=1.1)
    method.before_epoch(0, Circle())
    assert torch.equal(method.corrected, Circle.labels)
    method.before_epoch(1, Circle())
    assert method.corrected.tolist() == [0] * 7 + [1] * 8 + [0]
    assert method.likelihood[[7, 15]].tolist() == [0, 0]
    assert (method.likelihood[:7] == 1).all()


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_the_loss_weighs_both_labels(alpha: float) -> None:
    method = deepself(alpha=0.5, warm_up=2)
    assert [method.schedule(epoch, 4)["alpha"] for epoch in range(4)] == [0, 0, 0.5, 0.5]
    logits = np.random.default_rng(0).normal(size=(4, 2))
    method.corrected[:4] = torch.tensor([0, 1, 1, 0])
    label = torch.tensor([0, 0, 1, 1])
    batch = batch_of(torch.tensor(logits, dtype=torch.float32), label)
    result = method.step(batch, {"alpha": torch.tensor(alpha)})
    log_p = log_softmax(logits, axis=1)
    given, corrected = -log_p[range(4), [0, 0, 1, 1]].mean(), -log_p[range(4), [0, 1, 1, 0]].mean()
    assert result.loss.item() == pytest.approx((1 - alpha) * given + alpha * corrected, rel=1e-5)
    assert result.group.tolist() == [CLEAN, ID, CLEAN, ID]
