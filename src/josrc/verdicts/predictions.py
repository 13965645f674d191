"""Verdicts without training: from predictions of every image that have not seen its own label.

Predictions may be a user's own, or made from features: the vote of the nearest neighbours, none of
which is the image itself, and a linear probe that was fitted on other images. What a wrong label
would look like can then be tried out without changing any: an image is asked how likely it is of
another class. These labels are errors as good as planted ones, since no prediction depends on the
label of its own image, and there may be many of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc.data.noise import Labels
from josrc.engine.planting import Likeness, count_to_plant, draw_errors
from josrc.errors import UserError
from josrc.verdicts.features import Held, label_probabilities
from josrc.verdicts.findings import held_out_findings
from josrc.verdicts.groups import without_others
from josrc.verdicts.judge_run import Judgement, measure_by_planted
from josrc.verdicts.neighbours import (
    Neighbours,
    count_voters,
    nearest_neighbours,
    neighbours_among,
    neighbours_apart,
    vote,
)
from josrc.verdicts.rule import judge, least_noise_rate

# Errors that are tried out: this share of all images, but this many at most.
TRIED_SHARE, MAX_TRIED = 2 / 3, 20_000
# Shrinkage of the probe's discriminant: as much as this many images per feature would balance. Best
# for 600, 1,500 and 6,000 images of CIFAR-10 with people's labels (random 1 and 2) and 1,280
# features were 0.9, 0.6 and 0.3 of those tried.
IMAGES_PER_FEATURE = 2.0
# Errors between look-alikes: people seldom err where an image could be nothing else, and take the
# likeliest other class only most often. So images are chosen by this power of how likely their
# rival is, and labels by those of how likely each class is: half of the errors by the first, half
# by the second, since some people err more blindly than others; labels say which fits. Chosen where
# `calibration.UNSEEN_SLOPE` was; with the rival alone and the square, as in training, where the
# network learns to tell images apart, a third of people's errors were counted.
RIVAL_POWER, CLASS_POWERS = 0.5, (0.5, 1.0)
# Neighbours and probe are multiplied, each to this power, with so much of all classes. A half would
# be their geometric mean, 1 would take them for independent. Chosen on 6,000 images of CIFAR-10:
# clean, symmetric 2 and 20 %, people's labels (random 1 and 2).
PRODUCT_POWER, PROBABILITY_FLOOR = 0.65, 1e-4
# `held` of findings that come from predictions alone.
PREDICTED = 3

Probabilities = NDArray[Any]


def predict_labels(
    features: NDArray[Any],
    given: Labels,
    classes: int,
    device: torch.device,
    groups: Labels | None = None,
) -> NDArray[Any]:
    """Probabilities of all classes that no image's own label had a say in, ``(N, classes)``."""
    neighbours = nearest_neighbours(features, count_voters(len(given), classes), device)
    return predictions_of(features, neighbours, given, classes, device, groups)


def predictions_of(
    features: NDArray[Any],
    neighbours: Neighbours,
    labels: Labels,
    classes: int,
    device: str | torch.device = "cpu",
    groups: Labels | None = None,
) -> Probabilities:
    """Probabilities of all classes, by neighbours and probe, ``(N, classes)``.

    Args:
        features: of every image, ``(N, width)``.
        neighbours: by the same features.
        labels: the given labels.
        classes: how many there are.
        device: where the probe is fitted.
        groups: images of one group have no say in each other's; NaN where nobody else has the
            label. None: every image is alone.
    """
    rows = torch.arange(classes, device=device).expand(len(labels), -1)
    points = torch.from_numpy(np.array(features, dtype=np.float32)).to(device)
    known = torch.from_numpy(labels).to(device)
    together = None if groups is None else torch.from_numpy(groups).to(device)
    probe, _ = label_probabilities(
        points, known, rows, classes, shrinkage=_shrinkage(features.shape), groups=together
    )
    if groups is not None:
        neighbours = neighbours_apart(neighbours, features, groups, device)
    found = _combine(vote(neighbours, labels, classes), probe.cpu().numpy())
    if groups is not None:
        found[without_others(groups, labels)] = np.nan
    return found


def predictions_of_others(
    features: NDArray[Any],
    others: NDArray[Any],
    labels: Labels,
    classes: int,
    device: str | torch.device = "cpu",
) -> Probabilities:
    """Probabilities of all classes for images that have no say themselves, ``(M, classes)``.

    Args:
        features: of the images that have one, ``(N, width)``.
        others: of those that are asked about, ``(M, width)``.
        labels: of the former, ``(N,)``.
        classes: how many there are.
        device: where the probe is fitted.
    """
    near = neighbours_among(features, others, count_voters(len(labels), classes), device)
    points, asked = (
        torch.from_numpy(np.array(part, dtype=np.float32)).to(device) for part in (features, others)
    )
    known = torch.from_numpy(labels).to(device)
    rows = torch.arange(classes, device=device).expand(len(others), -1)
    _, probe = label_probabilities(
        points, known, known[:, None], classes, (asked, rows), _shrinkage(features.shape)
    )
    assert probe is not None
    return _combine(vote(near, labels, classes), probe.cpu().numpy())


def frozen_label_probabilities(
    features: Tensor, labels: Tensor, asked: Tensor, classes: int, held: Held | None = None
) -> tuple[Tensor, Tensor | None]:
    """The same as ``label_probabilities``, by neighbours too, for features nothing was learned of.

    Features that were trained with the labels lie where these want them: their neighbours would
    only repeat what the network has learned by heart.
    """
    known, device = labels.cpu().numpy(), features.device
    points = features.cpu().numpy()
    every = torch.from_numpy(predict_labels(points, known, classes, device)).to(device)
    found = every.gather(1, asked)
    if held is None or not len(held[1]):
        return found, None
    others = predictions_of_others(points, held[0].cpu().numpy(), known, classes, device)
    return found, torch.from_numpy(others).to(device).gather(1, held[1][:, None])[:, 0]


def _shrinkage(shape: tuple[int, ...]) -> float:
    return 1 / (1 + shape[0] / (IMAGES_PER_FEATURE * shape[1]))


def _combine(votes: Probabilities, probe: Probabilities) -> Probabilities:
    """Neighbours and probe as one prediction."""
    found: Probabilities = PRODUCT_POWER * np.log(votes + PROBABILITY_FLOOR)
    found += PRODUCT_POWER * np.log(probe + PROBABILITY_FLOOR)
    found -= found.max(axis=1, keepdims=True)
    np.exp(found, out=found)
    found /= found.sum(axis=1, keepdims=True)
    return found


def judge_predictions(
    probabilities: Probabilities,
    given: Labels,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
    seed: int = 0,
) -> Judgement:
    """Judge labels by predictions that have not seen them.

    Args:
        probabilities: of every class, ``(N, classes)``; NaN of images that nothing is known of.
        given: the labels, ``(N,)``.
        noise_rate: share of wrong labels, where it is known.
        ood_rate: share of foreign images, where it is known.
        seed: of the errors that are tried out.
    """
    total, classes = probabilities.shape
    known = np.flatnonzero(np.isfinite(probabilities).all(axis=1))
    if not known.size:
        raise UserError(
            "Nothing can be said of any image: their features are no finite numbers. Scan again."
        )
    share = min(TRIED_SHARE, MAX_TRIED / max(len(known), 1))
    likeness = Likeness.of(torch.from_numpy(probabilities[known]), torch.from_numpy(given[known]))
    count = count_to_plant(share, len(known))
    index, label = draw_errors(likeness, given[known], classes, count, seed, RIVAL_POWER)
    index = known[index]
    sorts = np.array_split(np.arange(count // 2, count), len(CLASS_POWERS))
    for sort, power in zip(sorts, CLASS_POWERS, strict=True):
        label[sort] = _draw_calls(probabilities[index[sort]], given[index[sort]], power, seed)
    labels, own = np.concatenate([given, label]), np.concatenate([given, given[index]])
    findings = held_out_findings(np.concatenate([probabilities, probabilities[index]]), labels)
    findings = replace(findings, held=np.full(len(labels), PREDICTED, dtype=np.int8))
    tried = np.arange(total, total + count)
    verdicts = judge(
        findings, labels, noise_rate, ood_rate, tried, own, alike_sorts=len(CLASS_POWERS)
    )
    measured = measure_by_planted(verdicts, tried, noise_rate, trained=False)
    real = slice(0, total)
    findings, verdicts = findings.part(real), verdicts.part(real)
    least = least_noise_rate(findings, verdicts) if noise_rate is None else noise_rate
    return Judgement(verdicts, findings, measured, least)


def _draw_calls(probabilities: Probabilities, given: Labels, power: float, seed: int) -> Labels:
    """What people might call images that they don't call what they are given as, ``(M,)``."""
    chance = probabilities.astype(np.float64) ** power
    chance[np.arange(len(given)), given] = 0.0
    reached = chance.cumsum(axis=1)
    drawn = np.random.default_rng(seed).random(len(given)) * reached[:, -1]
    called: Labels = (reached <= drawn[:, None]).sum(axis=1)
    return called
