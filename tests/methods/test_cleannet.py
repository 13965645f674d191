"""CleanNet: its comparison in numpy, its loss by hand, and that it learns to compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor, nn

import josrc
from batches import batch_of
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.errors import UserError
from josrc.methods.cleannet import (
    CleanNet,
    CleanNetSettings,
    Comparison,
    class_references,
    draw_pairs,
    verification,
    verification_loss,
)
from josrc.models import Classifier
from josrc.runs.start import configure

CLEAN, ID = 0, 1
NOISE = {"noise": "symmetric", "rate": 0.5}


def digits() -> Source:
    return open_source(configure("digits-o", method="standard", **NOISE).data)


def test_the_similarity_is_the_cosine_of_both_encodings() -> None:
    torch.manual_seed(0)
    net = Comparison(3)
    features, references = torch.randn(4, 3), torch.randn(2, 5, 3)
    label = torch.tensor([0, 1, 1, 0])
    found, rebuilt = net(features, references, label)

    def linear(layer: nn.Module, values: np.ndarray) -> np.ndarray:
        weight, bias = layer.weight.detach().double().numpy(), getattr(layer, "bias", None)
        return values @ weight.T + (0 if bias is None else bias.detach().double().numpy())

    def encode(row: np.ndarray) -> np.ndarray:
        hidden = np.tanh(linear(net.reference[2], np.tanh(linear(net.reference[0], row))))
        score = linear(net.attention[2], np.tanh(linear(net.attention[0], hidden)))
        summed = (softmax(score, axis=0) * hidden).sum(axis=0)
        return np.tanh(linear(net.summary[0], summed))

    inside = np.tanh(linear(net.query[0], features.double().numpy()))
    query = np.tanh(linear(net.query[2], inside))
    classes = [encode(row) for row in references.double().numpy()]
    for i in range(4):
        own = classes[label[i]]
        cosine = query[i] @ own / np.linalg.norm(query[i]) / np.linalg.norm(own)
        assert found[i].item() == pytest.approx(cosine, rel=1e-4)
    expected = np.tanh(linear(net.rebuild[2], np.tanh(linear(net.rebuild[0], query))))
    np.testing.assert_allclose(rebuilt.detach(), expected, rtol=1e-4, atol=1e-6)


def test_what_a_similarity_costs_by_hand() -> None:
    # Checked right; checked wrong and too like; wrong and unlike; unchecked and like, and unlike.
    similarity = torch.tensor([0.7, 0.5, 0.05, 0.4, -0.2])
    verified = torch.tensor([1, 0, 0, -1, -1], dtype=torch.int8)
    loss = verification_loss(similarity, verified, CleanNetSettings())
    np.testing.assert_allclose(loss, [0.3, 5 * 0.4, 0, 0.1 * 0.6, 0], rtol=1e-5)


def test_references_are_centres_of_the_class() -> None:
    features = torch.tensor([[0.0], [0.2], [4.0], [4.2], [9.0], [1.0]])
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    found = class_references(features, labels, 3, 2)
    assert sorted(found[0, :, 0].tolist()) == pytest.approx([0.1, 4.1])
    assert sorted(found[1, :, 0].tolist()) == [1.0, 9.0]
    assert (found[2] == 0).all()


def test_first_weights_and_decay_are_those_of_the_code() -> None:
    """Xavier's, which differ in size from PyTorch's; biases and the context don't decay."""
    torch.manual_seed(0)
    net = Comparison(300)
    for layer, (fan_in, fan_out) in ((net.query[0], (300, 256)), (net.rebuild[2], (256, 300))):
        bound = (6 / (fan_in + fan_out)) ** 0.5
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)
        assert not layer.bias.any()
    context = net.attention[2].weight
    assert 0.09 < context.abs().max().item() <= (6 / 512) ** 0.5
    decaying, free = net.groups()
    assert (decaying["weight_decay"], free["weight_decay"]) == (1e-4, 0)
    assert len(decaying["params"]) == 8
    assert any(parameter is context for parameter in free["params"])
    found = {id(parameter) for group in (decaying, free) for parameter in group["params"]}
    assert found == {id(parameter) for parameter in net.parameters()}


def test_pairs_walk_through_checked_samples_and_draw_others_class_by_class() -> None:
    labels = torch.tensor([0] * 90 + [2] * 10)  # no sample of class 1
    checked = torch.zeros(100, dtype=torch.bool).index_fill(0, torch.arange(0, 100, 20), True)
    pairs = draw_pairs(labels, checked, 4, torch.Generator().manual_seed(0))
    drawn = torch.stack([next(pairs) for _ in range(500)])
    known, others = drawn[:, :4].flatten(), drawn[:, 4:].flatten()
    for turn in known.split(5):  # of five checked ones each comes once before any comes again
        assert sorted(turn.tolist()) == [0, 20, 40, 60, 80]
    assert (labels[others] == 2).float().mean().item() == pytest.approx(0.5, abs=0.04)
    assert len(others.unique()) == 100


class Features:
    """A survey of one class whose features are far apart only before the logarithm."""

    seed, labels = 0, torch.zeros(6, dtype=torch.long)

    def features(self, network: nn.Module) -> Tensor:
        return torch.tensor([[-3.0], [0.0], [1.0], [90.0], [200.0], [210.0]])


def test_centres_are_found_before_the_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(CleanNet, "_train_cleaner", lambda self, *values: seen.append(values))
    method = cleannet(references=2, standardise=False)
    method.classes = 1
    method.cleaner = Comparison(1)
    method.register_buffer("similarity", torch.ones(6))
    with torch.no_grad():
        method.before_epoch(2, Features())
    features, references, *_ = seen[0]
    expected = np.log1p([0, 0, 1, 90, 200, 210])
    np.testing.assert_allclose(features[:, 0], expected, rtol=1e-5)
    # After it {0, 0, 1} and {90, 200, 210} would be the heaps.
    centres = sorted(references[0, :, 0].tolist())
    assert centres == pytest.approx(np.log1p([(0 + 0 + 1 + 90) / 4, 205]))


def test_without_checked_labels_the_error_says_what_to_do(tmp_path: Path) -> None:
    settings = {"method.verified_share": None}
    with pytest.raises(UserError, match=r"people have checked.*method\.verified_share=0\.1"):
        josrc.train("digits-o", method="cleannet", settings=settings, out=tmp_path / "r", **NOISE)
    assert not (tmp_path / "r").exists()


def test_images_without_truth_are_refused_before_they_are_read(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ReadError(Exception):
        pass

    def read(*_: object) -> None:
        raise ReadError

    monkeypatch.setattr("josrc.runs.start.read_images", read)
    settings = {"method.verified_share": 0.1}
    options = {"method": "cleannet", "settings": settings, "out": tmp_path / "r"}
    with pytest.raises(UserError, match="this data does not know it"):
        josrc.train(pictures, **options)
    # What noise changes on purpose can be told from what it left.
    with pytest.raises(ReadError):
        josrc.train(pictures, **options, inject="symmetric:0.5")


def test_a_share_is_checked_against_the_truth_and_labels_of_its_own_win() -> None:
    source = digits()
    torch.manual_seed(0)
    checked = verification(source, 0.25)
    assert (checked != -1).sum() == round(0.25 * len(source))
    right = source.kind == 0
    assert (checked[checked != -1] == right[checked != -1]).all()
    own = np.full(len(source), -1, dtype=np.int8)
    own[3] = 1
    assert verification(replace(source, verified=own), None) is own


def cleannet(**settings: Any) -> CleanNet:
    """An untrained one that sees its images' ten numbers as features, of 400 samples."""
    values = {"warm_up": 2, "refresh": 3, "updates": 150, "references": 4, **settings}
    method = CleanNet(
        CleanNetSettings(**values), lambda: Classifier(nn.Identity(), nn.Linear(10, 4))
    )
    method.classes = 4
    method.register_buffer("verified", VERIFIED)
    method.register_buffer("similarity", torch.ones(400))
    method.cleaner = Comparison(10).requires_grad_(False)
    return method


generator = torch.Generator().manual_seed(0)
TRUE = torch.arange(400) % 4
WRONG = torch.arange(400) % 10 < 3
LABELS = torch.where(WRONG, (TRUE + 1) % 4, TRUE)
VERIFIED = torch.where(torch.arange(400) < 120, (~WRONG).long(), -1).to(torch.int8)


class Heaps:
    """A survey of four heaps of features."""

    seed, labels = 0, LABELS

    def features(self, network: nn.Module) -> Tensor:
        heaps = 2 * torch.eye(4).repeat(1, 3)[:, :10]
        return heaps[TRUE] + torch.rand(400, 10, generator=torch.Generator().manual_seed(1))


def test_it_learns_from_the_checked_labels_which_others_are_right() -> None:
    torch.manual_seed(0)
    method = cleannet()
    with torch.no_grad():
        method.before_epoch(1, Heaps())
        assert (method.similarity == 1).all(), "the warm-up is not over"
        method.before_epoch(2, Heaps())
    unchecked = VERIFIED == -1
    taken_for_right = method.similarity[unchecked] > 0.1
    assert (taken_for_right == ~WRONG[unchecked]).float().mean() > 0.95
    before = method.similarity.clone()
    with torch.no_grad():
        method.before_epoch(4, Heaps())
        assert torch.equal(method.similarity, before)
        method.before_epoch(5, Heaps())
    assert not torch.equal(method.similarity, before), "trained again after three epochs"
    assert not any(p.requires_grad for p in method.cleaner.parameters())


@pytest.mark.parametrize("variant", ["soft", "hard"])
def test_the_loss_is_weighed_by_the_similarity(variant: str) -> None:
    method = cleannet(variant=variant)
    assert method.variant == variant
    similarity = [0.8, -0.4, 0.05, 0.2]
    method.similarity[:4] = torch.tensor(similarity)
    images = torch.randn(4, 10, generator=generator)
    logits = method.network(images).detach().double().numpy()
    losses = -log_softmax(logits, axis=1)[range(4), [0, 1, 2, 3]]
    weight = [0.8, 0, 0.05, 0.2] if variant == "soft" else [1, 0, 0, 1]
    result = method.step(batch_of(images, torch.arange(4)), {})
    assert result.loss.item() == pytest.approx((weight * losses).mean(), rel=1e-5)
    assert result.group.tolist() == [CLEAN, ID, ID, CLEAN]
    np.testing.assert_allclose(result.clean_likelihood, [0.8, 0, 0.05, 0.2], rtol=1e-5)
