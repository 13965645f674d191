"""Manifests in which several annotators have labelled the same images.

Either every row is one label, with a column that names its annotator, or every row is an image,
with a column for each annotator.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from josrc.config import DataConfig
from josrc.data.annotations import Annotations
from josrc.data.readers.table import Table, TableBuilder
from josrc.errors import UserError, closest


def annotator_columns(found: Sequence[str], config: DataConfig, path: Path | str) -> list[str]:
    """The columns of a manifest that tell of annotators: one with their names, or one for each."""
    one = [config.annotator_column] if config.annotator_column else []
    wanted = one or config.annotator_columns or []
    for name in wanted:
        if wanted.count(name) > 1:
            raise UserError(f"--annotator-columns names '{name}' twice.")
        if name not in found:
            raise UserError(f"{path} has no column '{name}'.{closest(name, found)}")
    return wanted


class AnnotatedBuilder(TableBuilder):
    """Collects images with the labels that each annotator gave them.

    An image may come in several rows, as long as no annotator labels it twice.
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self.path = path
        self.place: dict[str, int] = {}
        self.people: dict[str, int] = {}
        self.votes = {name: array("q") for name in ("sample", "annotator", "label")}
        self.given: set[tuple[int, int]] = set()

    def add_votes(
        self,
        name: str,
        votes: Mapping[str, str | None],
        sample_id: str,
        split: int,
        group: str | None = None,
    ) -> None:
        """One image, or more labels of one: by annotator, none where there is no label."""
        row = self.place.setdefault(sample_id, len(self.split))
        if row == len(self.split):
            self.add(name, None, sample_id, split, group)
        else:
            self._check_same(row, name, sample_id, split, group)
        for person, label in votes.items():
            number = self.people.setdefault(person, len(self.people))
            if label is None:
                continue
            if (row, number) in self.given:
                raise UserError(
                    f"{self.path}: annotator '{person}' labels {sample_id} twice. Keep one of the "
                    "rows."
                )
            self.given.add((row, number))
            self.votes["sample"].append(row)
            self.votes["annotator"].append(number)
            self.votes["label"].append(self.numbers.setdefault(label, len(self.numbers)))

    def label_counts(self) -> dict[str, int]:
        """How many labels there are of each class, whoever gave them."""
        counts = np.bincount(self.votes["label"], minlength=len(self.numbers))
        return dict(zip(self.numbers, counts.tolist(), strict=True))

    def _check_same(
        self, row: int, name: str, sample_id: str, split: int, group: str | None
    ) -> None:
        start = self.name_ends[row - 1] if row else 0
        known = self.names[start : self.name_ends[row]].decode("utf-8", "surrogateescape")
        number = -1 if group is None else self.groups.get(group)
        for what, same in (
            ("files", known == name),
            ("splits", self.split[row] == split),
            ("groups", self.group[row] == number),
        ):
            if not same:
                raise UserError(f"{self.path}: the id '{sample_id}' stands for two {what}.")

    def table(self, root: Path | str) -> Table:
        """All images, each with the label that most annotators gave it."""
        translate, names = self.translation()
        sample, annotator, label = (np.array(v, dtype=np.int64) for v in self.votes.values())
        annotations = Annotations(list(self.people), sample, annotator, translate[label])
        self._check_people(annotations)
        table = super().table(root)
        labels = annotations.majority(len(table.ids), max(1, len(names)))
        return replace(table, labels=labels, annotations=annotations)

    def _check_people(self, annotations: Annotations) -> None:
        """Raise an error if there is nothing to compare."""
        leave = "Leave --annotator-column and --annotator-columns out for a single label an image."
        if len(self.people) < 2:
            only = f", '{next(iter(self.people))}'" if self.people else ""
            raise UserError(f"{self.path}: there is only one annotator{only}. {leave}")
        if annotations.counts(len(self.split)).max(initial=0) < 2:
            raise UserError(
                f"{self.path}: no image has labels of two annotators. Rows that are of one image "
                f"have the same id, or without ids the same path. {leave}"
            )
