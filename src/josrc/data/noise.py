"""Label noise, drawn as the published code draws it, bit for bit.

Classes ``0 .. closed-1`` are the classes of the task; classes from ``closed`` on are open: their
images carry a label of the task although they belong to none of its classes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from josrc.errors import UserError

Labels = NDArray[np.int64]
# Groups of samples: what they are in truth, and what a selection takes them for.
CLEAN, ID, OOD = 0, 1, 2
BLOCK = 5


def transition_matrix(
    kind: str, rate: float, classes: int, closed: int, superclass: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """Probability of each given label (column) for each true class (row).

    The matrix has a row and a column for every class, open ones too: the draw consumes random
    numbers column by column, so leaving columns out would change it.

    Args:
        kind: ``symmetric``, ``asymmetric`` (cyclic pair flip), ``block`` (cyclic inside blocks of
            five consecutive classes), ``superclass`` (cyclic inside a superclass) or ``none``.
        rate: share of the closed classes' labels that change.
        classes: number of classes, open ones included.
        closed: number of classes of the task.
        superclass: superclass of every class, needed for ``superclass`` only.

    Returns:
        Matrix of shape ``(classes, classes)``; the columns of open classes are zero.
    """
    if not 0 <= rate <= 1:
        raise UserError(f"The noise rate must lie between 0 and 1, and {rate} does not.")
    if kind == "none" and rate > 0:
        raise UserError(f"Noise 'none' has no rate, but rate {rate} was asked for.")
    matrix = np.zeros((classes, classes))
    matrix[closed:, :closed] = 1.0 / closed
    if kind == "symmetric" and closed > 1:
        matrix[:closed, :closed] = rate / (closed - 1)
        np.fill_diagonal(matrix[:closed, :closed], 1.0 - rate)
        return matrix
    for members in _cycles(kind, closed, superclass):
        for here, following in zip(members, [*members[1:], members[0]], strict=True):
            # A class alone in its cycle has no label to flip to and stays clean.
            matrix[here, here] = 1.0 - rate
            matrix[here, following] += rate
    return matrix


def _cycles(kind: str, closed: int, superclass: Sequence[int] | None) -> list[list[int]]:
    """Groups of classes in which each flips to the next and the last to the first."""
    everyone = list(range(closed))
    if kind in ("asymmetric", "none", "symmetric"):
        return [everyone]
    if kind == "block":
        return [everyone[start : start + BLOCK] for start in range(0, closed, BLOCK)]
    if kind == "superclass":
        if superclass is None:
            raise UserError(
                "This data set has no superclasses, so noise 'superclass' has no meaning."
            )
        families = sorted(set(superclass[:closed]))
        return [[c for c in everyone if superclass[c] == family] for family in families]
    raise UserError(
        f"Unknown noise '{kind}'. Known: symmetric, asymmetric, block, superclass, none."
    )


def draw_labels(true: Labels, matrix: NDArray[np.float64], seed: int = 0) -> Labels:
    """Given labels: one multinomial draw a sample, in data order, from one seeded stream."""
    generator = np.random.RandomState(seed)
    given = [generator.multinomial(1, matrix[label]).argmax() for label in true]
    return np.array(given, dtype=np.int64)


def groups_of(given: Labels, true: Labels, closed: int) -> NDArray[np.int8]:
    """0 where the given label is the true one, 1 where it is another class, 2 for open classes."""
    return np.where(true >= closed, OOD, np.where(given == true, CLEAN, ID)).astype(np.int8)
