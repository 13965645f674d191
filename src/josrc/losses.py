"""Losses and divergences: pure functions, one value per sample, no reduction, float32 inside.

Equation numbers are those of the Jo-SRC paper.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from josrc.distributed import batch_mean

# Below this probability a logarithm is held fast: log2 of it is about -23 bits.
PROBABILITY_FLOOR = 1e-7


def precise(values: Tensor) -> Tensor:
    """``values`` in float32, or in float64 if they came so."""
    return values if values.dtype == torch.float64 else values.float()


def smooth_labels(label: Tensor, classes: int, epsilon: float) -> Tensor:
    """Label smoothing, Eq. 5: ``1 - epsilon`` on the label, the rest shared by the others.

    Args:
        label: class ids, ``(batch,)``.
        classes: number of classes.
        epsilon: probability taken from the label.

    Returns:
        Distributions ``(batch, classes)``.
    """
    hot = F.one_hot(label, classes).float()
    return hot * (1 - epsilon) + (1 - hot) * (epsilon / (classes - 1))


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy in nats against a distribution, Eq. 1 and the two terms of Eq. 11.

    Args:
        logits: ``(batch, classes)``.
        target: distributions ``(batch, classes)``.

    Returns:
        ``(batch,)``.
    """
    return -(target * F.log_softmax(precise(logits), dim=1)).sum(dim=1)


def log_probabilities(logits: Tensor) -> Tensor:
    """Logarithms of the softmax, ``(batch, classes)``.

    They are never below that of ``PROBABILITY_FLOOR``, so that no divergence of two of them can
    overflow.
    """
    return F.log_softmax(precise(logits), dim=1).clamp(min=math.log(PROBABILITY_FLOOR))


def symmetric_divergence(log_p: Tensor, log_q: Tensor, base: float = 2.0) -> Tensor:
    """``KL(p || q) + KL(q || p)``, the bracket of Eq. 9.

    Args:
        log_p: natural logarithms of probabilities, ``(batch, classes)``.
        log_q: likewise.
        base: of the result's logarithm; 2 gives bits.

    Returns:
        ``(batch,)``, never negative.
    """
    log_p, log_q = precise(log_p), precise(log_q)
    # KL(p||q) + KL(q||p) = sum (p - q)(log p - log q): one pass, and no difference of large sums.
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=1) / math.log(base)


def js_divergence(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in bits, Eq. 2: 0 for equal, 1 for disjoint distributions.

    Args:
        p: probabilities ``(batch, classes)``.
        q: likewise.

    Returns:
        ``(batch,)`` in [0, 1].
    """
    p, q = precise(p), precise(q)
    middle = (p + q) / 2
    terms = torch.xlogy(p, p) + torch.xlogy(q, q) - 2 * torch.xlogy(middle, middle)
    return (terms.sum(dim=1) / (2 * math.log(2))).clamp(0, 1)


def balance_penalty(probabilities: Tensor, prior: Tensor | None = None) -> Tensor:
    """``KL(prior || mean prediction)``, scalar: 0 where a batch's classes are as likely as that.

    L_p of Joint-Optim; M-correction and DivideMix use it too. It is the one loss here that belongs
    to a batch and not to a sample.

    Args:
        probabilities: ``(batch, classes)``.
        prior: how likely each class is, ``(classes,)``; all alike unless given.
    """
    mean = batch_mean(precise(probabilities)).clamp(min=PROBABILITY_FLOOR)
    if prior is None:
        return -(mean.log().mean() + math.log(len(mean)))
    return (torch.xlogy(prior, prior) - prior * mean.log()).sum()
