"""Posterior, noise matrix and power against values worked by hand and in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from josrc.data.noise import draw_labels, transition_matrix
from josrc.methods._noise_model import (
    CONFIDENCE_HEAPS,
    NoiseModel,
    aligned,
    believe,
    estimate_transitions,
    even_noise,
    fit_noise_model,
    weight_of,
)

CLASSES, SAMPLES = 20, 20_000


def opinions_of(true: np.ndarray, accuracy: float, seed: int = 0) -> torch.Tensor:
    """Calibrated opinions of a network that is right so often: the truth or another class leads.

    Foreign samples, of a class beyond the last, get opinions that are nearly even.
    """
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=0.7, size=(len(true), CLASSES))
    lead = np.where(
        generator.random(len(true)) < accuracy, true, generator.integers(0, CLASSES, len(true))
    )
    known = true < CLASSES
    rows = np.arange(len(true))[known]
    logits[rows, lead[known]] += 4
    logits[rows, true[known]] += 1.5
    return torch.tensor(softmax(logits, axis=1), dtype=torch.float32)


def samples(noise: str, rate: float, foreign: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True classes, given labels and the matrix of the closed classes."""
    total = CLASSES + foreign
    true = np.random.default_rng(1).integers(0, total, SAMPLES)
    matrix = transition_matrix(noise, rate, total, CLASSES)
    return true, draw_labels(true, matrix, 3), matrix[:CLASSES, :CLASSES]


def fitted(
    noise: str, rate: float, accuracy: float = 0.8, foreign: int = 0
) -> tuple[NoiseModel, np.ndarray]:
    true, given, matrix = samples(noise, rate, foreign)
    model = fit_noise_model(opinions_of(true, accuracy), torch.from_numpy(given), None)
    return model, matrix


def test_the_posterior_by_hand() -> None:
    model = NoiseModel.trusting(3)._replace(
        transitions=torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 0.0, 1.0]]),
    )
    opinion = torch.tensor([[0.2, 0.7, 0.1]])
    belief = believe(model, opinion, torch.tensor([0]))
    # .2 * .8 = .16, .7 * .3 = .21 and .1 * 0 of .37
    expected = torch.tensor([[0.16, 0.21, 0.0]]) / 0.37
    torch.testing.assert_close(belief.classes, expected, rtol=0, atol=1e-5)
    assert belief.none.item() == 0
    doubting = model._replace(foreign=torch.full((CONFIDENCE_HEAPS,), 0.25))
    found = believe(doubting, opinion, torch.tensor([0]))
    # Without a class: .25 / 3 against .75 * .37
    assert found.none.item() == pytest.approx((0.25 / 3) / (0.25 / 3 + 0.75 * 0.37), abs=1e-5)
    torch.testing.assert_close(found.classes, belief.classes)


def test_the_posterior_in_float64() -> None:
    generator = np.random.default_rng(0)
    opinions = generator.dirichlet(np.full(7, 0.5), 50)
    transitions = generator.dirichlet(np.full(7, 1.0), 7)
    bias, label = generator.normal(size=7), generator.integers(0, 7, 50)
    parts = (transitions, bias)
    model = NoiseModel.trusting(7)._replace(
        transitions=torch.tensor(parts[0]).float(), bias=torch.tensor(parts[1]).float(),
        power=torch.tensor(1.4),
    )  # fmt: skip
    found = believe(model, torch.tensor(opinions).float(), torch.tensor(label)).classes
    joint = (opinions + 1e-7) ** 1.4 * np.exp(bias) * transitions.T[label]
    expected = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_the_weight_is_a_gaussian_below_the_mean_of_its_class() -> None:
    model = NoiseModel.trusting(2)._replace(
        target_mean=torch.tensor([0.9, 0.5]), target_variance=torch.tensor([0.01, 0.04])
    )
    opinions = torch.tensor([[0.7, 0.3], [0.95, 0.05], [0.3, 0.7]])
    belief = believe(model, opinions, torch.tensor([0, 0, 1]))._replace(classes=opinions)
    weight = weight_of(model, belief)
    torch.testing.assert_close(weight, torch.tensor([np.exp(-8), 1.0, 1.0]).float())


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
def test_the_lower_end_of_the_ranking_shows_how_many_labels_are_even(rate: float) -> None:
    true, given, _ = samples("symmetric", rate)
    found = even_noise(opinions_of(true, 0.6), torch.from_numpy(given)).mean().item()
    # Symmetric noise of 20 classes never draws the right one: rate * 20 / 19 are even.
    assert found == pytest.approx(rate * CLASSES / (CLASSES - 1), abs=0.035)


@pytest.mark.parametrize(
    ("noise", "rate"),
    [("symmetric", 0.2), ("symmetric", 0.8), ("asymmetric", 0.2), ("asymmetric", 0.4)],
)
@pytest.mark.parametrize("accuracy", [0.5, 0.9])
def test_the_matrix_is_found_from_opinions_and_labels_alone(noise, rate, accuracy) -> None:
    model, matrix = fitted(noise, rate, accuracy)
    found = model.transitions.numpy()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    # Distance between rows: 2 would be all of it.
    assert np.abs(found - matrix).sum(axis=1).mean() < 0.25
    if noise == "asymmetric":
        assert (np.argsort(found, axis=1)[:, -2] == (np.arange(CLASSES) + 1) % CLASSES).all()


def test_without_flips_all_that_is_not_right_is_even() -> None:
    true, given, _ = samples("asymmetric", 0.4)
    model = fit_noise_model(opinions_of(true, 0.9), torch.from_numpy(given), None, flips=False)
    off = model.transitions[~torch.eye(CLASSES, dtype=torch.bool)]
    assert off.max() - off.min() < 1e-6


def test_the_likeliest_power_undoes_a_temperature() -> None:
    true, given, _ = samples("symmetric", 0.3)
    opinions, label = opinions_of(true, 0.8), torch.from_numpy(given)
    calibrated = fit_noise_model(opinions, label, None).power.item()
    blunt = aligned(opinions, 0.5, torch.zeros(CLASSES))
    assert fit_noise_model(blunt, label, None).power.item() > calibrated
    sharp = aligned(opinions, 2.0, torch.zeros(CLASSES))
    assert fit_noise_model(sharp, label, None).power.item() < calibrated


def test_foreign_samples_are_named_where_there_are_any_and_only_there() -> None:
    true, given, _ = samples("symmetric", 0.2, foreign=5)
    opinions, label = opinions_of(true, 0.8), torch.from_numpy(given)
    model = fit_noise_model(opinions, label, None)
    none = believe(model, opinions, label).none.numpy() > 0.5
    foreign = true >= CLASSES
    assert none[foreign].mean() > 0.6
    assert none[~foreign].mean() < 0.05
    for noise, rate in (("symmetric", 0.5), ("asymmetric", 0.4), ("symmetric", 0.0)):
        closed, given, _ = samples(noise, rate)
        opinions, label = opinions_of(closed, 0.8), torch.from_numpy(given)
        model = fit_noise_model(opinions, label, None)
        assert (believe(model, opinions, label).none > 0.5).float().mean() < 0.02


def test_samples_of_no_class_are_no_evidence_of_the_matrix() -> None:
    model, matrix = fitted("asymmetric", 0.3, 0.9, foreign=5)
    assert np.abs(model.transitions.numpy() - matrix).sum(axis=1).mean() < 0.25


def test_the_surest_samples_of_a_class_are_counted() -> None:
    opinions = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.2, 0.8]])
    label = torch.tensor([0, 1, 1, 1, 1])
    found = estimate_transitions(opinions, label, torch.tensor(0.0), torch.ones(5))
    # Class 0: mean confidence .767, so the first two count, a label each, and 5 of each by prior.
    torch.testing.assert_close(found[0], torch.tensor([0.5, 0.5]))
    # Class 1: two labels 1; what is left of label 0, 5 of 12, is a flip: more than .15 of 7 of 12.
    torch.testing.assert_close(found[1], torch.tensor([5 / 12, 7 / 12]))


def test_a_second_fit_keeps_half_of_the_first() -> None:
    true, given, _ = samples("symmetric", 0.4)
    opinions, label = opinions_of(true, 0.8), torch.from_numpy(given)
    first = fit_noise_model(opinions, label, None)
    moved = first._replace(transitions=torch.eye(CLASSES))
    second = fit_noise_model(opinions, label, moved)
    expected = (torch.eye(CLASSES) + first.transitions) / 2
    torch.testing.assert_close(second.transitions, expected, atol=0.01, rtol=0)


def test_even_noise_is_forgotten_slowly() -> None:
    true, given, _ = samples("symmetric", 0.5)
    label = torch.from_numpy(given)
    first = fit_noise_model(opinions_of(true, 0.8), label, None)
    learned_by_heart = opinions_of(given, 1.0)
    second = fit_noise_model(learned_by_heart, label, first)
    assert second.even.item() == pytest.approx(0.99 * first.even.item())


def test_right_labels_that_are_learned_leave_the_others_their_class() -> None:
    true, given, _ = samples("symmetric", 0.4)
    label, opinions = torch.from_numpy(given), opinions_of(true, 0.7)
    first = fit_noise_model(opinions, label, None)
    right = torch.from_numpy(true == given)[:, None]
    # A network grows sure of samples with right labels, which so gather at the upper end.
    learned = torch.where(right, aligned(opinions, 3.0, torch.zeros(CLASSES)), opinions)
    alone = fit_noise_model(learned, label, None)
    model = fit_noise_model(learned, label, first)
    assert alone.foreign.mean() > 2 * first.foreign.mean()
    assert model.foreign.mean() <= first.foreign.mean() / 0.99 + 1e-6
    assert model.even.item() == pytest.approx(0.4 * CLASSES / (CLASSES - 1), abs=0.04)
    assert (believe(model, learned, label).none > 0.5).float().mean() < 0.02
