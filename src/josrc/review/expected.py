"""What changes by verdict alone are expected to do, by the verdicts' own probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from josrc.verdicts.judge_run import errors_words


@dataclass
class ExpectedChanges:
    """What is expected of labels and images that change though nobody has decided on them.

    The counts are exact. The others are sums of probabilities over these samples, by the columns
    of ``verdicts.csv``.

    Attributes:
        relabelled: how many labels change.
        become_right: labels that become right: ``confidence``, of verdict and suggestion together.
        become_wrong: right labels that become wrong: ``p_clean``.
        stay_wrong: labels that were wrong and stay wrong, those of foreign images included: the
            rest.
        removed: how many images are removed.
        removed_by_mistake: those among them that belong to a class: 1 - ``p_ood``.
    """

    relabelled: int = 0
    become_right: float = 0.0
    become_wrong: float = 0.0
    stay_wrong: float = 0.0
    removed: int = 0
    removed_by_mistake: float = 0.0

    def add(self, outcome: str, p_clean: float, p_ood: float, confidence: float) -> None:
        """Count a sample that is relabelled or removed by its verdict."""
        if outcome == "remove":
            self.removed += 1
            self.removed_by_mistake += 1 - p_ood
        elif outcome == "relabel":
            self.relabelled += 1
            self.become_right += confidence
            self.become_wrong += p_clean
            # Digits that were cut off may make them a little more than 1.
            self.stay_wrong += max(0.0, 1 - confidence - p_clean)

    def sentences(self, summary: Mapping[str, Any]) -> str:
        """For the screen, with how far the estimates were checked, by ``audit/summary.json``."""
        if not self.relabelled and not self.removed:
            return "By verdict alone no label will change."
        text = f"By verdict alone {_count_words(self.relabelled, 'label', 'labels')} will change"
        if self.relabelled:
            right, wrong, still = _round_to_sum(
                [self.become_right, self.become_wrong, self.stay_wrong]
            )
            text += (
                f": about {_count_words(right, 'becomes right', 'become right')}, "
                f"{_count_words(wrong, 'right one becomes wrong', 'right ones become wrong')}, "
                f"{_count_words(still, 'stays wrong', 'stay wrong')}"
            )
        if self.removed:
            text += (
                f". {_count_words(self.removed, 'image', 'images')} will be removed, about "
                f"{round(self.removed_by_mistake):,} of them by mistake: they belong to a class"
            )
        return f"{text}. {_how_checked(summary)}"


def _how_checked(summary: Mapping[str, Any]) -> str:
    if summary.get("planted_unlike"):
        return (
            "These are the run's own estimates. Nothing in the run has checked them: the planted "
            "errors do not look like the wrong labels here."
        )
    if not summary.get("planted"):
        return (
            "These are the run's own estimates. Nothing in the run has checked them: it has no "
            "planted errors (--plant), or too few."
        )
    text = f"These are the run's own estimates, measured with {errors_words(summary)}"
    if any(summary.get(f"known_{rate}") is not None for rate in ("noise_rate", "ood_rate")):
        text += " and adjusted to the rate that the audit was given"
    return f"{text}."


def _count_words(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _round_to_sum(parts: Sequence[float]) -> list[int]:
    """Whole numbers that sum up to what the parts do: the largest fractions are rounded up."""
    whole = [floor(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda place: whole[place] - parts[place])
    for place in order[: round(sum(parts)) - sum(whole)]:
        whole[place] += 1
    return whole
