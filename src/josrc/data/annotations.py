"""What several annotators said of the same images, and the label that most of them gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from josrc._io import write_npz
from josrc._reading import check_array, read_arrays
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index, PackedStrings, read_strings


@dataclass(frozen=True)
class Annotations:
    """Every label that an annotator gave an image, each array ``(labels,)``.

    Attributes:
        annotators: what they are called.
        sample: which sample a label is of.
        annotator: who gave it.
        label: the number of its class.
    """

    annotators: Sequence[str]
    sample: Index
    annotator: Index
    label: Labels

    def __len__(self) -> int:
        return len(self.label)

    def take(self, index: Index) -> Annotations:
        """Those of some samples, which are numbered in the order of ``index``."""
        known = max(self.sample.max(initial=-1), index.max(initial=-1)) + 1
        place = np.full(known, -1, dtype=np.int64)
        place[index] = np.arange(len(index))
        return self._kept(place[self.sample], self.label)

    def renumber(self, numbers: Labels) -> Annotations:
        """With other numbers for the classes; labels of a class that has none are left out."""
        return self._kept(self.sample, numbers[self.label])

    def _kept(self, sample: Index, label: Labels) -> Annotations:
        there = (sample >= 0) & (label >= 0)
        return Annotations(self.annotators, sample[there], self.annotator[there], label[there])

    def append(self, others: Annotations, samples: int) -> Annotations:
        """And those of other samples by the same annotators, numbered from ``samples``."""
        return Annotations(
            self.annotators,
            np.concatenate([self.sample, samples + others.sample]),
            np.concatenate([self.annotator, others.annotator]),
            np.concatenate([self.label, others.label]),
        )

    def counts(self, samples: int) -> Index:
        """How many labels each sample has, ``(samples,)``."""
        return np.bincount(self.sample, minlength=samples)

    def majority(self, samples: int, classes: int) -> Labels:
        """The label that most annotators gave each sample, ``(samples,)``; -1 where nobody did.

        Of labels that as many gave it is that of the annotators who agree with the majority more
        often elsewhere, and if that does not tell either, the first class.
        """
        choices, inverse, votes = np.unique(
            self.sample * classes + self.label, return_inverse=True, return_counts=True
        )
        of = choices // classes
        most = np.zeros(samples, dtype=np.int64)
        np.maximum.at(most, of, votes)
        first = votes == most[of]
        clear = np.bincount(of[first], minlength=samples) == 1
        winner = np.full(samples, -1)
        winner[of[first]] = choices[first] % classes
        # Whoever labels an image alone agrees with nobody.
        told = (clear & (self.counts(samples) > 1))[self.sample]
        agrees = told & (winner[self.sample] == self.label)
        people = len(self.annotators)
        seen = np.bincount(self.annotator[told], minlength=people)
        trust = (np.bincount(self.annotator[agrees], minlength=people) + 1) / (seen + 2)
        weight = np.bincount(inverse, weights=trust[self.annotator], minlength=len(choices))
        order = np.lexsort((choices, -weight, -votes, of))
        leading = order[np.unique(of[order], return_index=True)[1]]
        winner[of[leading]] = choices[leading] % classes
        return winner

    def matrix(self, samples: int, people: Index | None = None) -> NDArray[np.float64]:
        """A row per sample, a column per annotator, or for some; NaN where one gave no label."""
        if people is None:
            people = np.arange(len(self.annotators))
        found = np.full((samples, len(people)), np.nan)
        there = np.isin(self.annotator, people)
        place = np.searchsorted(people, self.annotator[there])
        found[self.sample[there], place] = self.label[there]
        return found

    def write(self, path: Path) -> None:
        """Keep them in a file."""
        names = PackedStrings.of(self.annotators)
        write_npz(
            path,
            {
                "annotators": np.frombuffer(names.block, np.uint8),
                "annotators_ends": names.ends,
                "sample": self.sample,
                "annotator": self.annotator,
                "label": self.label,
            },
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """From their file."""
        places = ("sample", "annotator", "label")
        arrays = read_arrays(path, needed=("annotators", "annotators_ends", *places))
        names = list(read_strings(path, arrays, "annotators"))
        length = len(arrays["sample"]) if arrays["sample"].ndim == 1 else None
        for name in places:
            high = len(names) - 1 if name == "annotator" else None
            check_array(path, arrays, name, "iu", length=length, low=0, high=high)
        return cls(names, arrays["sample"], arrays["annotator"], arrays["label"])
