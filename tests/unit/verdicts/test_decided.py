"""Decisions beside verdicts."""

from __future__ import annotations

import pytest

from josrc.runs.compare import confirmed
from josrc.verdicts.decided import SampleDecision


@pytest.mark.parametrize(
    ("decided", "before", "given", "verdict", "suggested", "agrees"),
    [
        (SampleDecision("keep"), "cat", "cat", "clean", "", True),
        (SampleDecision("keep"), "cat", "cat", "mislabelled", "dog", False),
        (SampleDecision("keep"), "cat", "cat", "out_of_distribution", "", False),
        (SampleDecision("keep"), "cat", "emu", "mislabelled", "cat", True),
        (SampleDecision("relabel", "dog"), "cat", "dog", "clean", "", True),
        (SampleDecision("relabel", "dog"), "cat", "dog", "mislabelled", "cat", False),
        (SampleDecision("relabel", "dog"), "cat", "cat", "mislabelled", "dog", True),
        (SampleDecision("relabel", "dog"), "cat", "cat", "clean", "", False),
        (SampleDecision("relabel", "dog"), "cat", "cat", "mislabelled", "emu", False),
        (SampleDecision("remove"), "cat", "cat", "out_of_distribution", "", True),
        (SampleDecision("remove"), "cat", "cat", "clean", "", False),
    ],
)
def test_a_verdict_confirms_a_decision_if_it_means_the_same_label(
    decided: SampleDecision, before: str, given: str, verdict: str, suggested: str, agrees: bool
) -> None:
    assert confirmed(decided, before, given, verdict, suggested) is agrees
