"""What several annotators' labels come to: a consensus, how sure it is, and who is how good.

cleanlab's CROWDLAB (Goh et al., 2022) weighs the annotators of an image against each other and
against a classifier, each by how often it agrees with the others.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._console import say_once
from josrc._io import write_csv
from josrc._reading import regular
from josrc.data.annotations import Annotations
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index
from josrc.data.source import Source
from josrc.errors import UserError, install_command

ANNOTATORS_NAME, CONSENSUS_NAME = "annotators.csv", "consensus.csv"
ANNOTATOR_COLUMNS = (
    "annotator", "labels", "quality", "agreement", "confused_label", "confused_consensus",
    "confused_count",
)  # fmt: skip
CONSENSUS_COLUMNS = (
    "id", "given_label", "consensus_label", "consensus_quality", "annotators", "disagreeing",
)  # fmt: skip


# Images by annotators that are weighed: the library wants a table of all of them, several times.
MAX_CELLS = 40_000_000


@dataclass(frozen=True)
class Consensus:
    """CROWDLAB's answer; vectors of samples are ``(N,)``, of annotators ``(M,)``.

    Attributes:
        label: of each sample, -1 where nobody has labelled it, or nothing is predicted.
        quality: how likely it is right; NaN where there is none.
        annotators: how many have labelled the sample.
        disagreeing: how many of them gave another label.
        people: the annotators, the worst first, by their numbers.
        people_quality: how good their labels are.
        people_agreement: share of their labels that are the consensus.
    """

    label: Labels
    quality: NDArray[np.float64]
    annotators: Index
    disagreeing: Index
    people: Index
    people_quality: NDArray[np.float64]
    people_agreement: NDArray[np.float64]


def check_crowdlab() -> None:
    """Raise an error if the library is missing, before anything takes time."""
    _library()


def find_consensus(annotations: Annotations, probabilities: NDArray[Any]) -> Consensus | None:
    """The consensus of all labels; none if no sample has two labels and a prediction.

    Args:
        annotations: the labels, by sample.
        probabilities: of a classifier, ``(N, classes)``, that was not trained on the samples it
            predicts; NaN where it predicts nothing.
    """
    samples = len(probabilities)
    annotations = annotations.take(np.arange(samples))  # some of others there is no verdict on
    count = annotations.counts(samples)
    known = np.flatnonzero((count > 0) & np.isfinite(probabilities).all(axis=1))
    if not known.size or count[known].max() < 2:
        return None
    some = annotations.take(known)
    people = np.unique(some.annotator)
    if len(known) * len(people) > MAX_CELLS:
        say_once(
            f"{len(people):,} annotators of {len(known):,} images are too many to weigh against "
            "each other: the majority's labels stand, without a consensus."
        )
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of annotators who agree on nothing: the numbers say so
        found = _library().get_label_quality_multiannotator(
            some.matrix(len(known), people),
            np.asarray(probabilities[known], dtype=np.float64),
            return_detailed_quality=False,
            verbose=False,
        )
    of_samples, of_people = found["label_quality"], found["annotator_stats"]
    label = np.full(samples, -1)
    label[known] = of_samples["consensus_label"].to_numpy()
    quality = np.full(samples, np.nan)
    quality[known] = of_samples["consensus_quality_score"].to_numpy()
    other = (label[annotations.sample] >= 0) & (annotations.label != label[annotations.sample])
    return Consensus(
        label=label,
        quality=quality,
        annotators=count,
        disagreeing=np.bincount(annotations.sample[other], minlength=samples),
        people=people[of_people.index.to_numpy()],
        people_quality=of_people["annotator_quality"].to_numpy(dtype=np.float64),
        people_agreement=of_people["agreement_with_consensus"].to_numpy(dtype=np.float64),
    )


def write_consensus(
    folder: Path, annotations: Annotations, probabilities: NDArray[Any], source: Source
) -> Consensus | None:
    """Write ``annotators.csv`` and ``consensus.csv``.

    Args:
        folder: ``audit`` of a run.
        annotations: all labels, by row of ``verdicts.csv``: ``source.all_annotations()``, or
            those that the run folder keeps.
        probabilities: as in ``find_consensus``, in the order of ``verdicts.csv``.
        source: the training and held-out samples.
    """
    annotations = annotations.take(np.arange(len(probabilities)))
    found = find_consensus(annotations, probabilities)
    if found is None:
        return None
    names = [*source.closed_names, ""]
    write_csv(folder / ANNOTATORS_NAME, [ANNOTATOR_COLUMNS, *_people(annotations, found, names)])

    def line(row: int) -> tuple[Any, ...]:
        part, place = source.at(row)
        sure = "" if np.isnan(found.quality[row]) else f"{found.quality[row]:.4f}"
        counts = int(found.annotators[row]), int(found.disagreeing[row])
        label = names[int(found.label[row])]
        return part.ids[place], names[int(part.given[place])], label, sure, *counts

    rows = (line(row) for row in range(len(probabilities)))
    write_csv(folder / CONSENSUS_NAME, (CONSENSUS_COLUMNS, *rows))
    return found


def _people(
    annotations: Annotations, found: Consensus, names: Sequence[str]
) -> list[tuple[Any, ...]]:
    """A line per annotator, the worst first."""
    consensus = found.label[annotations.sample]
    wrong = (consensus >= 0) & (consensus != annotations.label)
    pairs: dict[int, Counter[tuple[int, int]]] = {}
    for who, label, right in zip(
        annotations.annotator[wrong].tolist(),
        annotations.label[wrong].tolist(),
        consensus[wrong].tolist(),
        strict=True,
    ):
        pairs.setdefault(who, Counter())[label, right] += 1
    labels = np.bincount(annotations.annotator, minlength=len(annotations.annotators))
    lines: list[tuple[Any, ...]] = []
    for place, who in enumerate(found.people.tolist()):
        ((label, right), times) = (pairs.get(who) or Counter({(-1, -1): 0})).most_common(1)[0]
        quality, agreement = found.people_quality[place], found.people_agreement[place]
        lines.append(
            (annotations.annotators[who], int(labels[who]), f"{quality:.4f}", f"{agreement:.4f}",
             names[label], names[right], times)
        )  # fmt: skip
    return lines


def disagreement_order(path: Path) -> list[int]:
    """Rows of ``consensus.csv`` on which annotators disagree, those most divided first.

    Of as large a share of them that of the least likely consensus.
    """
    import pandas

    columns = ["consensus_quality", "annotators", "disagreeing"]
    try:
        table = pandas.read_csv(regular(path), usecols=columns, encoding_errors="surrogateescape")
        share = (table["disagreeing"] / table["annotators"]).to_numpy(np.float64)
        quality = table["consensus_quality"].to_numpy(np.float64)
    except (ValueError, TypeError, pandas.errors.ParserError) as error:
        raise UserError(f"{path} can't be read: {error}") from None
    rows = np.flatnonzero(share > 0)
    order: list[int] = rows[np.lexsort((rows, quality[rows], -share[rows]))].tolist()
    return order


def _library() -> Any:
    try:
        from cleanlab import multiannotator
    except ImportError:
        raise UserError(
            "Several annotators are weighed by cleanlab, which is not installed: "
            + install_command("compare")
        ) from None
    return multiannotator
