"""Verdicts: clean, mislabelled or out of distribution, from the ledger alone.

The batch-wise groups of a method serve its training and are no verdict: Jo-SRC drops samples from
its clean set for being predicted too surely. A verdict asks two questions of the ledger, of every
method alike, and needs no noise rate to answer them.

Is the label right? Right labels are predicted with a higher probability than wrong ones, over all
epochs and over the last. A mixture of two normal distributions finds the two heaps. A label that
is behind a rival counts for less still.

If it is wrong, does the image belong to any class? The network settles on the class of an image
that has one, and hesitates about one that has none: again two heaps, of certainty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from josrc.audit.mixture import TwoNormals, fit_two_normals, logit, sigmoid
from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.errors import UserError

Vector = NDArray[Any]

# --- the rule's constants: chosen on other noise settings than docs/audit.md reports --------------

# Log-odds a label loses for being as far behind its rival as it can be.
BEHIND = 4.0
# Fewer samples than this in doubt are no heap: none of them is called out of distribution.
FEWEST = 20


@dataclass(frozen=True)
class Findings:
    """What verdicts and their reasons read of the ledger, each ``(N,)``.

    Attributes:
        visits: how often training has seen the sample.
        support: probability of the given label, over all networks and both spans of time.
        lead: how far the given label was ahead of every other class, -1 to 1.
        doubt: entropy of the predictions, 0 to 1.
        confidence: probability of the top class.
        label_share: how often the given label was the top class, in the last epochs.
        rival: the class other than the given label that was it most often, -1 for none.
        rival_share: how often it was.
    """

    visits: Vector
    support: Vector
    lead: Vector
    doubt: Vector
    confidence: Vector
    label_share: Vector
    rival: Vector
    rival_share: Vector

    @classmethod
    def of(cls, ledger: Mapping[str, Vector]) -> Self:
        """From the fields of a ledger."""
        first, second = ledger["mean_label_probability"], ledger["mean_second_label_probability"]
        label = np.where(second < 0, first, (first + second) / 2)
        confidence = ledger["mean_confidence"]
        lead = (label - ledger["mean_rival_probability"] + ledger["long_margin"]) / 2
        return cls(
            visits=ledger["visits"],
            support=(label + ledger["long_label_probability"]) / 2,
            lead=lead / np.maximum(confidence, 1e-6),
            doubt=(ledger["mean_entropy"] + ledger["long_entropy"]) / 2,
            confidence=confidence,
            label_share=ledger["mean_label_share"],
            rival=ledger["rival"],
            rival_share=ledger["mean_rival_share"],
        )

    def part(self, rows: slice | NDArray[np.bool_]) -> Findings:
        """Those of some samples."""
        return Findings(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class Usual:
    """What is usual in a data set: the yardstick for images that were not trained on.

    Attributes:
        labels: heaps of the log-odds of the given label; the upper one has the right labels.
        doubts: heaps of the log-odds of doubt; the upper one has the images of no class. None
            where nothing was in doubt.
        confidence: median confidence about images whose label is believed.
    """

    labels: TwoNormals
    doubts: TwoNormals | None
    confidence: float


@dataclass(frozen=True)
class Verdicts:
    """A verdict on every sample, each vector ``(N,)``.

    Attributes:
        group: 0 clean, 1 mislabelled, 2 out of distribution.
        suggested: the class a mislabelled sample seems to be, -1 for the others.
        rival: the most likely class other than the given label, whatever the verdict; -1 for none.
        p_clean: probability that the given label is right.
        p_ood: probability that the image belongs to no class.
        confidence: probability of the verdict; of a mislabelled sample, with its suggestion.
        usual: what the verdicts were measured by.
    """

    group: Vector
    suggested: Vector
    rival: Vector
    p_clean: Vector
    p_ood: Vector
    confidence: Vector
    usual: Usual

    @property
    def probabilities(self) -> tuple[Vector, Vector, Vector]:
        """Those of the columns, in their order."""
        return self.p_clean, self.p_ood, self.confidence

    def part(self, rows: slice) -> Verdicts:
        """Those on some samples."""
        names = ("group", "suggested", "rival", "p_clean", "p_ood", "confidence")
        return Verdicts(**{name: getattr(self, name)[rows] for name in names}, usual=self.usual)


def judge(findings: Findings) -> Verdicts:
    """Verdicts on the samples of a training run."""
    seen = findings.visits > 0
    if not seen.any():
        raise UserError("Training has not seen a single sample yet, so there is nothing to audit.")
    labels = fit_two_normals(logit(findings.support[seen]))
    p_clean = _p_clean(findings.support, findings.lead, labels)
    suspect = seen & (p_clean < 0.5)
    doubts = fit_two_normals(logit(findings.doubt[suspect])) if suspect.sum() >= FEWEST else None
    believed = seen & ~suspect
    confidence = float(np.median(findings.confidence[believed if believed.any() else seen]))
    return _verdicts(findings, p_clean, Usual(labels, doubts, confidence))


def judge_held_out(findings: Findings, usual: Usual) -> Verdicts:
    """Verdicts on images that were not trained on, by what is usual in the training data."""
    p_clean = _p_clean(findings.support, findings.lead, usual.labels)
    return _verdicts(findings, p_clean, usual)


def held_out_findings(probabilities: Vector, given: Labels) -> Findings:
    """Findings from one prediction of each image.

    Args:
        probabilities: what the final network (the teacher, where there is one) predicts,
            ``(M, classes)``.
        given: the given labels, ``(M,)``.
    """
    rows = np.arange(len(given))
    others = probabilities.copy()
    others[rows, given] = -1.0
    rival = others.argmax(axis=1)
    support, confidence = probabilities[rows, given], probabilities.max(axis=1)
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-12)), axis=1)
    return Findings(
        visits=np.ones(len(given), dtype=np.int16),
        support=support,
        lead=(support - others[rows, rival]) / np.maximum(confidence, 1e-6),
        doubt=entropy / np.log(max(2, probabilities.shape[1])),
        confidence=confidence,
        label_share=support,
        rival=rival,
        rival_share=others[rows, rival],
    )


def _p_clean(support: Vector, lead: Vector, labels: TwoNormals) -> Vector:
    odds = labels.log_odds(logit(support)) + BEHIND * np.minimum(lead, 0)
    return sigmoid(odds)


def _verdicts(findings: Findings, p_clean: Vector, usual: Usual) -> Verdicts:
    """From the answer to the first question to verdicts."""
    p_foreign: Vector = np.zeros(len(p_clean))
    if usual.doubts is not None:
        p_foreign = sigmoid(usual.doubts.log_odds(logit(findings.doubt)))
    p_ood = (1 - p_clean) * p_foreign
    p_wrong = (1 - p_clean) * (1 - p_foreign)
    # A sample that no other class ever won has nothing that could be suggested.
    foreign = (p_foreign >= 0.5) | (findings.rival < 0)
    group = np.where(p_clean >= 0.5, CLEAN, np.where(foreign, OOD, ID)).astype(np.int8)
    sure = np.where(group == ID, p_wrong * findings.rival_share, np.maximum(p_clean, p_ood))
    unseen = findings.visits == 0
    return Verdicts(
        group=np.where(unseen, CLEAN, group).astype(np.int8),
        suggested=np.where((group == ID) & ~unseen, findings.rival, -1),
        rival=findings.rival,
        p_clean=np.where(unseen, 0.5, p_clean),
        p_ood=np.where(unseen, 0.0, p_ood),
        confidence=np.where(unseen, 0.0, sure),
        usual=usual,
    )
