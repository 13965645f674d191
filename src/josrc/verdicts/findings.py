"""What verdicts and their reasons rest on: a ledger, or one prediction of each sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import Labels

Vector = NDArray[Any]
# Weight of the last epochs beside all epochs, in label probability and entropy. All of them say
# more: late in a run wrong labels may be learned by heart, and some runs go wrong at their end.
RECENT_WEIGHT = 0.1


@dataclass(frozen=True)
class Findings:
    """What verdicts and their reasons read of the ledger, each ``(N,)``.

    Attributes:
        visits: how often training has seen the sample.
        support: probability of the given label, over all networks and both spans of time.
        lead: by how much the given label was ahead of every other class, -1 to 1.
        doubt: entropy of the predictions, 0 to 1.
        confidence: probability of the top class.
        label_share: how often the given label was the top class, in the last epochs.
        rival: the class other than the given label that was it most often, -1 for none.
        rival_share: how often it was.
        features: probability of the given label by the features of the final network; 1 where
            nobody has looked at them.
        held: 0 for samples that were trained with the label that is judged, 1 for those that were
            held out of training, 2 for those that were trained with an error in its place, 3 where
            there was no training.
    """

    visits: Vector
    support: Vector
    lead: Vector
    doubt: Vector
    confidence: Vector
    label_share: Vector
    rival: Vector
    rival_share: Vector
    features: Vector
    held: Vector

    @classmethod
    def of(cls, ledger: Mapping[str, Vector], features: Vector | None = None) -> Self:
        """From the fields of a ledger, and what the features of the final network say."""
        first, second = ledger["mean_label_probability"], ledger["mean_second_label_probability"]
        label = np.where(second < 0, first, (first + second) / 2)
        confidence = ledger["mean_confidence"]
        lead = (label - ledger["mean_rival_probability"] + ledger["long_margin"]) / 2
        return cls(
            visits=ledger["visits"],
            support=RECENT_WEIGHT * label + (1 - RECENT_WEIGHT) * ledger["long_label_probability"],
            lead=lead / np.maximum(confidence, 1e-6),
            doubt=RECENT_WEIGHT * ledger["mean_entropy"]
            + (1 - RECENT_WEIGHT) * ledger["long_entropy"],
            confidence=confidence,
            label_share=ledger["mean_label_share"],
            rival=ledger["rival"],
            rival_share=ledger["mean_rival_share"],
            features=np.ones(len(confidence)) if features is None else features,
            held=np.zeros(len(confidence), dtype=np.int8),
        )

    def part(self, rows: slice | NDArray[np.bool_]) -> Findings:
        """Those of some samples."""
        return Findings(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def replaced(self, rows: Vector, others: Findings) -> Findings:
        """With other findings on some samples."""
        names = [field.name for field in fields(self)]
        return Findings(**replace_rows(self, names, rows, others))


def replace_rows(whole: Any, names: Iterable[str], rows: Vector, others: Any) -> dict[str, Any]:
    """Vectors of something, some of their rows taken from another of its kind."""
    found = {name: getattr(whole, name).copy() for name in names}
    for name, values in found.items():
        values[rows] = getattr(others, name)
    return found


def held_out_findings(
    probabilities: Vector, given: Labels, features: Vector | None = None
) -> Findings:
    """Findings from one prediction of each image.

    Args:
        probabilities: what the final network (the teacher, where there is one) predicts,
            ``(M, classes)``; NaN of an image that it could not see.
        given: the given labels, ``(M,)``.
        features: what the features of that network say of them, ``(M,)``.
    """
    rows, unseen = np.arange(len(given)), np.isnan(probabilities).any(axis=1)
    probabilities = np.nan_to_num(probabilities, nan=1 / probabilities.shape[1])
    others = probabilities.copy()
    others[rows, given] = -1.0
    rival = others.argmax(axis=1)
    support, confidence = probabilities[rows, given], probabilities.max(axis=1)
    return Findings(
        visits=np.where(unseen, 0, 1),
        support=support,
        lead=(support - others[rows, rival]) / np.maximum(confidence, 1e-6),
        doubt=doubt_of(probabilities),
        confidence=confidence,
        label_share=support,
        rival=rival,
        rival_share=others[rows, rival],
        features=np.ones(len(given)) if features is None else features,
        held=np.ones(len(given), dtype=np.int8),
    )


def doubt_of(probabilities: Vector) -> Vector:
    """Entropy of predictions ``(M, classes)``: 0 where all is on one class, 1 where on none."""
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-12)), axis=1)
    doubt: Vector = np.clip(entropy / np.log(max(2, probabilities.shape[1])), 0, 1)
    return doubt
