"""Classes that are taken for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from josrc.verdicts.confusion import systematic_confusion
from josrc.verdicts.findings import Findings

Made = dict[str, Any]


def test_a_rival_stands_out_by_its_share_of_a_label(made: Made) -> None:
    # Of 30 samples of class 0 that lose, 20 lose to class 1, 5 to class 2 and 5 to class 3.
    rows = np.arange(30)
    findings = replace(
        made["findings"].part(rows),
        rival=np.repeat([1, 2, 3], [20, 5, 5]),
        rival_share=np.full(30, 0.9),
        label_share=np.full(30, 0.1),
    )
    given = np.zeros(30, dtype=int)
    confusion = systematic_confusion(findings, given)
    # Ten more in every share: 20/40 and 5/40.
    weight = (20 / 40 - 2 * 5 / 40) * 20 / 40
    asked = [(0, 1), (0, 2), (0, 3), (0, -1), (1, 0), (2, 1)]
    labels, rivals = np.array(asked).T
    np.testing.assert_allclose(confusion.of(labels, rivals), [weight, 0, 0, 0, 0, 0])
    ahead = replace(findings, label_share=np.full(30, 0.95))
    assert (systematic_confusion(ahead, given).of(labels, rivals) == 0).all()


def test_rivals_of_one_label_have_nothing_to_do_with_those_of_another(made: Made) -> None:
    # Class 2 loses to class 0 alone; class 1 to classes 0 and 3 alike.
    given, rival = np.repeat([2, 1, 1], 10), np.repeat([0, 0, 3], 10)
    findings = replace(
        made["findings"].part(np.arange(30)),
        rival=rival,
        rival_share=np.full(30, 0.9),
        label_share=np.full(30, 0.1),
    )
    weight = systematic_confusion(findings, given).of(given, rival)
    np.testing.assert_allclose(weight, np.repeat([0.5 * 0.5, 0, 0], 10))


def test_a_class_that_many_labels_lose_to_is_no_confusion(made: Made) -> None:
    # What a network does that has collapsed: whatever the label, it sees class 0.
    given = np.repeat([1, 2, 3], 10)
    findings = replace(
        made["findings"].part(np.arange(30)),
        rival=np.zeros(30, dtype=int),
        rival_share=np.full(30, 0.9),
        label_share=np.full(30, 0.1),
    )
    weight = systematic_confusion(findings, given).of(given, findings.rival)
    np.testing.assert_allclose(weight, 0.5 * 0.5 / 3)


def losing(made: Made, given: np.ndarray, rival: np.ndarray, share: float = 0.9) -> Findings:
    """Findings of samples that lose to their rivals, so often."""
    return replace(
        made["findings"].part(np.arange(len(given)) % 400),
        rival=rival,
        rival_share=np.full(len(given), share),
        label_share=np.full(len(given), 0.1),
    )


def test_losing_to_a_rival_counts_where_many_labels_have_one_that_stands_out(made: Made) -> None:
    # Of twenty labels so many lose to the next class; the others to all classes alike.
    given = np.repeat(np.arange(20), 38)
    next_class = (given + 1) % 20
    alike = (given + 1 + np.tile(np.arange(38) % 19, 20)) % 20
    counted = []
    for labels in (2, 9, 10, 13, 16):
        findings = losing(made, given, np.where(given < labels, next_class, alike))
        confusion = systematic_confusion(findings, given)
        assert confusion.prevalence == labels / 20
        evidence = confusion.evidence(findings, given)
        assert (evidence[given >= labels] == 0).all(), "no rival of theirs stands out"
        assert np.ptp(evidence[given < labels]) < 0.2, "the others lose to all of them alike"
        counted.append(evidence[0])
    none, few, some, half, most = counted
    assert (none, few) == (0, 0), "classes that look alike are as many"
    assert 0 < some < half
    assert half == most
    # The more often a sample loses to it, the more it counts.
    findings = losing(made, given, next_class)
    confusion = systematic_confusion(findings, given)
    shares = replace(findings, rival_share=np.linspace(0, 1, len(given)))
    evidence = confusion.evidence(shares, given)
    assert evidence[0] == 0
    assert (np.diff(evidence) > 0).all()


@pytest.mark.parametrize(("classes", "counts"), [(4, False), (5, True)])
def test_of_few_classes_one_is_always_the_nearest_and_no_habit(
    made: Made, classes: int, counts: bool
) -> None:
    given = np.repeat(np.arange(classes), 40)
    findings = losing(made, given, (given + 1) % classes)
    confusion = systematic_confusion(findings, given)
    assert (confusion.of(given, findings.rival) > 0.5).all()
    assert ((confusion.evidence(findings, given) > 0) == counts).all()


def test_classes_that_are_taken_for_each_other_look_alike_and_are_no_habit(made: Made) -> None:
    given = np.repeat(np.arange(20), 40)
    both_ways = losing(made, given, given ^ 1)
    confusion = systematic_confusion(both_ways, given)
    assert (confusion.evidence(both_ways, given) == 0).all()
    # The even ones lose to the odd ones far more often than the other way round.
    row = np.arange(len(given)) % 40
    rarely = (given % 2 == 1) & (row >= 4)
    one_way = replace(both_ways, rival_share=np.where(rarely, 0.0, both_ways.rival_share))
    weight = systematic_confusion(one_way, given).of(given, given ^ 1)
    assert (weight[given % 2 == 0] > 0.3).all()
    assert (weight[given % 2 == 1] == 0).all()
