"""Verdicts that anybody would give, from hand-made findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from josrc.errors import UserError
from josrc.verdicts.confusion import Confusion
from josrc.verdicts.findings import Findings, held_out_findings
from josrc.verdicts.measures import measure_sure
from josrc.verdicts.rule import Reference, Verdicts, judge, judge_held_out, least_noise_rate
from josrc.verdicts.two_normals import log_odds_of

Made = dict[str, Any]


def judged(
    made: Made, findings: Findings | None = None, rows: np.ndarray | None = None
) -> Verdicts:
    given = made["given"] if rows is None else made["given"][rows]
    return judge(findings or made["findings"], given)


def test_obvious_samples_get_the_obvious_verdict(made: Made) -> None:
    verdicts = judged(made)
    np.testing.assert_array_equal(verdicts.group, made["kind"])
    wrong = made["kind"] == 1
    np.testing.assert_array_equal(verdicts.suggested[wrong], made["true"][wrong])
    assert (verdicts.suggested[~wrong] == -1).all()


def test_scores_are_probabilities_and_say_what_the_verdict_says(made: Made) -> None:
    verdicts = judged(made)
    for score in verdicts.probabilities:
        assert ((score >= 0) & (score <= 1)).all()
    assert (verdicts.p_clean + verdicts.p_ood <= 1 + 1e-9).all()
    assert verdicts.p_clean[made["kind"] == 0].min() > 0.9
    assert verdicts.p_clean[made["kind"] == 1].max() < 0.1
    assert verdicts.p_ood[made["kind"] == 2].min() > 0.9
    assert verdicts.confidence.min() > 0.8


def test_where_all_images_are_hard_few_are_foreign_for_sure(made: Made) -> None:
    # Doubt of believed labels spreads as far as that of foreign images lies above it.
    centre = np.array([0.0, 0.0, 2.0])[made["kind"]]
    odds = np.random.default_rng(2).normal(centre, 1.0)
    verdicts = judged(made, replace(made["findings"], doubt=1 / (1 + np.exp(-odds))))
    foreign = verdicts.group == 2
    assert (made["kind"][foreign] == 2).mean() > 0.7
    assert np.median(verdicts.confidence[foreign]) < 0.8
    assert (verdicts.confidence[foreign] > 0.9).mean() < 0.1


def test_confidence_is_that_of_the_verdict_also_where_another_is_likelier(made: Made) -> None:
    # A label that is just about accused, of an image that is just about foreign.
    reference = Reference(
        labels=None,
        confusion=Confusion(np.array([]), np.array([]), 0.0),
        doubts=None,
        doubt=(0.0, 1.0),
        confidence=0.8,
        scores=np.zeros(2),
        foreign_shift=0.5,
    )
    sample = made["findings"].part(slice(300, 301))
    sample = replace(sample, lead=np.array([-0.02]), doubt=np.array([0.5]))
    verdict = judge_held_out(sample, made["given"][300:301], reference)
    p_clean, p_foreign = expit(-0.2), expit(0.5)
    assert verdict.group == 2
    assert p_clean > (1 - p_clean) * p_foreign
    assert verdict.p_clean == pytest.approx(p_clean)
    assert verdict.confidence == pytest.approx((1 - p_clean) * p_foreign)


def test_what_can_be_followed_without_a_look_is_counted_by_hand(made: Made) -> None:
    reference = judged(made).reference
    verdicts = Verdicts(
        group=np.array([0, 1, 1, 1, 1, 2, 2, 2]),
        suggested=np.array([-1, 2, 2, 2, 2, -1, -1, -1]),
        rival=np.array([1, 2, 2, 2, 2, 1, 1, 1]),
        p_clean=np.zeros(8),
        p_ood=np.zeros(8),
        confidence=np.array([0.99, 0.9, 0.95, 0.99, 0.89, 0.9, 0.95, 0.5]),
        score=np.zeros(8),
        reference=reference,
    )
    kind, true = np.array([0, 1, 1, 0, 1, 2, 1, 2]), np.array([0, 2, 3, 2, 2, 7, 2, 7])
    # Sure: the second to fourth, sixth and seventh. Right: the second and the sixth. The third has
    # another class, the fourth is clean, the seventh is mislabelled and not foreign.
    found = measure_sure(verdicts, true, kind)
    assert found == {
        "sure_share": pytest.approx(5 / 8),
        "sure_right": pytest.approx(2 / 5),
        "sure_reached": pytest.approx(2 / 3),
    }


def test_the_order_of_the_samples_does_not_matter(made: Made) -> None:
    shuffled = np.random.default_rng(1).permutation(len(made["given"]))
    before, after = judged(made), judged(made, made["findings"].part(shuffled), shuffled)
    np.testing.assert_array_equal(after.group, before.group[shuffled])
    np.testing.assert_allclose(after.p_clean, before.p_clean[shuffled], atol=1e-9)


def test_a_sample_that_training_has_not_seen_is_not_accused(made: Made) -> None:
    visits = made["findings"].visits.copy()
    visits[-60:] = 0
    verdicts = judged(made, replace(made["findings"], visits=visits))
    assert (verdicts.group[-60:] == 0).all()
    assert (verdicts.suggested[-60:] == -1).all()
    assert set(verdicts.p_clean[-60:]) == {0.5}
    assert set(verdicts.confidence[-60:]) == {0.0}
    np.testing.assert_array_equal(verdicts.group[:-60] > 0, made["kind"][:-60] > 0)


def test_no_visit_at_all_is_an_error(made: Made) -> None:
    with pytest.raises(UserError, match="not seen any sample"):
        judged(made, replace(made["findings"], visits=np.zeros(400, dtype=int)))


def test_nothing_can_be_suggested_where_no_other_class_ever_won(made: Made) -> None:
    rival = made["findings"].rival.copy()
    rival[300:360] = -1
    verdicts = judged(made, replace(made["findings"], rival=rival))
    assert not (verdicts.group[300:360] == 1).any()
    assert (verdicts.suggested == -1).all()


@pytest.mark.parametrize("classes", [2, 8])
def test_a_label_that_systematically_stands_for_another_class_is_seen_through(
    made: Made, classes: int
) -> None:
    # Labels that are learned in part: by their probability alone they look right. Few images are
    # foreign.
    rows = np.append(np.tile(np.arange(360), 15), np.arange(360, 400))
    generator = np.random.default_rng(4)
    kind, given = made["kind"][rows], generator.integers(0, classes, len(rows))
    wrong = kind == 1
    support = np.where(wrong, 0.75, made["findings"].support[rows])
    others = (given + generator.integers(1, classes, len(rows))) % classes
    others = np.where(kind == 0, -1, others)
    findings = replace(made["findings"].part(rows), support=support, rival=others)
    pairs = np.where(wrong, (given + 1) % classes, others)
    scattered = judge(findings, given)
    systematic = judge(replace(findings, rival=pairs), given)
    assert (scattered.group[wrong] == 0).mean() > 0.8
    assert (systematic.group[kind == 0] == 0).all()
    if classes == 2:  # there is no other rival
        np.testing.assert_array_equal(systematic.group, scattered.group)
    else:
        assert (systematic.group[wrong] == 1).mean() > 0.7
        assert systematic.score[wrong].max() < systematic.score[kind == 0].min()


def test_where_all_labels_are_right_none_is_accused(made: Made) -> None:
    rows = np.arange(300)
    verdicts = judged(made, made["findings"].part(rows), rows)
    assert (verdicts.group == 0).all()
    lead = made["findings"].lead[:300].copy()
    lead[:3] = -0.5
    verdicts = judged(made, replace(made["findings"].part(rows), lead=lead), rows)
    assert np.flatnonzero(verdicts.group).tolist() == [0, 1, 2]


def test_without_foreign_images_none_is_invented(made: Made) -> None:
    rows = np.flatnonzero(made["kind"] < 2)
    verdicts = judged(made, made["findings"].part(rows), rows)
    assert (verdicts.group[made["kind"][rows] == 1] == 2).mean() < 0.15


def test_a_known_noise_rate_decides_how_many_are_accused_and_not_who(made: Made) -> None:
    # A tenth is wrong, and half of the right labels are of images that the network finds hard.
    generator = np.random.default_rng(3)
    wrong = np.arange(len(made["given"])) < 40
    centre = np.where(wrong, -3.0, np.where(np.arange(len(wrong)) % 2 == 0, -1.5, 2.0))
    odds = generator.normal(centre, 0.7)
    findings = replace(made["findings"], support=1 / (1 + np.exp(-odds)), lead=np.tanh(odds))
    guessed = judge(findings, made["given"])
    known = judge(findings, made["given"], noise_rate=0.1)

    order = np.argsort(guessed.p_clean)
    assert (np.diff(known.p_clean[order]) >= 0).all()
    accused, before = known.group > 0, guessed.group > 0
    assert np.flatnonzero(accused).tolist() == sorted(order[:40])
    assert before.sum() > 150
    assert wrong[accused].mean() > 2 * wrong[before].mean()


@pytest.mark.parametrize(("noise_rate", "accused"), [(0.0, 0), (1.0, 399)])
def test_the_least_and_the_highest_noise_rate(made: Made, noise_rate: float, accused: int) -> None:
    assert (judge(made["findings"], made["given"], noise_rate).group > 0).sum() == accused


def test_a_known_noise_rate_holds_for_held_out_images_too(made: Made) -> None:
    reference = judge(made["findings"], made["given"], noise_rate=0.0).reference
    given = np.zeros(1, dtype=int)
    findings = held_out_findings(np.array([[0.05, 0.85, 0.05, 0.05]]), given)
    assert judge_held_out(findings, given, reference).group.tolist() == [0]


@pytest.mark.parametrize(("ood_rate", "called"), [(0.0, 0), (0.05, 20), (0.1, 40), (1.0, None)])
def test_a_known_share_of_foreign_images_decides_how_many_are_called_so_and_not_who(
    made: Made, ood_rate: float, called: int | None
) -> None:
    guessed = judged(made)
    known = judge(made["findings"], made["given"], ood_rate=ood_rate)
    np.testing.assert_array_equal(known.p_clean, guessed.p_clean)
    accused = np.flatnonzero(guessed.group > 0)
    most_doubtful = accused[np.argsort(-made["findings"].doubt[accused])]
    expected = sorted(most_doubtful if called is None else most_doubtful[:called])
    assert np.flatnonzero(known.group == 2).tolist() == expected
    assert (known.suggested[known.group == 1] >= 0).all()


def test_among_few_accused_labels_the_known_number_is_foreign_too(made: Made) -> None:
    known = judge(made["findings"], made["given"], noise_rate=0.04, ood_rate=0.01)
    assert known.reference.doubts is None, "16 are too few for two heaps"
    accused = np.flatnonzero(known.group > 0)
    doubt = made["findings"].doubt[accused]
    assert sorted(accused[np.argsort(-doubt)[:4]]) == np.flatnonzero(known.group == 2).tolist()


def test_without_foreign_images_the_held_out_are_none_either(made: Made) -> None:
    reference = judge(made["findings"], made["given"], ood_rate=0.0).reference
    given = np.zeros(1, dtype=int)
    hesitant = held_out_findings(np.array([[0.2, 0.3, 0.25, 0.25]]), given)
    assert judge_held_out(hesitant, given, reference).group.tolist() != [2]


def test_the_least_noise_is_that_of_the_images_the_network_is_surest_of(made: Made) -> None:
    # 1,000 images, the first hundred without doubt: 7 of them accused, of the others 300.
    group = np.zeros(1000, dtype=np.int8)
    group[:7], group[100:400] = 1, 1
    doubt = np.where(np.arange(1000) < 100, 0.1, 0.5)
    places = np.arange(1000) % len(made["given"])
    findings = replace(made["findings"].part(places), doubt=doubt)
    found = replace(judged(made).part(slice(0, 0)), group=group, confidence=np.full(1000, 0.5))
    assert least_noise_rate(findings, found) == pytest.approx(0.07)
    # Of the others 50 are foreign beyond doubt: 5 %, and 7 % of the rest.
    group[400:450] = 2
    confidence = np.where(np.arange(1000) < 450, 0.95, 0.5)
    found = replace(found, confidence=confidence)
    assert least_noise_rate(findings, found) == pytest.approx(0.05 + 0.95 * 0.07)
    # It is never more than what is accused.
    group[7:] = 0
    assert least_noise_rate(findings, found) == pytest.approx(0.007)


def test_held_out_images_are_judged_by_what_is_usual(made: Made) -> None:
    reference = judged(made).reference
    right, wrong = [0.8, 0.1, 0.05, 0.05], [0.05, 0.85, 0.05, 0.05]
    foreign = [0.2, 0.3, 0.25, 0.25]
    given = np.zeros(3, dtype=int)
    findings = held_out_findings(np.array([right, wrong, foreign]), given)
    verdicts = judge_held_out(findings, given, reference)
    assert verdicts.group.tolist() == [0, 1, 2]
    assert verdicts.suggested.tolist() == [-1, 1, -1]


@pytest.mark.parametrize(("sure", "learned"), [(True, True), (False, True), (True, False)])
def test_where_labels_lose_in_another_way_planted_errors_are_no_measure(
    sure: bool, learned: bool
) -> None:
    # A fifth of the labels is wrong and loses; planted errors lie far below them all.
    generator = np.random.default_rng(7)
    planted, wrong, samples = 120, 240, 1200
    place = np.arange(samples)
    support = np.where(place < wrong, 0.1, 0.8)
    support[-planted:] = 1e-4
    support = expit(log_odds_of(support) + generator.normal(0, 0.2, samples))
    # A network that has learned nothing is equally unsure of all.
    lead = np.where(support < 0.5, -0.6, 0.8) if learned else np.full(samples, -0.02)
    given, rival = generator.integers(0, 4, samples), generator.integers(4, 8, samples)
    ledger = Findings(
        visits=np.full(samples, 40),
        support=support,
        lead=lead,
        doubt=generator.uniform(0.1, 0.2, samples),
        # Else the network hesitates about every other image, and right labels may lose too.
        confidence=np.where((place % 2 == 0) & (not sure), 0.2, 0.9),
        label_share=(lead > 0).astype(float),
        rival=rival,
        rival_share=(lead < 0).astype(float),
        features=np.ones(samples),
        held=np.zeros(samples, dtype=np.int8),
    )
    verdicts = judge(ledger, given, planted=place[-planted:], own=given)
    assert verdicts.reference.unlike == (sure and learned)
    if sure and learned:
        assert (verdicts.group[:wrong] != 0).mean() > 0.9
        assert (verdicts.group[wrong:-planted] == 0).all()
