"""cleanlab's verdicts, from networks trained the plain way, one a fold, on the other folds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from josrc._io import write_npz
from josrc._reading import read_arrays
from josrc.data.loaders import MAX_EVALUATED
from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.data.source import Source
from josrc.engine.state import TrainState
from josrc.errors import UserError, install_command

FOLDS = 5
# cleanlab's Datalab takes an image for an outlier whose mean distance to its neighbours lies this
# many interquartile ranges above the third quartile: 1 / 0.37037 - 1, its default.
OUTLIER_RANGES = 1.7

Array = NDArray[Any]
# Trains on a part of the data, under the number of its fold: the state, and the seconds it took.
Train = Callable[[Source, int], tuple[TrainState, float]]


@dataclass(frozen=True)
class Fold:
    """What a network says of the samples that it was not trained on.

    Attributes:
        index: which samples these are, ``(M,)``.
        probabilities: its predictions, ``(M, classes)``.
        typical: cleanlab's score of their features, low for outliers, ``(M,)``.
        distance: mean distance of their features to the nearest training samples', ``(M,)``.
        training_seconds: of its training.
        audit_seconds: of predictions, features and neighbours.
    """

    index: Array
    probabilities: Array
    typical: Array
    distance: Array
    training_seconds: Array
    audit_seconds: Array


@dataclass(frozen=True)
class CleanlabVerdicts:
    """cleanlab's verdicts and scores, each ``(N,)``, as ``josrc.verdicts.measures`` takes them."""

    group: Array
    wrong_score: Array
    ood_score: Array
    suggested: Array
    ood_score_of_predictions: Array
    issue: Array


def check_cleanlab() -> None:
    """Raise a helpful error where cleanlab is not installed."""
    try:
        import cleanlab  # noqa: F401
    except ImportError:
        raise UserError(
            "bench audit compares with cleanlab, which is not installed: "
            f"{install_command('compare')}. Or leave it out: --sides josrc."
        ) from None


def cross_validate(source: Source, seed: int, scratch: Path, train: Train) -> Iterator[Fold]:
    """Every fold's predictions; those of a fold that was done before are read from ``scratch``."""
    from sklearn.model_selection import StratifiedKFold

    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for number, (others, held) in enumerate(splitter.split(source.given, source.given)):
        file = scratch / f"fold-{number}.npz"
        if not file.is_file():
            state, seconds = train(source.take(others), number)
            fold = _look(state, source, others, held, seconds)
            write_npz(file, {f.name: getattr(fold, f.name) for f in fields(Fold)})
        names = [f.name for f in fields(Fold)]
        yield Fold(**read_arrays(file, needed=names))


def _look(state: TrainState, source: Source, others: Array, held: Array, seconds: float) -> Fold:
    from cleanlab.outlier import OutOfDistribution

    begun = time.monotonic()
    known, _ = predict(state, source.images.tiles(others))
    features, probabilities = predict(state, source.images.tiles(held))
    outliers = OutOfDistribution()
    outliers.fit(features=known, verbose=False)
    typical = outliers.score(features=features)
    # A score is exp(-t * distance / scale). To search for the neighbours again would take long.
    scale = outliers.params["scaling_factor"] / outliers.params["t"]
    distance = -np.log(np.maximum(typical, np.finfo(float).tiny)) * scale
    spent = time.monotonic() - begun
    return Fold(held, probabilities, typical, distance, np.array(seconds), np.array(spent))


@torch.no_grad()
def predict(state: TrainState, images: Array) -> tuple[Array, Array]:
    """Features of the layer before the last, and probabilities, of images without augmentation."""
    (network,) = state.method.tested
    last = [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1]
    features: list[Tensor] = []
    hook = last.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0].float()))
    state.method.eval()
    probabilities: list[Tensor] = []
    for chunk in torch.from_numpy(images).split(MAX_EVALUATED):
        pixels = state.loader.normalise(chunk.to(state.device).permute(0, 3, 1, 2))
        with torch.autocast(state.device.type, torch.bfloat16, enabled=state.bfloat16):
            logits = network(pixels)
        probabilities.append(logits.float().softmax(dim=1))
    hook.remove()
    state.method.train()
    return torch.cat(features).cpu().numpy(), torch.cat(probabilities).cpu().numpy()


def judge_with_cleanlab(folds: list[Fold], given: Labels) -> CleanlabVerdicts:
    """An outlier is out of distribution; else a label issue is mislabelled; else it is clean."""
    from cleanlab.filter import find_label_issues
    from cleanlab.outlier import OutOfDistribution
    from cleanlab.rank import get_label_quality_scores

    probabilities = np.empty((len(given), folds[0].probabilities.shape[1]))
    typical, outlier = np.empty(len(given)), np.empty(len(given), dtype=bool)
    for fold in folds:
        probabilities[fold.index], typical[fold.index] = fold.probabilities, fold.typical
        # Features of two networks can't be compared, so each fold has its own quartiles.
        low, high = np.quantile(fold.distance, [0.25, 0.75])
        outlier[fold.index] = fold.distance > high + OUTLIER_RANGES * (high - low)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    issue = find_label_issues(given, probabilities, n_jobs=1)
    others = probabilities.copy()
    others[np.arange(len(given)), given] = -1.0
    by_predictions = OutOfDistribution().fit_score(
        pred_probs=probabilities, labels=given, verbose=False
    )
    return CleanlabVerdicts(
        group=np.where(outlier, OOD, np.where(issue, ID, CLEAN)),
        wrong_score=1 - get_label_quality_scores(given, probabilities),
        ood_score=1 - typical,
        suggested=others.argmax(axis=1),
        ood_score_of_predictions=1 - by_predictions,
        issue=issue,
    )
