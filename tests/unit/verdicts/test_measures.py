"""How good verdicts are, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from josrc.verdicts.measures import measure, measure_calibration, measure_noise_rate


def test_measures_by_hand() -> None:
    kind = np.array([0, 0, 0, 1, 1, 2])
    group = np.array([0, 0, 1, 1, 2, 2])
    wrong = np.array([0.1, 0.2, 0.7, 0.9, 0.6, 0.8])
    ood = np.array([0.0, 0.1, 0.2, 0.3, 0.9, 0.8])
    found = measure(
        group, wrong, ood, np.array([5, 5, 5, 1, 9, 5]), np.array([0, 0, 0, 1, 2, 7]), kind
    )
    assert found["precision_clean"] == 1
    assert found["recall_clean"] == pytest.approx(2 / 3)
    assert found["f1_clean"] == pytest.approx(0.8)
    assert (found["precision_mislabelled"], found["recall_mislabelled"]) == (0.5, 0.5)
    assert (found["precision_out_of_distribution"], found["recall_out_of_distribution"]) == (0.5, 1)
    # Of the nine pairs of a wrong and a right label, one is in the wrong order: 0.6 below 0.7.
    assert found["auroc_wrong"] == pytest.approx(8 / 9)
    assert found["auroc_ood"] == pytest.approx(4 / 5)
    assert found["average_precision_ood"] == pytest.approx(1 / 2)
    assert found["suggestion_accuracy"] == 0.5


def test_what_the_data_does_not_have_is_not_measured() -> None:
    kind, group = np.array([0, 0, 1]), np.array([0, 2, 1])
    score = np.array([0.1, 0.2, 0.9])
    found = measure(group, score, score, group, group, kind)
    for name in ("f1_out_of_distribution", "recall_out_of_distribution", "auroc_ood"):
        assert found[name] is None
    assert found["auroc_wrong"] == 1


def test_any_verdict_against_a_label_is_an_accusation() -> None:
    # Five of ten labels are wrong; four are accused, three of them rightly, one by another verdict.
    kind = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    group = np.array([0, 0, 0, 0, 1, 1, 2, 0, 2, 0])
    found = measure(group, np.arange(10.0), np.zeros(10), kind, kind, kind)
    assert found["accused"] == pytest.approx(0.4)
    assert found["precision_wrong"] == pytest.approx(3 / 4)
    assert found["recall_wrong"] == pytest.approx(3 / 5)
    assert found["f1_wrong"] == pytest.approx(2 * 0.75 * 0.6 / 1.35)


def test_the_first_labels_are_those_that_look_most_wrong() -> None:
    kind = np.zeros(600, dtype=int)
    kind[:80] = 1  # look most wrong
    kind[300:310] = 1
    score = -np.arange(600.0)
    found = measure(kind, score, score, kind, kind, kind)
    assert found["first_100_right"] == pytest.approx(80 / 100)
    # The first 60 of them, and the first 300.
    assert found["accusing_10_right"] == pytest.approx(1)
    assert found["accusing_50_right"] == pytest.approx(80 / 300)
    assert found["first_500_right"] == pytest.approx(90 / 500)
    # Where there are fewer than 500, all of them are the first.
    few = measure(*(values[:200] for values in (kind, score, score, kind, kind, kind)))
    assert few["first_100_right"] == pytest.approx(80 / 100)
    assert few["first_500_right"] == pytest.approx(80 / 200)


def test_where_no_label_is_wrong_there_is_nothing_to_find() -> None:
    kind = np.zeros(20, dtype=int)
    group = np.repeat([0, 1, 2], [17, 2, 1])
    score = np.linspace(0, 1, 20)
    found = measure(group, score, score, group, kind, kind)
    known = {name for name, value in found.items() if value is not None}
    assert known == {"accused", "precision_clean", "recall_clean", "f1_clean"}
    assert found["accused"] == pytest.approx(3 / 20)
    assert found["recall_clean"] == pytest.approx(17 / 20)


def test_who_accuses_nobody_has_found_nothing() -> None:
    kind, group = np.array([0, 0, 0, 1]), np.zeros(4, dtype=int)
    found = measure(group, np.arange(4.0), np.zeros(4), kind, kind, kind)
    assert found["precision_wrong"] is None
    assert (found["accused"], found["recall_wrong"], found["f1_wrong"]) == (0, 0, 0)


def test_a_noise_rate_counts_foreign_images_too() -> None:
    found = measure_noise_rate(0.3, np.array([0, 0, 1, 2, 0]))
    assert found == {
        "noise_rate": pytest.approx(0.4),
        "noise_rate_estimated": 0.3,
        "noise_rate_error": pytest.approx(0.1),
    }
    assert measure_noise_rate(0.02, np.zeros(5))["noise_rate_error"] == pytest.approx(0.02)


def test_calibration_by_hand() -> None:
    # Two labels around 0.25, one of them right; three above 0.9, of which one is foreign.
    p_clean = np.array([0.22, 0.28, 0.9, 0.97, 1.0])
    found = measure_calibration(p_clean, np.array([0, 1, 0, 2, 0]))
    low, high = (
        [found[f"calibration_{tenth}_{part}"] for part in ("share", "promised", "right")]
        for tenth in ("0.2", "0.9")
    )
    assert low == pytest.approx([0.4, 0.25, 0.5])
    assert high == pytest.approx([0.6, 2.87 / 3, 2 / 3])
    assert found["calibration_error"] == pytest.approx(0.4 * 0.25 + 0.6 * 0.29)
    assert found["calibration_0_share"] == 0
    assert found["calibration_0_promised"] is None
    assert found["calibration_0_right"] is None
    assert len(found) == 31


def test_probabilities_that_keep_their_promise_have_no_error() -> None:
    p_clean, right = np.repeat([0.25, 0.75], 4), np.array([1, 0, 0, 0, 1, 1, 1, 0])
    assert measure_calibration(p_clean, 1 - right)["calibration_error"] == pytest.approx(0)
