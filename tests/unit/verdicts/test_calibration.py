"""Calibration by planted errors, on scores whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm

from josrc.verdicts.calibration import MIN_PLANTED, Calibration, Looks, calibrate

# Networks that hesitate about many images, and that are sure of nearly all.
# How much higher look-alike errors score.
LOOK_ALIKE = 1.2


HESITANT, SURE = np.array([0.1, 0.1, 1.0, 1.0]), np.ones(4)


def scores(
    rate: float,
    samples: int = 20_000,
    planted: int = 400,
    slope: float = 1.5,
    seed: int = 0,
    alike: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Planted errors of any sort and look-alike ones, other labels, and which of those are wrong.

    Scores of wrong labels are normal; of look-alike ones, that share of them, they are higher.
    Those of right ones lie far above, but for a tail that becomes thinner with the level among the
    wrong ones, by some slope; none for a slope of 0.
    """
    generator = np.random.default_rng(seed)
    wrong = generator.random(samples) < rate
    levels = np.linspace(0.001, 0.97, 2000)
    density = np.exp(slope * (logit(levels) - 2.2) - 1) if slope else np.zeros(2000)
    heights = np.cumsum(density) * (levels[1] - levels[0])
    place = np.searchsorted(heights, generator.random(samples))
    tail = norm.ppf(levels[np.minimum(place, 1999)])
    right = np.where(place < 2000, tail, generator.normal(8, 0.3, samples))
    higher = LOOK_ALIKE * (generator.random(samples) < alike)
    others = np.where(wrong, generator.normal(0, 1, samples) + higher, right)
    errors = generator.normal(0, 1, (2, planted))
    return errors[0], errors[1] + LOOK_ALIKE, others, wrong


def looks(scores: np.ndarray, doubt: float | np.ndarray = 0.0) -> Looks:
    return Looks(scores, np.broadcast_to(doubt, scores.shape))


def calibrated(
    *arguments: float, confidence: np.ndarray = HESITANT, **options: float
) -> tuple[Calibration, np.ndarray, np.ndarray]:
    anyhow, alike, others, wrong = scores(*arguments, **options)  # type: ignore[arg-type]
    found = calibrate(looks(anyhow), [looks(alike)], looks(others), confidence)
    assert found is not None
    return found, found.p_wrong(others), wrong


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.05, 0.2, 0.4])
def test_the_rate_is_found_whether_labels_are_clean_or_not(rate: float) -> None:
    found, _, wrong = calibrated(rate)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.04)
    assert found.low <= found.rate <= found.high
    assert found.high - found.low < 0.15


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
    found, chance, wrong = calibrated(0.05, slope=0.0, samples=2000, planted=80, confidence=SURE)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.02)
    assert (chance[wrong] >= 0.5).mean() > 0.85
    assert (chance[~wrong] >= 0.5).mean() < 0.005


def test_a_lower_score_is_never_less_likely_to_be_wrong() -> None:
    anyhow, alike, others, _ = scores(0.2)
    found = calibrate(looks(anyhow), [looks(alike)], looks(others), HESITANT)
    assert found is not None
    chance = found.p_wrong(np.sort(others))
    assert (np.diff(chance) <= 1e-12).all()
    assert (found.p_wrong(others, more=0.03) >= found.p_wrong(others) - 1e-12).all()


def test_the_same_scores_give_the_same_answer() -> None:
    first, second = (calibrated(0.2)[0] for _ in range(2))
    assert (first.rate, first.low, first.high) == (second.rate, second.low, second.high)


def test_too_few_planted_errors_say_nothing() -> None:
    anyhow, alike, others, _ = scores(0.2)
    few = looks(anyhow[: MIN_PLANTED - 1])
    assert calibrate(few, [looks(alike)], looks(others), HESITANT) is None


def test_without_look_alike_errors_those_of_any_sort_are_the_measure() -> None:
    anyhow, _, others, wrong = scores(0.2)
    found = calibrate(looks(anyhow), [looks(np.zeros(0))], looks(others), HESITANT)
    assert found is not None
    assert found.rate == pytest.approx(wrong.mean(), abs=0.03)


def test_errors_between_look_alikes_are_counted_where_the_network_is_sure() -> None:
    found, chance, wrong = calibrated(0.2, slope=2.2, alike=0.7, confidence=SURE)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.04)
    assert wrong[chance >= 0.5].mean() > 0.75
    assert (chance[wrong] >= 0.5).mean() > 0.6


def test_where_the_network_hesitates_hard_images_are_no_look_alike_errors() -> None:
    found, _, wrong = calibrated(0.2, slope=1.5, alike=0.0, confidence=HESITANT)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.03)


def hard_images(
    rate: float, foreign: float, samples: int = 20_000, planted: int = 400, seed: int = 8
) -> tuple[Looks, Looks, np.ndarray]:
    """Planted errors and other labels of images that the network hesitates about more or less.

    The more it hesitates the higher wrong labels score, and the lower right ones. All labels of
    foreign images are wrong, and they are the most doubtful.
    """
    generator = np.random.default_rng(seed)
    is_foreign = generator.random(samples) < foreign
    doubt = np.where(is_foreign, generator.beta(6, 2, samples), generator.beta(2, 3, samples))
    wrong = is_foreign | (generator.random(samples) < rate)
    scores = generator.normal(4 * doubt, 1)
    right = generator.normal(10 - 3 * doubt, 0.7)
    chosen = generator.choice(samples, planted, replace=False)
    errors = Looks(generator.normal(4 * doubt[chosen], 1), doubt[chosen])
    return errors, Looks(np.where(wrong, scores, right), doubt), wrong


@pytest.mark.parametrize(("rate", "foreign"), [(0.0, 0.0), (0.2, 0.0), (0.2, 0.2), (0.05, 0.3)])
def test_labels_of_foreign_images_are_counted_by_errors_on_images_as_doubtful(
    rate: float, foreign: float
) -> None:
    errors, others, wrong = hard_images(rate, foreign)
    found = calibrate(errors, [looks(np.zeros(0))], others, HESITANT)
    assert found is not None
    assert found.by_doubt
    assert found.low <= wrong.mean() <= found.high
    assert found.rate == pytest.approx(wrong.mean(), abs=0.04)
    accused = found.p_wrong(others.score) >= 0.5
    assert (accused & ~wrong).mean() < 0.02
    assert accused[wrong].mean() > 0.8 if wrong.any() else not accused.any()
    for together in (
        calibrate(errors, [looks(np.zeros(0))], others, SURE),
        calibrate(errors, [looks(np.zeros(0))], others, HESITANT, learned=False),
    ):
        assert together is not None
        assert not together.by_doubt


@pytest.mark.parametrize("seed", range(6))
def test_a_planted_error_that_is_right_by_chance_has_not_all_right_labels_accused(
    seed: int,
) -> None:
    errors, others, wrong = hard_images(0.2, 0.25, samples=1400, planted=72, seed=seed)
    scores = errors.score.copy()
    for part in np.array_split(np.argsort(errors.doubt), 3):
        scores[part[0]] = np.median(others.score[~wrong])
    found = calibrate(Looks(scores, errors.doubt), [looks(np.zeros(0))], others, HESITANT)
    assert found is not None
    assert found.by_doubt
    accused = found.p_wrong(others.score) >= 0.5
    assert (accused & ~wrong).mean() < 0.02
    assert accused[wrong].mean() > 0.7
