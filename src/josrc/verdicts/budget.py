"""Which images to look at where there is time for only so many: the order of a review on a budget.

What a set of looks ``S`` is worth is counted in labels that it corrects:

    worth(S) = sum of c over S  +  PER_PAIR * sum over pairs of log(1 + c of S in the pair)
                                +  PER_CLASS * sum over classes of log(1 + c of S in the class)

``c`` is what a look is expected to correct: the probability that the label is wrong, which is
1 - ``p_clean`` of the verdict, summed over the image and its exact copies, as whoever has seen one
of them knows them all. Near copies may be other pictures: each is a look of its own. The other two
terms cover pairs of a label and the class that it is taken for, and given labels: a first look at a
pair tells whether that confusion is real, the hundredth tells little. All three are submodular, so
the greedy order, in which each look adds the most to those before it, is worth at least 1 - 1/e of
the best set of any size. Within a pair the likelier error always comes first, so only one candidate
of each pair need be compared, and lazily.

All decisions that were made before say whether the verdicts promise too much or too little: all
probabilities are calibrated anew by them (``learn_from_decisions``).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import log1p
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from josrc.data.duplicates import EXACT, PARTS
from josrc.verdicts.duplicates import DUPLICATES, read_duplicates
from josrc.verdicts.table import read_verdicts, verdicts_of

if TYPE_CHECKING:
    import pandas

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Labels that a first look at a pair of classes, or at a class, may count for besides its own. Twice
# as much and more cost corrections on 5,000 images of CIFAR-10 with people's labels (random 1).
PER_PAIR, PER_CLASS = 0.1, 0.1
# How far the log odds of all verdicts may be off, their slope, and the log odds of one class, as
# long as nobody has decided: standard deviations. Chosen on the same images, and by simulated
# verdicts that promise too much, too little, or with another slope. Verdicts that are surer than
# SUREST count as that sure: a single one of them that was wrong must not tilt all others.
OFFSET_SPREAD, SLOPE_SPREAD, CLASS_SPREAD, SUREST = 1.0, 0.15, 0.3, 0.01
# A hundred looks are worth the time while they are expected to correct this many labels.
HUNDRED, WORTH_IT = 100, 10
# Near copies that are named of each image.
SHOWN = 20


@dataclass(frozen=True)
class Candidates:
    """What may be looked at: a row for each line of ``verdicts.csv``.

    Attributes:
        expected: probability that the label is wrong, ``(N,)``.
        score: of the verdict, lower for the more suspicious, ``(N,)``.
        label: number of the given label, ``(N,)``.
        pair: number of the pair of given label and what the verdict takes the image for, ``(N,)``.
        picture: number of the picture; exact copies of one image share it, ``(N,)``.
        alike: number of the group of exact and near copies, ``(N,)``.
        open: whether nobody has decided yet and the image is there, ``(N,)``.
    """

    expected: Vector
    score: Vector
    label: Index
    pair: Index
    picture: Index
    alike: Index
    open: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.expected)


@dataclass(frozen=True)
class LookPlan:
    """Looks in the order in which they bring most, each at another picture.

    Attributes:
        rows: of ``verdicts.csv``, one for each look, ``(looks,)``.
        gains: labels that each look is expected to correct, those of copies included, ``(looks,)``.
        copies: further rows that show the same picture as a row, where there are any.
        near: those that show nearly the same, ``SHOWN`` at most.
        open: how many labels nobody has decided on.
        wrong: wrong labels expected among all that nobody has decided on.
    """

    rows: Index
    gains: Vector
    copies: dict[int, list[int]]
    near: dict[int, list[int]]
    open: int
    wrong: float

    def expected(self, looks: int) -> float:
        """Labels that this number of looks is expected to correct."""
        return float(self.gains[:looks].sum())

    def pays(self, looks: int) -> int:
        """Further looks, in hundreds, until a hundred no longer pay."""
        later = self.gains[looks:]
        sums = np.add.reduceat(later, np.arange(0, len(later), HUNDRED)) if len(later) else later
        few = np.flatnonzero(sums < WORTH_IT)
        return HUNDRED * int(few[0] if len(few) else len(sums))

    def sentence(self, looks: int) -> str:
        """What so many looks are expected to correct, and what is left after them."""
        looks = min(looks, len(self.rows))
        return (
            f"{looks:,} looks, expected to correct about {self.expected(looks):,.0f} "
            f"labels in total. After that: {self.outlook(looks)}"
        )

    def outlook(self, looks: int = 0) -> str:
        """What is expected to be left wrong after that many looks, and whether more of them pay."""
        left, more = self.wrong - self.expected(looks), self.pays(looks)
        following = self.expected(looks + HUNDRED) - self.expected(looks)
        text = (
            f"About {left:,.0f} wrong labels are expected among the "
            f"{self.open - looks:,} undecided images. Another "
            f"hundred looks are expected to correct about {following:,.0f}"
        )
        if not more:
            return f"{text}: fewer than {WORTH_IT}, so they are hardly worth the effort."
        return f"{text}; after {more:,} more, a hundred looks correct fewer than {WORTH_IT}."


def plan_looks(
    audit: Path,
    looks: int | None = None,
    decided: Mapping[int, bool] | None = None,
    gone: Collection[int] = (),
) -> LookPlan:
    """Order all looks at a run's samples that nobody has decided on.

    Args:
        audit: the folder with ``verdicts.csv``, and ``duplicates.csv`` where there are copies.
        looks: how many there is time for; those behind are ordered by what they correct alone.
        decided: rows that people have decided on, and whether they found the label wrong.
        gone: rows whose images are not there any more.
    """
    return order_looks(read_candidates(audit, decided, gone), looks)


def read_candidates(
    audit: Path, decided: Mapping[int, bool] | None = None, gone: Collection[int] = ()
) -> Candidates:
    """The candidates of a run; arguments as of ``plan_looks``."""
    labels: dict[str, int] = {}
    pairs: dict[tuple[str, str], int] = {}
    frames = [_numbers(frame, labels, pairs) for frame in read_verdicts(verdicts_of(audit))]
    expected, score, confidence, label, pair = (
        np.concatenate([frame[key] for frame in frames])
        for key in ("expected", "score", "confidence", "label", "pair")
    )
    total, unseen = len(score), confidence == 0
    if unseen.any() and not unseen.all():  # nothing is known of them: they are like the others
        expected[unseen] = expected[~unseen].mean()
    there = np.ones(total, dtype=bool)
    known = {row: wrong for row, wrong in (decided or {}).items() if row < total}
    there[[*known, *(row for row in gone if row < total)]] = False
    rows = np.array([*known], dtype=np.int64)
    wrong = np.array([*known.values()], dtype=np.float64)
    picture, alike = _pictures(total, audit / DUPLICATES)
    expected = learn_from_decisions(expected, label, rows, wrong)
    return Candidates(expected, score, label, pair, picture, alike, there)


def learn_from_decisions(expected: Vector, label: Index, rows: Index, wrong: Vector) -> Vector:
    """The probability of each label to be wrong, calibrated by what people found.

    A logistic regression of what they found on the log odds of the verdicts (Platt 1999), with an
    offset for each class: its likeliest parameters, which are normal around the verdicts' own
    probabilities. People look at the most suspicious labels first, and the slope carries what they
    found there on to the others.

    Args:
        expected: the probability by the verdicts, ``(N,)``.
        label: given labels, ``(N,)``.
        rows: that people have decided on.
        wrong: 1 where they found the label wrong, else 0.
    """
    if not len(rows):
        return expected
    odds = logit(expected.clip(SUREST, 1 - SUREST))
    seen, of = odds[rows], label[rows]
    classes = int(label.max()) + 1
    spreads = [OFFSET_SPREAD, SLOPE_SPREAD, *[CLASS_SPREAD] * classes]
    precision = np.array(spreads) ** -2.0

    def loss(moves: Vector) -> tuple[float, Vector]:
        """The negative log posterior of offset, change of slope and offsets of classes."""
        found = moves[0] + (1 + moves[1]) * seen + moves[2 + of]
        residual = expit(found) - wrong
        slope = precision * moves
        slope[:2] += residual.sum(), residual @ seen
        slope[2:] += np.bincount(of, residual, minlength=classes)
        likely = np.logaddexp(0, found) - wrong * found
        return float(likely.sum() + 0.5 * precision @ moves**2), slope

    moves = minimize(loss, np.zeros(2 + classes), jac=True, method="L-BFGS-B").x
    calibrated: Vector = expit(moves[0] + (1 + moves[1]) * odds + moves[2 + label])
    # Below that the odds move in proportion: what is certain to be right stays so.
    return calibrated * np.minimum(1, expected / SUREST)


def _numbers(
    frame: pandas.DataFrame, labels: dict[str, int], pairs: dict[tuple[str, str], int]
) -> dict[str, NDArray[np.generic]]:
    """Columns of some lines; labels and pairs are numbered as they come."""
    # A verdict without a suggestion stands for itself: clean, or out of distribution.
    names = frame["given_label"].tolist()
    taken = [
        suggested or verdict
        for suggested, verdict in zip(frame["suggested_label"], frame["verdict"], strict=True)
    ]
    return {
        "expected": 1 - frame["p_clean"].to_numpy(np.float64),
        "score": frame["score"].to_numpy(np.float64),
        "confidence": frame["confidence"].to_numpy(np.float64),
        "label": np.array([labels.setdefault(name, len(labels)) for name in names]),
        "pair": np.array(
            [pairs.setdefault(pair, len(pairs)) for pair in zip(names, taken, strict=True)]
        ),
    }


def _pictures(total: int, duplicates: Path) -> tuple[Index, Index]:
    """Numbers of pictures, and of groups of pictures that are alike: their first rows."""
    first: dict[tuple[int, str], int] = {}
    picture, alike = np.arange(total), np.arange(total)
    for copy in read_duplicates(duplicates):
        if copy.part != PARTS[-1] and copy.row < total:
            alike[copy.row] = first.setdefault((copy.group, ""), copy.row)
            if copy.kind == EXACT:
                picture[copy.row] = first.setdefault((copy.group, EXACT), copy.row)
    return picture, alike


def order_looks(
    found: Candidates,
    looks: int | None = None,
    weights: tuple[float, float] = (PER_PAIR, PER_CLASS),
) -> LookPlan:
    """Order all looks by what each adds to those before it; what was decided counts as seen.

    Args:
        found: the candidates.
        looks: how many there is time for; those behind are ordered by what they correct alone.
        weights: what coverage of pairs and of classes counts.
    """
    there = np.flatnonzero(found.open)
    gain: Vector = np.bincount(
        found.picture[there], found.expected[there], minlength=len(found)
    ).astype(np.float64)
    # Of each picture the most suspicious copy is shown; the likeliest corrections come first.
    order = there[np.argsort(found.score[there], kind="stable")]
    shown = order[np.sort(np.unique(found.picture[order], return_index=True)[1])]
    shown = shown[np.argsort(-gain[found.picture[shown]], kind="stable")]
    gains = gain[found.picture[shown]]
    seen = np.flatnonzero(~found.open)
    first = _greedy(
        gains,
        [
            (groups[shown].tolist(), _mass(groups, found.expected, seen), weight)
            for groups, weight in zip((found.pair, found.label), weights, strict=True)
        ],
        len(shown) if looks is None else looks,
    )
    later = np.ones(len(shown), dtype=bool)
    later[first] = False
    places = np.concatenate([first, np.flatnonzero(later)])
    rows = shown[places]
    copies, near = _copies(found, rows, order)
    return LookPlan(
        rows=rows,
        gains=gains[places],
        copies=copies,
        near=near,
        open=len(there),
        wrong=float(found.expected[there].sum()),
    )


def _mass(groups: Index, values: Vector, rows: Index) -> list[float]:
    """The sum of some rows' values in each group."""
    size = int(groups.max(initial=-1)) + 1
    sums: list[float] = np.bincount(groups[rows], values[rows], minlength=size).tolist()
    return sums


def _copies(
    found: Candidates, rows: Index, order: Index
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The other open rows that show the same as each look, and nearly the same."""
    sizes = np.bincount(found.alike[order], minlength=len(found))
    groups: dict[int, list[int]] = {}
    for row in order[sizes[found.alike[order]] > 1].tolist():
        groups.setdefault(int(found.alike[row]), []).append(row)
    copies: dict[int, list[int]] = {}
    near: dict[int, list[int]] = {}
    for row in rows[sizes[found.alike[rows]] > 1].tolist():
        others = [other for other in groups[int(found.alike[row])] if other != row]
        same = [found.picture[other] == found.picture[row] for other in others]
        for kind, wanted in ((copies, True), (near, False)):
            those = [other for other, exact in zip(others, same, strict=True) if exact == wanted]
            if those:
                kind[row] = those if wanted else those[:SHOWN]
    return copies, near


# Of every place its group; what was seen of each group; and what its coverage counts.
Cover = tuple[list[int], list[float], float]


def _greedy(gains: Vector, covers: list[Cover], most: int) -> Index:
    """That many places in the order in which each adds the most; ``gains`` fall.

    Lazily: what a candidate adds only ever becomes less, so that the best by an earlier look is the
    best of all if it has not changed.

    Args:
        gains: what each place corrects.
        covers: what is to be covered; places of one group of the first are of one of each other.
        most: how many places are wanted.
    """
    of_gain: list[float] = gains.tolist()

    def added(place: int) -> float:
        gain = of_gain[place]
        more = [weight * log1p(gain / (1 + mass[group[place]])) for group, mass, weight in covers]
        return -(gain + sum(more))

    pair = covers[0][0]
    queues = _queues(np.array(pair, dtype=np.int64))
    heap = [(added(place), place) for place in map(next, queues.values())]
    heapq.heapify(heap)
    chosen: list[int] = []
    while heap and len(chosen) < most:
        before, place = heap[0]
        now = added(place)
        if now > before:
            heapq.heapreplace(heap, (now, place))
            continue
        chosen.append(place)
        for group, mass, _ in covers:
            mass[group[place]] += of_gain[place]
        following = next(queues[pair[place]], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (added(following), following))
    return np.array(chosen, dtype=np.int64)


def _queues(pair: Index) -> dict[int, Iterator[int]]:
    """The places of each pair, in their order."""
    if not len(pair):  # everything is decided
        return {}
    order = np.argsort(pair, kind="stable")
    numbers, begins = np.unique(pair[order], return_index=True)
    return {
        number: iter(places.tolist())
        for number, places in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True)
    }
