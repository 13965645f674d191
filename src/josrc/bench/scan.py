"""Scans against the truth, beside cleanlab's verdicts by the same features."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch.nn import functional

from josrc._console import say
from josrc._io import write_text
from josrc.bench.audit import measure_ours
from josrc.bench.cleanlab import check_cleanlab
from josrc.bench.plan import AUDIT_CELLS, LOOK_ALIKES, audit_title
from josrc.config import SCAN as SCAN_METHOD
from josrc.data.feature_file import open_features, origin_of
from josrc.data.noise import CLEAN, ID, Labels
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.device import choose_device, device_name
from josrc.engine.run_folder import RunFolder, versions
from josrc.errors import UserError
from josrc.runs.features import DEFAULT_MODEL
from josrc.runs.scan import scan
from josrc.runs.start import plan
from josrc.verdicts.measures import Measures, measure, measure_noise_rate
from josrc.verdicts.neighbours import MAX_VOTERS, Neighbours, count_voters, nearest_neighbours
from josrc.verdicts.predictions import judge_predictions, predictions_of

# Ours; cleanlab's filter by a probe's predictions; its Datalab by the same and the features, and by
# the features alone.
SCAN, FILTER, DATALAB, BY_FEATURES = SCAN_SIDES = (
    "scan", "cleanlab", "datalab", "datalab-features",
)  # fmt: skip
# What is scanned unless data is named.
DEFAULT = ("cifar10n",)
# cleanlab's probe: folds, steps of L-BFGS, and the strengths of the penalty of which it gets the
# one with which predictions agree with most of the given labels of the first fold.
FOLDS, STEPS, PENALTIES = 5, 60, (1e-1, 1e-2, 1e-3)


def run_scans(
    *,
    data: Sequence[str],
    cells: Sequence[str],
    sides: Sequence[str],
    options: Mapping[str, Any],
    results: Path,
    scratch: Path,
    console: Console,
) -> None:
    """Scan what is missing; both sides of a cell have the same features."""
    names, sides = data or DEFAULT, sides or SCAN_SIDES
    _check(names, cells, sides)
    for name in names:
        seen: _ImageFeatures | None = None  # the images are the same, whatever they are called
        for cell in AUDIT_CELLS[name]:
            files = {
                side: results / "scan" / f"{name}-{cell.key}" / side / "seed-0.json"
                for side in sides
            }
            missing = {side: file for side, file in files.items() if not file.is_file()}
            if (cells and cell.key not in cells) or not missing:
                continue
            asked = {**options, "noise": cell.noise, "rate": cell.rate or None}
            config = plan(name, method=SCAN_METHOD, plant=0.0, **_named(asked))[0]
            source, device = open_source(config.data), choose_device(config.device)
            if seen is None:
                place = scratch / "scan" / name
                seen = _ImageFeatures.known(place, options) or _ImageFeatures.by_scan(
                    name, place, asked
                )
            sides_of_cell = _SideRuns(seen, source, device)
            for side, file in missing.items():
                found = sides_of_cell.result(side) | {
                    "data": config.data.name,
                    "noise": config.data.noise,
                    "rate": config.data.rate,
                }
                write_text(file, json.dumps(found, indent=1) + "\n")
                kept = found["measures"]
                say(
                    console,
                    f"{side} {name} {audit_title(cell)}: AUROC {_shown(kept['auroc_wrong'])}, "
                    f"average precision {_shown(kept['average_precision_wrong'])}, accused "
                    f"{_shown(kept['accused'])}, of these wrong {_shown(kept['precision_wrong'])}",
                )


def _check(data: Sequence[str], cells: Sequence[str], sides: Sequence[str]) -> None:
    """Raise an error on what there is not."""
    for wrong in [name for name in data if name not in AUDIT_CELLS or name == LOOK_ALIKES]:
        raise UserError(f"'{wrong}' is not known to josrc bench scan.")
    known = dict.fromkeys(cell.key for name in data for cell in AUDIT_CELLS[name])
    for kind, asked, there in (("cell", cells, known), ("side", sides, SCAN_SIDES)):
        for wrong in [word for word in asked if word not in there]:
            raise UserError(f"Unknown {kind} '{wrong}'. Known: {', '.join(there)}.")
    if set(sides) - {SCAN}:
        check_cleanlab()


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    return dict(options) | {"model": options.get("model") or DEFAULT_MODEL}


class _ImageFeatures:
    """Images as a network sees them.

    Attributes:
        features: of every image, ``(N, width)``.
        origin: of which network, and at which size.
        seconds: that a scan of them took, from command to report; none where they were there.
    """

    def __init__(self, path: Path, seconds: float | None) -> None:
        self.features = np.array(open_features(path), dtype=np.float32)
        self.origin, self.seconds = origin_of(path), seconds

    @classmethod
    def known(cls, place: Path, options: Mapping[str, Any]) -> Self | None:
        """What an earlier scan has found by the network that is asked for."""
        path = place / "features.safetensors"
        origin = origin_of(path) if path.is_file() else {}
        same = origin.get("model") == _named(options)["model"]
        return cls(path, None) if same and options.get("image_size") in (
            None, origin.get("size"),
        ) else None  # fmt: skip

    @classmethod
    def by_scan(cls, name: str, place: Path, options: Mapping[str, Any]) -> Self:
        """Scan the images."""
        begun = time.monotonic()
        run = scan(name, out=place, overwrite=True, **options)
        return cls(RunFolder(run.path).features, time.monotonic() - begun)

    @cached_property
    def neighbours(self) -> Neighbours:
        """As many of each image as vote at most."""
        device = choose_device("auto")
        return nearest_neighbours(self.features, MAX_VOTERS, device)


class _SideRuns:
    """All sides of a cell: the same labels, judged by the same features."""

    def __init__(self, seen: _ImageFeatures, source: Source, device: torch.device) -> None:
        assert source.true is not None
        assert source.kind is not None
        self.seen, self.device = seen, device
        self.given, self.classes = source.given, source.closed
        self.truth = source.true, source.kind

    @cached_property
    def probed(self) -> NDArray[Any]:
        """What the probe predicts."""
        return probe(self.seen.features, self.given, self.classes, self.device)

    def result(self, side: str) -> dict[str, Any]:
        """What is kept of a side."""
        begun = time.monotonic()
        features, given = self.seen.features, self.given
        if side == SCAN:
            near = self.seen.neighbours.first(count_voters(len(given), self.classes))
            found = predictions_of(features, near, given, self.classes, self.device)
            measures = measure_ours(judge_predictions(found, given), *self.truth)
        elif side == FILTER:
            measures = measure_filter(self.probed, given, *self.truth)
        else:
            predicted = self.probed if side == DATALAB else None
            measures = measure_datalab(features, predicted, given, *self.truth)
        return {
            "side": side,
            "model": self.seen.origin["model"],
            "image_size": self.seen.origin["size"],
            "measures": measures,
            "seconds_scan": self.seen.seconds,
            "seconds_verdicts": time.monotonic() - begun,
            "device": device_name(self.device),
            "versions": versions(),
        }


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def measure_filter(
    probabilities: NDArray[Any], given: Labels, true: Labels, kind: NDArray[np.int8]
) -> Measures:
    """What cleanlab's filter finds by predictions."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    issue = find_label_issues(given, probabilities, n_jobs=1)
    others = probabilities.copy()
    others[np.arange(len(given)), given] = -1.0
    wrong = 1 - get_label_quality_scores(given, probabilities)
    group = np.where(issue, ID, CLEAN)
    found = measure(group, wrong, np.zeros(len(given)), others.argmax(axis=1), true, kind)
    return found | measure_noise_rate(float(np.mean(issue)), kind)


def measure_datalab(
    features: NDArray[Any],
    predicted: NDArray[Any] | None,
    given: Labels,
    true: Labels,
    kind: NDArray[np.int8],
) -> Measures:
    """What Datalab's check of labels finds; without predictions it makes some of neighbours."""
    from cleanlab import Datalab

    lab = Datalab({"label": given}, task="classification", label_name="label", verbosity=0)
    lab.find_issues(features=features, pred_probs=predicted, issue_types={"label": {}})
    issues = lab.get_issues("label")
    issue = issues["is_label_issue"].to_numpy(dtype=bool)
    group, wrong = np.where(issue, ID, CLEAN), 1 - issues["label_score"].to_numpy()
    suggested = issues["predicted_label"].to_numpy(dtype=np.int64)
    found = measure(group, wrong, np.zeros(len(given)), suggested, true, kind)
    return found | measure_noise_rate(float(np.mean(issue)), kind)


def probe(
    features: NDArray[Any], labels: Labels, classes: int, device: torch.device
) -> NDArray[Any]:
    """Out-of-sample probabilities by logistic regression, ``(N, classes)``, as people make them."""
    points = torch.from_numpy(features).to(device)
    points = (points - points.mean(dim=0)) / points.std(dim=0).clamp(min=1e-6)
    known = torch.from_numpy(labels).to(device)
    fold = torch.from_numpy(np.random.RandomState(0).permutation(len(labels)) % FOLDS).to(device)

    def asked(k: int, penalty: float) -> torch.Tensor:
        there = fold != k
        weight, bias = logistic(points[there], known[there], classes, penalty)
        return (points[~there] @ weight + bias).softmax(dim=1)

    first = {penalty: asked(0, penalty) for penalty in PENALTIES}
    agrees = {
        p: float((v.argmax(dim=1) == known[fold == 0]).float().mean()) for p, v in first.items()
    }
    best = max(agrees, key=lambda penalty: agrees[penalty])
    found = torch.zeros(len(labels), classes, device=device)
    for k in range(FOLDS):
        found[fold == k] = first[best] if k == 0 else asked(k, best)
    said: NDArray[Any] = found.double().cpu().numpy()
    said /= said.sum(axis=1, keepdims=True)
    return said


def logistic(
    points: torch.Tensor, labels: torch.Tensor, classes: int, penalty: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight ``(features, classes)`` and bias of a linear layer, trained by cross-entropy."""
    weight = torch.zeros(points.shape[1], classes, device=points.device, requires_grad=True)
    bias = torch.zeros(classes, device=points.device, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        solver.zero_grad()
        value = functional.cross_entropy(points @ weight + bias, labels)
        value = value + penalty * weight.square().sum() / 2
        value.backward()
        return value

    solver.step(loss)
    return weight.detach(), bias.detach()
