"""What is found out about labels beside the ledger, once training has ended, and kept in a file."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np

from josrc._io import write_npz
from josrc._reading import read_arrays
from josrc.data.noise import Labels
from josrc.errors import UserError
from josrc.verdicts.findings import Findings, Vector, held_out_findings
from josrc.verdicts.rule import FEATURE_WEIGHT, FROZEN_FEATURE_WEIGHT


@dataclass(frozen=True)
class Evidence:
    """Features and planted errors of a run; none of what is not known.

    Attributes:
        features: probability of the label that each sample was trained with, by the features of
            the final network, ``(N,)``.
        frozen: whether nothing was learned of these features, ``(1,)``; none if something was.
        held: the same of held-out samples, ``(held,)``.
        planted: rows of the planted errors, ``(planted,)``.
        planted_labels: what they were trained with.
        own: what the final network says of these samples, ``(planted, classes)``.
        own_support: how likely training found the label they came with, on average.
        own_features: what its features say of the label they came with.
    """

    features: Vector | None = None
    frozen: Vector | None = None
    held: Vector | None = None
    planted: Labels | None = None
    planted_labels: Labels | None = None
    own: Vector | None = None
    own_support: Vector | None = None
    own_features: Vector | None = None

    @property
    def features_weight(self) -> float:
        """What the features count in the score of a label."""
        return (
            FEATURE_WEIGHT
            if self.frozen is None or not self.frozen.any()
            else FROZEN_FEATURE_WEIGHT
        )

    def trained(self, given: Labels) -> Labels:
        """The labels that samples were trained with, by those they came with."""
        if self.planted is None or self.planted_labels is None:
            return given
        labels = given.copy()
        labels[self.planted] = self.planted_labels
        return labels

    def own_findings(self, given: Labels, classes: int, trained: Findings) -> Findings:
        """Findings on the own labels of the samples that errors were planted on.

        What the network learned of a planted label it can't say of their own: it is asked how
        likely that is if the planted one is wrong.

        Args:
            given: the labels that all samples came with.
            classes: how many there are.
            trained: findings on the labels that all samples were trained with.
        """
        assert self.planted is not None
        unknown = np.full((len(self.planted), classes), np.nan)
        own = unknown if self.own is None else self.own
        findings = held_out_findings(own, given[self.planted], self._else(self.own_features))
        findings = replace(findings, held=np.full(len(self.planted), 2, dtype=np.int8))
        support = self._else(self.own_support, trained.support)
        return findings if support is None else replace(findings, support=support)

    def _else(self, own: Vector | None, planted: Vector | None = None) -> Vector | None:
        """The probability of own labels if the planted ones, by default their features', fail."""
        planted = self.features if planted is None else planted
        if own is None or planted is None:
            return own
        chance: Vector = np.minimum(own / np.maximum(1 - planted[self.planted], 1e-6), 1.0)
        return chance

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        write_npz(path, {name: value for name, value in known.items() if value is not None})

    @classmethod
    def read(cls, path: Path) -> Self:
        """From its file."""
        names = [field.name for field in fields(cls)]
        found = read_arrays(path, known=names)
        for name, values in found.items():
            whole = name in ("frozen", "planted", "planted_labels")
            if values.ndim != (2 if name == "own" else 1) or values.dtype.kind not in (
                "iu" if whole else "f"
            ):
                raise UserError(f"{path} is damaged: {name} is not what training writes.")
        planted = [len(v) for n, v in found.items() if n not in ("features", "frozen", "held")]
        if len(set(planted)) > 1:
            raise UserError(f"{path} is damaged: its arrays belong to different planted errors.")
        return cls(**found)

    def check(self, path: Path, samples: int, classes: int) -> None:
        """Raise an error unless what a file holds can be of such data."""
        wrong = self.features is not None and len(self.features) != samples
        for values, high in ((self.planted, samples), (self.planted_labels, classes)):
            wrong = wrong or (values is not None and bool(((values < 0) | (values >= high)).any()))
        if wrong or (self.own is not None and self.own.shape[1] != classes):
            raise UserError(f"{path} is damaged, or was made with other data.")
