"""What a report shows of the decisions that there are when it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from josrc._console import clipped
from josrc.data.noise import CLEAN
from josrc.verdicts.decided import TITLES, SampleDecision
from josrc.verdicts.report.gallery import Scores


def describe_decisions(
    decided: Mapping[int, SampleDecision], scores: Scores
) -> dict[str, Any] | None:
    """How many there are of each outcome, and how often people agreed; none without decisions."""
    found = {row: one for row, one in decided.items() if row < len(scores.verdict)}
    if not found:
        return None
    counts = Counter(one.outcome for one in found.values())
    accused = [one for row, one in found.items() if scores.verdict[row] != CLEAN]
    believed = [one for row, one in found.items() if scores.verdict[row] == CLEAN]
    return {
        "total": len(found),
        "outcomes": [
            {"title": title, "count": counts[key]} for key, title in TITLES.items() if counts[key]
        ],
        "accused": len(accused),
        "rightly": sum(one.outcome != "keep" for one in accused),
        "believed": len(believed),
        "wrongly": sum(one.outcome != "keep" for one in believed),
    }


def add_decisions(samples: Sequence[dict[str, Any]], decided: Mapping[int, SampleDecision]) -> None:
    """Give each sample that somebody has decided on what that was."""
    for sample in samples:
        one = decided.get(sample["number"])
        if one is not None:
            sample["decided"] = [one.outcome, clipped(one.text)]
