"""What a hundred looks correct in the order of a budget, and in other orders.

    python tools/measure_budget.py cifar10.npz --labels aggregate --out results/budget

The file has CIFAR-10 with the labels that people gave (`train_images`, `train_labels`,
`test_images`, `test_labels`, `names`, `aggregate`, `worst`, `random1` ...). Two halves of its first
10,000 training images are scanned, each on its own. Somebody who sees an image finds out its true
label. Accuracy is that of a linear layer on the features of the scan, trained by cross-entropy on
all labels of the half, those that were looked at corrected, and tested on the 40,000 other training
images by their true labels. With `--copies SHARE` so many of the images come a second time, with
another annotator's label: `random2`. Weights and prior of the order were chosen with `random1`, so
measure with others.

Beside lowest score first and random looks there are two orders that josrc does not use:
`rejudged` scans again after every hundred looks, with the labels found so far; `value` puts first
what a linear layer is expected to gain most by.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import josrc
from josrc.bench.scan import logistic
from josrc.data.feature_file import open_features
from josrc.engine.device import device_name
from josrc.engine.run_folder import versions
from josrc.verdicts.budget import LookPlan, plan_looks, read_candidates
from josrc.verdicts.neighbours import count_voters, nearest_neighbours
from josrc.verdicts.predictions import judge_predictions, predictions_of

TRAIN, PARTS, CLASSES = 10_000, 2, 10
LOOKS = (100, 200, 300, 500, 1000)
TESTED = (200, 500, 1000)
ROUND = 100
# The strength with which training on random1 was most accurate, of 0.01, 0.1 and 1.
PENALTY = 0.1

Array = NDArray[Any]


@dataclass(frozen=True)
class Half:
    """One half of the images: what they are, what people called them, and what a scan says."""

    audit: Path
    given: Array
    true: Array
    features: Array

    @property
    def wrong(self) -> Array:
        """Which labels are wrong."""
        found: Array = self.given != self.true
        return found

    def standardised(self, features: Array) -> torch.Tensor:
        """Features with the mean and spread of the half's taken out."""
        centre, spread = self.features.mean(axis=0), self.features.std(axis=0).clip(1e-6)
        return torch.from_numpy((features - centre) / spread)

    def reached(self, plan: LookPlan, looks: int) -> list[int]:
        """Rows that are right after so many looks, copies that show the same thing included."""
        rows: list[int] = plan.rows[:looks].tolist()
        return rows + [
            other
            for row in rows
            for other in plan.copies.get(row, [])
            if self.true[other] == self.true[row]
        ]


def features_of(data: Mapping[str, Array], scratch: Path) -> Array:
    """Features of all images that are used, from an earlier call where they are there."""
    run = scratch / "features"
    if not (run / "features.safetensors").is_file():
        pair = (data["train_images"], data["train_labels"].astype(int))
        josrc.scan(pair, out=run, overwrite=True, device="cpu")
    return np.array(open_features(run / "features.safetensors"), dtype=np.float32)


def scan_half(
    data: Mapping[str, Array], features: Array, labels: str, part: int, copies: float, out: Path
) -> Half:
    """Scan a half of the images, some of them twice."""
    rows = np.array_split(np.arange(TRAIN), PARTS)[part]
    twice = np.random.default_rng(part).choice(rows, round(copies * len(rows)), replace=False)
    given = np.concatenate([data[labels][rows], data["random2"][twice]]).astype(np.int64)
    rows = np.concatenate([rows, twice])
    names = np.array([str(name) for name in data["names"]])
    pair = (data["train_images"][rows], names[given].tolist())
    josrc.scan(pair, features=features[rows], out=out, overwrite=True, device="cpu")
    return Half(out / "audit", given, data["train_labels"][rows].astype(np.int64), features[rows])


def in_rounds(half: Half) -> list[list[int]]:
    """Rows that are right after each look, planned anew with what was found every hundred looks."""
    found: dict[int, bool] = {}
    reached: list[list[int]] = [[]]
    for _ in range(max(LOOKS) // ROUND):
        plan, before = plan_looks(half.audit, ROUND, found), reached[-1]
        reached += [before + half.reached(plan, look) for look in range(1, ROUND + 1)]
        found = {row: bool(half.wrong[row]) for row in reached[-1]}
    return reached


def outlooks(half: Half, again: list[list[int]]) -> dict[str, dict[str, float]]:
    """After so many looks in rounds, what is expected to be left and to come next, and is."""
    found = {}
    for looks in LOOKS[:-1]:
        seen = again[looks]
        plan = plan_looks(half.audit, ROUND, {row: bool(half.wrong[row]) for row in seen})
        following = set(half.reached(plan, ROUND)) - set(seen)
        found[str(looks)] = {
            "left_expected": plan.wrong,
            "left": int(half.wrong.sum() - half.wrong[seen].sum()),
            "next_expected": plan.expected(ROUND),
            "next": int(half.wrong[list(following)].sum()),
        }
    return found


def rejudged(half: Half) -> list[int]:
    """Rows by lowest score first, of verdicts made again after every hundred looks."""
    near = nearest_neighbours(half.features, count_voters(len(half.features), CLASSES))
    labels, seen = half.given.copy(), list[int]()
    score = read_candidates(half.audit).score
    while len(seen) < max(LOOKS):
        score = score.copy()
        score[seen] = np.inf
        seen += np.argsort(score, kind="stable")[:ROUND].tolist()
        labels[seen] = half.true[seen]
        likely = predictions_of(half.features, near, labels, CLASSES)
        score = judge_predictions(likely, labels).verdicts.score
    return seen


def by_value(half: Half) -> list[int]:
    """Rows by what correcting each is expected to gain for a linear layer on the features.

    That is the influence of a label (Koh and Liang 2017): the slope of the expected loss, labels
    being as wrong as the verdicts say, times the inverse curvature, times what the label's own
    slope changes by when the likeliest other class takes its place.
    """
    rows = np.arange(len(half.given))
    near = nearest_neighbours(half.features, count_voters(len(rows), CLASSES))
    others = np.array(predictions_of(half.features, near, half.given, CLASSES), dtype=np.float64)
    others[rows, half.given] = 0
    wrong = read_candidates(half.audit).expected
    expected = wrong[:, None] * others / others.sum(axis=1, keepdims=True).clip(1e-9)
    expected[rows, half.given] += 1 - wrong
    points = half.standardised(half.features)
    weight, bias = logistic(points, torch.from_numpy(half.given), CLASSES, PENALTY)
    likely = torch.softmax(points @ weight + bias, dim=1).double().numpy()
    inputs = np.concatenate([points.double().numpy(), np.ones((len(rows), 1))], axis=1)
    slope = inputs.T @ (likely - expected) / len(rows)
    curvature = (inputs * (likely * (1 - likely)).mean(axis=1)[:, None]).T @ inputs / len(rows)
    change = inputs @ np.linalg.solve(curvature + PENALTY * np.eye(len(curvature)), slope)
    gain = change[rows, half.given] - change[rows, others.argmax(axis=1)]
    found: list[int] = np.argsort(-wrong * gain.clip(0), kind="stable").tolist()
    return found


def orders(half: Half) -> dict[str, Callable[[int], list[int]]]:
    """Rows that are right after so many looks, for each order."""
    found = read_candidates(half.audit)
    by_score = np.argsort(found.score, kind="stable")
    plan = plan_looks(half.audit, max(LOOKS))
    again, judged, valued = in_rounds(half), rejudged(half), by_value(half)
    return {
        "score": lambda looks: by_score[:looks].tolist(),
        "budget": lambda looks: half.reached(plan, looks),
        "rounds": lambda looks: again[looks],
        "rejudged": lambda looks: judged[:looks],
        "value": lambda looks: valued[:looks],
    }


def measure(half: Half, test: tuple[Array, Array], accuracy: bool) -> dict[str, Any]:
    """Corrections and accuracy of one half."""
    wrong = half.wrong
    plan = plan_looks(half.audit, max(LOOKS))
    result: dict[str, Any] = {
        "samples": len(wrong),
        "wrong": int(wrong.sum()),
        "copies": sum(map(len, plan.copies.values())),
        "expected_wrong": plan.wrong,
        "expected": {str(looks): plan.expected(looks) for looks in LOOKS},
        "outlook": plan.outlook(),
        "corrected": {
            "random": {str(looks): float(wrong.mean() * looks) for looks in LOOKS},
        },
    }
    ways = orders(half)
    again = [ways["rounds"](looks) for looks in range(max(LOOKS) + 1)]
    result["after_rounds"] = outlooks(half, again)
    for name, reached in ways.items():
        result["corrected"][name] = {
            str(looks): int(wrong[reached(looks)].sum()) for looks in LOOKS
        }
    if accuracy:
        draw = np.random.default_rng(0).permutation(len(wrong))
        ways["random"] = lambda looks: draw[:looks].tolist()
        learn = Learner(half, test)
        result["accuracy"] = {
            "as_given": learn.accuracy([]),
            "all_right": learn.accuracy(range(len(wrong))),
        } | {
            name: {str(looks): learn.accuracy(reached(looks)) for looks in TESTED}
            for name, reached in ways.items()
        }
    return result


class Learner:
    """A linear layer on the features of a half."""

    def __init__(self, half: Half, test: tuple[Array, Array]) -> None:
        self.half = half
        self.points, self.tests = half.standardised(half.features), half.standardised(test[0])
        self.true = test[1]

    def accuracy(self, right: Any) -> float:
        """On the test images, in percent, when some rows have their true labels."""
        labels = self.half.given.copy()
        rows = list(right)
        labels[rows] = self.half.true[rows]
        weight, bias = logistic(self.points, torch.from_numpy(labels), CLASSES, PENALTY)
        likely = (self.tests @ weight + bias).argmax(dim=1).numpy()
        return float(100 * np.mean(likely == self.true))


def main() -> None:
    """Read the options, measure both halves, and write one file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", required=True)
    parser.add_argument("--copies", type=float, default=0.0)
    parser.add_argument("--accuracy", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=Path, default=Path("results/budget"))
    parser.add_argument("--scratch", type=Path, default=Path("scratch"))
    asked = parser.parse_args()
    begun = time.monotonic()
    data = dict(np.load(asked.data))
    features = features_of(data, asked.scratch)
    test = features[TRAIN:], data["train_labels"][TRAIN:].astype(np.int64)
    name = f"cifar10n-{asked.labels}" + (f"-copies-{asked.copies:g}" if asked.copies else "")
    parts = []
    for part in range(PARTS):
        out = asked.scratch / f"{name}-{part}"
        half = scan_half(data, features, asked.labels, part, asked.copies, out)
        parts.append(measure(half, test, asked.accuracy))
    kept = {
        "labels": asked.labels,
        "copies": asked.copies,
        "parts": parts,
        "seconds": round(time.monotonic() - begun, 1),
        "device": device_name(torch.device("cpu")),
        "versions": versions(),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for each in parts:
        print(json.dumps({key: each[key] for key in ("wrong", "expected_wrong", "corrected")}))


if __name__ == "__main__":
    main()
