"""The criteria of selection against their formulas and the published codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.spatial.distance import jensenshannon
from scipy.stats import beta, norm

from josrc.distributed import mean_over
from josrc.losses import smooth_labels
from josrc.selection import (
    CLEAN,
    ID,
    OOD,
    beta_densities,
    clean_likelihood,
    divide,
    fit_beta_mixture,
    forget_rate_schedule,
    kept_count,
    large_loss_probability,
    ood_likelihood,
    small_loss,
    small_loss_probability,
    threshold_schedule,
)


def test_two_gaussians_are_told_apart_as_bayes_would() -> None:
    generator = np.random.default_rng(0)
    losses = np.concatenate([generator.normal(1, 0.3, 3000), generator.normal(3, 0.5, 1000)])
    low, high = 0.75 * norm.pdf(losses, 1, 0.3), 0.25 * norm.pdf(losses, 3, 0.5)
    found = small_loss_probability(torch.tensor(losses))
    assert np.abs(found.numpy() - low / (low + high)).mean() < 0.01


def test_two_beta_distributions_are_found_again() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.beta(2, 8, 30_000), generator.beta(9, 3, 10_000)])
    shapes, weights = fit_beta_mixture(values, steps=200)
    np.testing.assert_allclose(weights, [0.75, 0.25], atol=0.03)
    means = shapes[:, 0] / shapes.sum(axis=1)
    np.testing.assert_allclose(means, [0.2, 0.75], atol=0.02)
    density = beta_densities(np.array([0.3, 0.6]), np.array([[2.0, 8.0], [9.0, 3.0]]))
    np.testing.assert_allclose(density[1], beta.pdf([0.3, 0.6], 9, 3))


def test_a_larger_loss_is_never_less_suspicious() -> None:
    generator = np.random.default_rng(1)
    losses = np.concatenate([generator.gamma(2, 0.2, 700), 3 + generator.gamma(3, 0.5, 300)])
    found = large_loss_probability(torch.tensor(losses)).numpy()
    assert (np.diff(found[losses.argsort()]) >= 0).all()
    wrong = np.arange(1000) >= 700
    assert ((found > 0.5) == wrong).mean() > 0.98
    assert found.min() >= 1e-4
    assert found.max() <= 1 - 1e-4


@pytest.mark.parametrize("find", [small_loss_probability, large_loss_probability])
def test_losses_that_are_all_alike_give_finite_probabilities(find) -> None:
    found = find(torch.full((50,), 2.0))
    assert found.isfinite().all()
    assert ((found >= 0) & (found <= 1)).all()


def prediction(classes: int, on_label: float, rival: bool = False) -> np.ndarray:
    """A prediction that gives class 0 ``on_label`` and the rest to all others, or to class 1."""
    p = np.zeros(classes)
    p[0] = on_label
    if rival:
        p[1] = 1 - on_label
    else:
        p[1:] = (1 - on_label) / (classes - 1)
    return p


def by_formula(p: np.ndarray, epsilon: float) -> float:
    """P_clean of a sample with label 0, in float64 and without the project's functions."""
    y = prediction(len(p), 1 - epsilon)
    return 1 - jensenshannon(p, y, base=2) ** 2


def by_code(p: np.ndarray, epsilon: float) -> float:
    label = smooth_labels(torch.tensor([0]), len(p), epsilon)
    return clean_likelihood(torch.tensor(p[None], dtype=torch.float32), label).item()


@pytest.mark.parametrize(
    ("classes", "epsilon", "kind", "expected"),
    [
        (100, 0.6, "uniform", 0.794),
        (100, 0.6, "label", 0.604),
        (100, 0.6, "wrong", 0.027),
        (80, 0.6, "uniform", 0.800),
        (14, 0.7, "uniform", 0.934),
        (14, 0.7, "label", 0.507),
        (101, 0.65, "uniform", 0.827),
        (101, 0.65, "label", 0.557),
    ],
)
def test_clean_likelihood_of_typical_predictions(
    classes: int, epsilon: float, kind: str, expected: float
) -> None:
    on_label = {"uniform": 1 / classes, "label": 1.0, "wrong": 0.0}[kind]
    p = prediction(classes, on_label, rival=kind == "wrong")
    assert by_formula(p, epsilon) == pytest.approx(expected, abs=6e-4)
    assert by_code(p, epsilon) == pytest.approx(by_formula(p, epsilon), abs=1e-6)


def test_clean_likelihood_is_highest_where_the_prediction_matches_the_smoothing() -> None:
    grid = np.linspace(0, 1, 21)
    likelihood = [by_code(prediction(100, on_label), 0.6) for on_label in grid]
    assert grid[int(np.argmax(likelihood))] == pytest.approx(0.4)
    assert max(likelihood) == pytest.approx(1)


@pytest.mark.parametrize(
    ("tau", "low", "high"),
    [(0.8, 0.013, 0.887), (0.85, 0.043, 0.833), (0.9, 0.09, 0.762), (0.949, 0.164, 0.663)],
)
def test_clean_means_a_window_of_label_probability(tau: float, low: float, high: float) -> None:
    def margin(on_label: float) -> float:
        return by_formula(prediction(100, on_label), 0.6) - tau

    edges = brentq(margin, 0, 0.4), brentq(margin, 0.4, 1)
    assert edges == pytest.approx((low, high), abs=1e-3)
    for edge, inwards in zip(edges, (1e-4, -1e-4), strict=True):
        assert by_code(prediction(100, edge + inwards), 0.6) > tau
        assert by_code(prediction(100, edge - inwards), 0.6) < tau


def test_at_the_starting_threshold_only_over_confident_samples_are_unclean() -> None:
    assert by_code(prediction(100, 0.0), 0.6) > 0.75
    assert by_code(prediction(100, 0.927), 0.6) > 0.75
    assert by_code(prediction(100, 0.929), 0.6) < 0.75


def test_a_single_rival_keeps_a_sample_from_being_clean_after_the_warm_up() -> None:
    likelihood = [by_code(prediction(100, p, rival=True), 0.6) for p in np.linspace(0, 1, 101)]
    assert max(likelihood) < 0.675


def test_clean_likelihood_is_one_value_a_sample() -> None:
    p = np.stack([prediction(10, on_label) for on_label in (0.1, 0.4, 0.9)])
    label = smooth_labels(torch.zeros(3, dtype=torch.long), 10, 0.6)
    likelihood = clean_likelihood(torch.tensor(p, dtype=torch.float32), label)
    np.testing.assert_allclose(likelihood, [by_formula(row, 0.6) for row in p], atol=1e-6)


def test_ood_likelihood_is_one_where_the_top_classes_differ() -> None:
    first = torch.tensor([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    second = torch.tensor([[0.4, 0.3, 0.3], [0.4, 0.6, 0.0], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
    assert ood_likelihood(first, second).tolist() == [0, 1, 1, 1]
    assert ood_likelihood(second, first).tolist() == [0, 1, 1, 1]


def test_disagreement_matters_only_for_unclean_samples() -> None:
    clean = torch.tensor([True, True, False, False])
    disagree = torch.tensor([0.0, 1.0, 0.0, 1.0])
    assert divide(clean, disagree).tolist() == [CLEAN, CLEAN, ID, OOD]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (0, 0),
        (1, 0.075),
        (9, 0.675),
        (10, 0.75),
        (105, 0.85),  # half of the way from 10 to 200
        (199, 0.75 + 0.2 * 189 / 190),
        (200, 0.95),
    ],
)
def test_threshold_of_the_paper_at_a_time(time: int, expected: float) -> None:
    assert threshold_schedule(time, 10, 200, 0.75, 0.95) == pytest.approx(expected)


def test_threshold_without_warm_up_begins_at_its_value() -> None:
    thresholds = [threshold_schedule(t, 0, 4, 0.75, 0.95) for t in range(5)]
    assert thresholds == pytest.approx([0.75, 0.8, 0.85, 0.9, 0.95])


@pytest.mark.parametrize(("warm_up", "last"), [(10, 200), (1, 2), (0, 1), (3, 3)])
def test_threshold_never_falls(warm_up: int, last: int) -> None:
    thresholds = [threshold_schedule(t, warm_up, last, 0.75, 0.95) for t in range(last + 1)]
    assert thresholds == sorted(thresholds)
    assert thresholds[-1] == pytest.approx(0.75 if warm_up == last else 0.95)


@pytest.mark.parametrize("exponent", [0.5, 1, 2])
@pytest.mark.parametrize("ramp", [0, 1, 2, 3, 10])
def test_forget_rate_is_evenly_spaced_and_then_constant(ramp: int, exponent: float) -> None:
    rates = [forget_rate_schedule(epoch, ramp, 0.4, exponent) for epoch in range(ramp + 3)]
    assert rates == pytest.approx([*np.linspace(0, 0.4**exponent, ramp), 0.4, 0.4, 0.4])


def test_forget_rate_of_the_published_codes_at_its_corners() -> None:
    rates = {epoch: forget_rate_schedule(epoch, 10, 0.45) for epoch in (0, 1, 8, 9, 10, 199)}
    assert rates == pytest.approx({0: 0, 1: 0.05, 8: 0.4, 9: 0.45, 10: 0.45, 199: 0.45})


def test_kept_count_is_that_of_the_published_codes() -> None:
    counts = torch.arange(1, 513)
    for percent in range(101):
        kept = kept_count(torch.tensor(percent / 100, dtype=torch.float64), counts)
        assert kept.tolist() == [int((1 - percent / 100) * b) for b in counts.tolist()]


@pytest.mark.parametrize(
    ("rate", "batch", "kept"),
    [(0.2, 80, 64), (0.8, 80, 15), (0.2, 128, 102), (0.45, 128, 70), (0, 7, 7), (1, 7, 0)],
)
def test_kept_count_of_a_batch(rate: float, batch: int, kept: int) -> None:
    assert kept_count(torch.tensor(rate, dtype=torch.float64), batch).item() == kept


@pytest.mark.parametrize("epoch", range(12))
def test_kept_count_along_the_schedule(epoch: int) -> None:
    rate = forget_rate_schedule(epoch, 10, 0.2)
    # As the published codes write their schedule.
    published = [*np.linspace(0, 0.2, 10), 0.2, 0.2][epoch]
    for batch in (45, 80, 90, 128, 450):
        kept = kept_count(torch.tensor(rate, dtype=torch.float64), batch).item()
        assert kept == int((1 - published) * batch)


@pytest.mark.parametrize("count", [0, 1, 5, 19, 20])
def test_small_loss_chooses_as_many_as_asked_for(count: int) -> None:
    loss = np.random.default_rng(0).normal(size=20)
    chosen = small_loss(torch.tensor(loss, requires_grad=True), torch.tensor(float(count)))
    assert np.flatnonzero(chosen).tolist() == sorted(np.argsort(loss)[:count].tolist())


def test_small_loss_of_equals_is_the_earlier() -> None:
    chosen = small_loss(torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0]), torch.tensor(3.0))
    assert chosen.tolist() == [False, True, True, False, True]


def test_small_loss_among_some() -> None:
    loss = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    among = torch.tensor([False, True, False, True, True])
    for count, expected in ((0, []), (1, [1]), (2, [1, 3]), (3, [1, 3, 4])):
        chosen = small_loss(loss, torch.tensor(float(count)), among)
        assert np.flatnonzero(chosen).tolist() == expected


def test_mean_over_some_and_over_none() -> None:
    values = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    assert mean_over(values, torch.tensor([True, False, True])).item() == 3.5
    assert mean_over(values, torch.tensor([True, False, True]), at_least=14).item() == 0.5
    nothing = mean_over(values, torch.tensor([False] * 3))
    nothing.backward()
    assert nothing.item() == 0
    assert values.grad is not None
    assert values.grad.tolist() == [0, 0, 0]
