"""What the data is: images, given labels, and the truth where it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import PEOPLE, DataConfig, DataKind
from josrc.data.annotations import Annotations
from josrc.data.duplicates import Duplicate, Duplicates
from josrc.data.images import Images, ImageSpec
from josrc.data.label_files import check_ids, read_label_file, read_truth
from josrc.data.near.pairs import NO_PAIRS, near_pairs
from josrc.data.noise import Labels, draw_by_image, draw_labels, groups_of, transition_matrix
from josrc.data.packed_strings import Index, LazyStrings, PackedStrings

Triple = tuple[float, ...]


@dataclass(frozen=True)
class Source:
    """``N`` training samples with their given labels, and a test set where there is one.

    Attributes:
        name: the data set's name, or where it lies.
        data_kind: what sort of data it is.
        images: training images, in memory or in files.
        given: label every training sample carries, ``(N,)``; equals ``true`` before noise is added.
        class_names: names of all classes, the open ones last.
        closed: number of classes of the task.
        mean: channel means for normalisation, in [0, 1].
        std: channel standard deviations.
        true: original class of every training sample, open classes included, ``(N,)``; none where
            nobody knows.
        test_images: test images of the closed classes.
        test_labels: their true classes.
        val: samples held out of training, with labels as doubtful as the others; where they are
            right for sure its ``true`` says so.
        superclass: superclass of every class, where the data has any.
        people: gives the labels of a kind of noise that people made; none where they made none.
        verified: 1 where people checked the given label and found it right, 0 where wrong, -1 where
            nobody looked, ``(N,)``; none where nobody looked at all.
        verified_held: the same of labels that methods must not learn from, to score them with.
        crop: height and width of what a network sees of an image; none: all of it.
        sample_ids: what the samples are called; none: their numbers.
        skipped: files that gave no image, each with the reason; none where there are no files.
        left_out: how many files of which kinds lie among the images that are not pictures.
        duplicates: images that are there more than once; none until somebody has looked.
        annotations: what several annotators called the samples, if it was several.
        group: of samples that belong together, ``(N,)``; -1: it is alone.
    """

    name: str
    data_kind: DataKind
    images: Images
    given: Labels
    class_names: list[str]
    closed: int
    mean: Triple
    std: Triple
    true: Labels | None = None
    test_images: Images | None = None
    test_labels: Labels | None = None
    val: Source | None = None
    superclass: list[int] | None = None
    people: Callable[[str], Labels] | None = None
    verified: NDArray[np.int8] | None = None
    verified_held: NDArray[np.int8] | None = None
    crop: int | None = None
    sample_ids: Sequence[str] | None = None
    skipped: tuple[tuple[str, str], ...] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    duplicates: Duplicates | None = None
    annotations: Annotations | None = None
    group: Labels | None = None

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def kind(self) -> NDArray[np.int8] | None:
        """0 clean, 1 in-distribution with a wrong label, 2 out of distribution, ``(N,)``.

        None where the truth is unknown.
        """
        return None if self.true is None else groups_of(self.given, self.true, self.closed)

    @property
    def spec(self) -> ImageSpec:
        """What a network sees of its images."""
        return ImageSpec(self.images.shape[1:], self.mean, self.std, self.crop)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what a network sees of an image."""
        return self.spec.size

    @property
    def ids(self) -> Sequence[str]:
        """What each training sample is called."""
        return LazyStrings(len(self), str) if self.sample_ids is None else self.sample_ids

    @cached_property
    def digest(self) -> str | None:
        """Tells whether the samples are the same and in the same order, where they have ids."""
        ids = self.sample_ids
        return ids.digest() if isinstance(ids, PackedStrings) else None

    @property
    def paths(self) -> Sequence[str]:
        """Where each training image lies; empty for those that lie in no file."""
        return LazyStrings(len(self), self.images.location)

    def at(self, row: int) -> tuple[Source, int]:
        """The training or held-out samples that a row of ``verdicts.csv`` is of, and its number."""
        if row < len(self) or self.val is None:
            return self, row
        return self.val, row - len(self)

    def take(self, index: Index) -> Source:
        """Some of its training samples; held-out and test images stay as they are."""

        def some(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None else values[index]

        ids = self.sample_ids
        if ids is not None:
            ids = ids.take(index) if isinstance(ids, PackedStrings) else [ids[i] for i in index]
        return replace(
            self,
            images=self.images.take(index),
            given=self.given[index],
            true=some(self.true),
            people=None,  # its labels are those of all samples
            verified=some(self.verified),
            verified_held=some(self.verified_held),
            sample_ids=ids,
            annotations=None if self.annotations is None else self.annotations.take(index),
            group=some(self.group),
        )

    def listed_duplicates(self) -> Iterator[Duplicate]:
        """Images that are there more than once, and what they are called each time."""
        if self.duplicates is None:
            return iter(())
        held = None if self.val is None else self.val.given
        labels = (self.given, held, self.test_labels)
        return self.duplicates.list_copies(labels, self.class_names, len(self))

    def all_annotations(self) -> Annotations | None:
        """Those of training and of held-out samples, by their rows in ``verdicts.csv``."""
        if self.annotations is None or self.val is None or self.val.annotations is None:
            return self.annotations
        return self.annotations.append(self.val.annotations, len(self))

    def with_near_duplicates(self, index: Index, similarity: NDArray[np.floating[Any]]) -> Source:
        """The source with those candidates among its duplicates that show the same picture.

        Args:
            index: of each image the others that may be copies of it, ``(N, k)``; ``N`` counts
                training, held-out and test images, one after the other; a negative number is none.
            similarity: how much speaks for it, ``(N, k)``, on any scale.
        """
        held = None if self.val is None else self.val.images
        parts = [self.images, held, self.test_images]
        pairs = near_pairs(index, similarity, [part for part in parts if part is not None])
        known = self.duplicates or Duplicates.of(parts, NO_PAIRS)
        return replace(self, duplicates=known.add_pairs(parts, pairs))

    @property
    def closed_names(self) -> list[str]:
        """Names of the classes of the task."""
        return self.class_names[: self.closed]

    def noise_summary(self) -> str:
        """One line: how many labels are right, wrong, and of no class."""
        if self.kind is None:
            parts = [part for part in (self.verified, self.verified_held) if part is not None]
            checked, wrong = (sum(int((p >= k).sum()) for p in parts) for k in (0, 1))
            if not checked:
                return "which labels are wrong is unknown"
            return f"people checked {checked:,} labels and found {checked - wrong:,} wrong"
        clean, noisy, ood = (int(np.sum(self.kind == k)) for k in (0, 1, 2))
        if not self.data_kind.knows_truth:  # nobody said that they were right before
            return f"{clean:,} labels as they came, {noisy:,} changed on purpose"
        return f"{clean:,} correct labels, {noisy:,} wrong, {ood:,} out of distribution"


def with_noise(source: Source, config: DataConfig) -> Source:
    """``source`` with labels from the noise file, from people, or drawn.

    Where the truth is unknown it stays so, unless noise is added on purpose, which takes the
    labels that were there for the truth, or the noise file says what it is.
    """
    if config.noise_file is not None:
        names, samples = source.closed_names, len(source)
        given = read_label_file(config.noise_file, source.true, names, samples)
        if config.noise_file.suffix.lower() == ".npz":
            check_ids(config.noise_file, source.digest)
        true = read_truth(config.noise_file) if source.true is None else source.true
        return _relabelled(source, given, true)
    if source.true is None and config.noise == "none":
        return source
    true = source.given if source.true is None else source.true
    return _relabelled(source, _noisy_labels(source, true, config), true)


def _noisy_labels(source: Source, true: Labels, config: DataConfig) -> Labels:
    """Labels with the noise of the configuration."""
    if config.noise in PEOPLE:
        assert source.people is not None
        return source.people(config.noise)
    if config.noise == "instance":
        return draw_by_image(source.images, true, config.rate, source.closed, config.noise_seed)
    matrix = transition_matrix(
        config.noise, config.rate, len(source.class_names), source.closed, source.superclass
    )
    return draw_labels(true, matrix, config.noise_seed)


def _relabelled(source: Source, given: Labels, true: Labels | None) -> Source:
    """Other labels; what people said of the old ones holds where it still follows."""

    def still(verified: NDArray[np.int8] | None) -> NDArray[np.int8] | None:
        if verified is None:
            return None
        # Instead of a right label any other is wrong; instead of a wrong one nobody knows.
        return np.where(given == source.given, verified, np.where(verified == 1, 0, -1)).astype(
            "i1"
        )

    return replace(
        source,
        given=given,
        true=true,
        verified=still(source.verified),
        verified_held=still(source.verified_held),
    )
