"""Label noise. What is drawn by class is drawn as the published code draws it, bit for bit.

Classes ``0 .. closed-1`` are the classes of the task; classes from ``closed`` on are open: their
images carry a label of the task although they belong to none of its classes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, softmax

from josrc.data.images import Images
from josrc.data.packed_strings import Index
from josrc.errors import UserError

Labels = NDArray[np.int64]
# Groups of samples: what they are in truth, and what a selection takes them for.
CLEAN, ID, OOD = 0, 1, 2
BLOCK_CLASSES = 5
# Instance noise: how far flip rates spread, the largest side of an image, images at a time.
FLIP_SPREAD = 0.1
MAX_SIDE = 32
IMAGES_PER_GROUP = 1024


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
        raise UserError(f"Noise 'none' has no rate, but a rate of {rate} was given.")
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
        return [
            everyone[start : start + BLOCK_CLASSES] for start in range(0, closed, BLOCK_CLASSES)
        ]
    if kind == "superclass":
        if superclass is None:
            raise UserError(
                "This data set has no superclasses, so noise 'superclass' is not defined."
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


def draw_by_image(images: Images, true: Labels, rate: float, closed: int, seed: int = 0) -> Labels:
    """Given labels whose errors follow from what the images look like.

    Instance-dependent noise as Xia et al. generate it (Part-dependent Label Noise: Towards
    Instance-dependent Label Noise, NeurIPS 2020; their code's ``get_instance_noisy_label``): each
    image has a flip rate of its own, and the class that it flips to is that of the largest
    projections of its pixels, by a random matrix per true class. There flip rates are cut off at 0
    and 1 alone, which makes 0.13 of a rate of 0.1. Here they are cut off as far above ``rate`` as
    below, so that it is their mean. Labels of open classes are uniform, as with all noise.

    Args:
        images: ``N`` images; of those larger than 32 x 32 every second, third ... pixel counts.
        true: true classes, open ones included, ``(N,)``.
        rate: mean share of the closed classes' labels that change.
        closed: number of classes of the task.
        seed: of all that is random here.
    """
    if closed == 1:  # there is no other class to flip to
        return np.zeros(len(true), dtype=np.int64)
    generator = np.random.RandomState(seed)
    flips = _flip_rates(generator.random_sample(len(true)), rate)
    chances = np.full((len(true), closed), 1.0 / closed)
    pixels = _flattened(images, np.arange(1)).shape[1]
    for label in range(closed):
        projection = generator.standard_normal((pixels, closed))
        members = np.flatnonzero(true == label)
        for start in range(0, len(members), IMAGES_PER_GROUP):
            part = members[start : start + IMAGES_PER_GROUP]
            scores = _flattened(images, part) @ projection
            scores[:, label] = -np.inf
            chances[part] = flips[part, None] * softmax(scores, axis=1)
            chances[part, label] = 1.0 - flips[part]
    chances = chances.cumsum(axis=1)
    below = chances / chances[:, -1:] <= generator.random_sample(len(true))[:, None]
    given: Labels = below.sum(axis=1)
    return given


def _flip_rates(uniform: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Uniform numbers as normal ones around ``rate``, within equal distances of it in [0, 1]."""
    low = ndtr(-min(rate, 1.0 - rate) / FLIP_SPREAD)
    rates: NDArray[np.float64] = rate + FLIP_SPREAD * ndtri(low + uniform * (1.0 - 2.0 * low))
    return rates.clip(0.0, 1.0)


def _flattened(images: Images, index: Index) -> NDArray[np.float64]:
    """Some images as rows of pixels from 0 to 255, channel by channel."""
    step = -(-max(images.shape[1:3]) // MAX_SIDE)
    tiles = images.tiles(index)[:, ::step, ::step]
    return np.moveaxis(tiles, 3, 1).reshape(len(index), -1).astype(np.float64)


def groups_of(given: Labels, true: Labels, closed: int) -> NDArray[np.int8]:
    """0 where the given label is the true one, 1 where it is another class, 2 for open classes."""
    return np.where(true >= closed, OOD, np.where(given == true, CLEAN, ID)).astype(np.int8)
