"""Signs that a run goes wrong: what it had learned is lost, or one class wins all.

Only a fall back to chance stops a run. Of the others its user must know: what it suggests may be
worth nothing then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from josrc.data.source import Source
from josrc.engine.metrics import Row

# A sign counts when it has been there for this many epochs in a row.
PATIENCE = 3
# Collapse: all but this share of the best distance to chance is lost.
COLLAPSE_SHARE = 0.05
MEASURES = {
    "test_accuracy": "Test accuracy",
    "agreement": "Agreement with held-out labels",
    "fit_given": "Agreement with the training labels",
}
# A suggestion is the rival of late, and a verdict gives the last epochs a tenth of its weight.
DISTRUST = (
    "Suggested labels, and partly also verdicts, depend on the last epochs: don't trust them "
    "without looking."
)


class Health:
    """Looks at the epochs of a run.

    Args:
        source: what it is trained on.
        hint: what of the method may be to blame, if anything is known for it.
    """

    def __init__(self, source: Source, hint: str | None = None) -> None:
        self.hint = hint
        self.names = source.closed_names
        self.chance = 100 / source.closed
        given = np.bincount(source.given, minlength=source.closed)
        self.given_shares: list[float] = (100 * given / len(source.given)).tolist()

    def causes(self, lr: float | None = None) -> str:
        """What is likely to blame for a run that goes wrong."""
        now = "" if lr is None else f", now {lr:g}"
        high = f"a learning rate that is too high (optimizer.lr{now})"
        return f"Likely causes: {self.hint}, or {high}." if self.hint else f"Likely cause: {high}."

    def notices(self, measure: str | None, rows: Sequence[Row], best: Path) -> Iterator[str]:
        """What is to be said after an epoch: each sign once, when it has lasted long enough.

        Args:
            measure: the column that tells how good the networks are, if there is one.
            rows: of the epochs so far.
            best: where the weights of the best epoch lie.
        """
        scores = _scores(measure, rows)
        if epochs_fallen(scores, self.chance) == PATIENCE:
            epoch = 1 + scores.index(max(scores))
            kept = f" {best} holds epoch {epoch}." if measure else ""
            yield (
                f"{MEASURES[measure or 'fit_given']} fell from {max(scores):.2f} % (epoch {epoch}) "
                f"to {scores[-1]:.2f} % (epoch {len(rows)}).{kept} {DISTRUST} "
                f"{self.causes()}"
            )
        if epochs_overtaken(rows, self.given_shares) == PATIENCE:
            top, share = int(rows[-1]["top_class"] or 0), rows[-1]["top_share"]
            yield (
                f"'{self.names[top]}' takes over: {share:.0f} % of the training images are "
                f"predicted as this class, but only {self.given_shares[top]:.0f} % have this "
                f"label. {DISTRUST} {self.causes()}"
            )

    def collapse(self, measure: str | None, rows: Sequence[Row]) -> str | None:
        """That a run has been back at chance for long enough, in words."""
        if self.epochs_collapsed(measure, rows) < PATIENCE:
            return None
        scores = _scores(measure, rows)
        return (
            f"{MEASURES[measure or 'fit_given']} collapsed: {max(scores):.2f} % at its best, "
            f"{scores[-1]:.2f} % in epoch {len(rows)} (chance is {self.chance:.2f} %). "
            f"{self.causes()}"
        )

    def epochs_collapsed(self, measure: str | None, rows: Sequence[Row]) -> int:
        """For how many epochs a run has been back at chance; 0 where nothing measures it."""
        if measure is None:
            return 0

        def at_chance(score: float, best: float) -> bool:
            return score <= self.chance + COLLAPSE_SHARE * (best - self.chance)

        return _epochs_lost(_scores(measure, rows), self.chance, at_chance)

    def summary(self, measure: str | None, rows: Sequence[Row]) -> dict[str, Any]:
        """How a run ended: that it fell and stayed there, that a class took over, or nothing."""
        found: dict[str, Any] = {}
        if epochs_fallen(_scores(measure, rows), self.chance) >= PATIENCE:
            found["fell"] = True
        if epochs_overtaken(rows, self.given_shares) >= PATIENCE:
            found["overtaken_by"] = self.names[int(rows[-1]["top_class"] or 0)]
        return found


def ended_badly(summary: Mapping[str, Any]) -> str | None:
    """A sentence for a run whose summary says that it fell, or that one class took over."""
    if "overtaken_by" in summary:
        return f"One class, '{summary['overtaken_by']}', took over at the end. {DISTRUST}"
    if "fell" in summary:
        return f"At the end, less than half of the best value was left. {DISTRUST}"
    return None


def epochs_fallen(scores: Sequence[float], chance: float) -> int:
    """For how many epochs a score has been below half of its best before.

    Args:
        scores: a percentage an epoch.
        chance: the score of a network that guesses; twice as much must have been reached once.
    """
    return _epochs_lost(scores, chance, lambda score, best: score < best / 2)


def _epochs_lost(
    scores: Sequence[float], chance: float, lost: Callable[[float, float], bool]
) -> int:
    """For how many epochs a score has been lost, given its best before, and had been worth it."""
    best, epochs = 0.0, 0
    for score in scores:
        best = max(best, score)
        epochs = epochs + 1 if best > 2 * chance and lost(score, best) else 0
    return epochs


def epochs_overtaken(rows: Sequence[Row], given_shares: Sequence[float]) -> int:
    """For how many epochs one class has won more than half of what is labelled otherwise.

    Args:
        rows: of the epochs; without ``top_class`` and ``top_share`` there is nothing to see.
        given_shares: how many percent of the labels each class has.
    """
    epochs = 0
    for row in rows:
        share, top = row.get("top_share"), row.get("top_class")
        label_share = 100.0 if top is None else given_shares[int(top)]
        won = (share or 0.0) - label_share
        epochs = epochs + 1 if won > (100 - label_share) / 2 else 0
    return epochs


def _scores(measure: str | None, rows: Sequence[Row]) -> list[float]:
    """Without images to test on, what is left is how far the given labels are fitted."""
    return [row.get(measure or "fit_given") or 0.0 for row in rows]
