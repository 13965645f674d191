"""Calibration by planted errors, on scores whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm

from josrc.verdicts.calibration import MIN_PLANTED, Calibration, calibrate, yardstick
from josrc.verdicts.foreign import foreign_evidence
from josrc.verdicts.suggestions import suggestion_evidence


def scores(
    rate: float, samples: int = 20_000, planted: int = 400, slope: float = 1.8, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Planted errors, other labels, and which of those are wrong.

    Scores of wrong labels are normal. Those of right ones lie far above, but for a tail that
    becomes thinner with the level among the wrong ones, by some slope; none for a slope of 0.
    """
    generator = np.random.default_rng(seed)
    wrong = generator.random(samples) < rate
    levels = np.linspace(0.001, 0.97, 2000)
    density = np.exp(slope * (logit(levels) - 2.2)) if slope else np.zeros(2000)
    heights = np.cumsum(density) * (levels[1] - levels[0])
    place = np.searchsorted(heights, generator.random(samples))
    tail = norm.ppf(levels[np.minimum(place, 1999)])
    right = np.where(place < 2000, tail, generator.normal(8, 0.3, samples))
    others = np.where(wrong, generator.normal(0, 1, samples), right)
    return generator.normal(0, 1, planted), others, wrong


def calibrated(*arguments: float, **options: float) -> tuple[Calibration, np.ndarray, np.ndarray]:
    planted, others, wrong = scores(*arguments, **options)  # type: ignore[arg-type]
    found = calibrate(planted, others)
    assert found is not None
    return found, found.p_wrong(others), wrong


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.05, 0.2, 0.4])
def test_the_rate_is_found_whether_labels_are_clean_or_not(rate: float) -> None:
    found, _, wrong = calibrated(rate)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.03)
    assert found.low <= found.rate <= found.high
    assert found.high - found.low < 0.12


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
def test_the_interval_covers_the_truth_nearly_always(rate: float) -> None:
    covered = [
        found.low <= wrong.mean() <= found.high
        for found, _, wrong in (calibrated(rate, samples=4000, seed=seed) for seed in range(6))
    ]
    assert sum(covered) >= 5


def test_among_clean_labels_hardly_one_is_accused() -> None:
    _, chance, _ = calibrated(0.0)
    assert (chance >= 0.5).mean() < 0.005


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_what_is_accused_is_wrong_about_as_often_as_is_promised(rate: float) -> None:
    _, chance, wrong = calibrated(rate)
    accused = chance >= 0.5
    assert wrong[accused].mean() == pytest.approx(chance[accused].mean(), abs=0.12)
    assert wrong[accused].mean() > 0.75
    assert wrong[chance >= 0.9].mean() >= 0.85
    assert accused[wrong].mean() > 0.6


def test_where_both_lie_far_apart_all_wrong_labels_are_found() -> None:
    found, chance, wrong = calibrated(0.05, slope=0.0, samples=2000, planted=80)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.02)
    assert (chance[wrong] >= 0.5).mean() > 0.9
    assert (chance[~wrong] >= 0.5).mean() < 0.005


def test_a_lower_score_is_never_less_likely_to_be_wrong() -> None:
    planted, others, _ = scores(0.2)
    found = calibrate(planted, others)
    assert found is not None
    chance = found.p_wrong(np.sort(others))
    assert (np.diff(chance) <= 1e-12).all()
    assert (found.p_wrong(others, more=0.03) >= found.p_wrong(others) - 1e-12).all()


def test_the_same_scores_give_the_same_answer() -> None:
    first, second = (calibrated(0.2)[0] for _ in range(2))
    assert (first.rate, first.low, first.high) == (second.rate, second.low, second.high)


def test_too_few_planted_errors_say_nothing() -> None:
    planted, others, _ = scores(0.2)
    assert calibrate(planted[: MIN_PLANTED - 1], others) is None


def test_look_alike_errors_are_a_measure_only_where_they_lie_as_low() -> None:
    planted, others, _ = scores(0.05)
    half = len(planted) // 2
    low, high = planted[half:], planted[half:] + 4
    assert len(yardstick(planted[:half], low, others)) == len(planted)
    assert len(yardstick(planted[:half], high, others)) == half


def test_images_are_foreign_only_if_they_are_far_more_doubtful_than_planted_errors() -> None:
    generator = np.random.default_rng(3)
    planted, at_home = generator.normal(0, 1, 300), generator.normal(0, 1, 2000)
    alike = foreign_evidence(planted, at_home, 0.1)
    assert alike is not None
    assert (alike.at(at_home) >= 0.5).mean() < 0.12
    foreign = generator.normal(4, 0.5, 1000)
    some = foreign_evidence(planted, np.concatenate([at_home, foreign]), 0.15)
    assert some is not None
    assert (some.at(foreign) >= 0.5).mean() > 0.9
    assert (some.at(at_home) >= 0.5).mean() < 0.15
    assert foreign_evidence(planted[:20], at_home, 0.1) is None


def test_suggestions_are_as_good_as_they_were_for_planted_errors() -> None:
    generator = np.random.default_rng(4)
    hold = generator.random(2000)
    right = generator.random(2000) < np.where(hold > 0.5, 0.95, 0.4)
    found = suggestion_evidence(hold, right, rate=0.0)
    assert found is not None
    low, high = found.at(np.array([0.25, 0.75]))
    assert low == pytest.approx(0.4, abs=0.08)
    assert high == pytest.approx(0.95, abs=0.04)
    assert (np.diff(found.at(np.linspace(0, 1, 50))) >= -1e-12).all()
    assert suggestion_evidence(hold[:10], right[:10], 0.0) is None
