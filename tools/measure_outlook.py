"""What a review on a budget expects to be left, against the truth of simulated verdicts.

    python tools/measure_outlook.py --out results/budget

Every set has 5,000 labels of ten classes. Their log odds to be wrong are normal; the verdicts say
others, off by an offset and by their slope. Somebody looks at the most suspicious ones and finds
out the truth. The mean over 20 sets, and over them the spread, of what is then expected to be left
wrong, as a share of what is, and of what the next hundred looks correct: by the verdicts alone, and
by what was found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from josrc.engine.run_folder import versions
from josrc.verdicts.budget import HUNDRED, learn_from_decisions

SETS, LABELS, CLASSES, CENTRE, SPREAD = 20, 5_000, 10, -4.0, 2.5
LOOKS = (100, 300, 500)
# What the verdicts' log odds are too small by, and what they are divided by.
VERDICTS = {
    "right": (0.0, 1.0),
    "promise too little": (1.5, 1.0),
    "promise too much": (-1.2, 1.0),
    "too flat": (0.0, 1.4),
    "too steep": (0.0, 0.7),
}


def measure(offset: float, slope: float, looks: int) -> dict[str, float]:
    """Expected and true counts after so many looks."""
    left, following = [], []
    for seed in range(SETS):
        generator = np.random.default_rng(seed)
        odds = generator.normal(CENTRE, SPREAD, LABELS)
        wrong = generator.random(LABELS) < expit(odds)
        label = generator.integers(0, CLASSES, LABELS)
        told = expit((odds - offset) / slope)
        seen, rest = np.split(np.argsort(-told), [looks])
        learned = learn_from_decisions(told, label, seen, wrong[seen].astype(np.float64))
        left.append([told[rest].sum(), learned[rest].sum(), wrong[rest].sum()])
        some = rest[np.argsort(-learned[rest])[:HUNDRED]]
        following.append([told[some].sum(), learned[some].sum(), wrong[some].sum()])
    shares = np.array(left)[:, :2] / np.array(left)[:, 2:]
    verdicts, found, true = np.mean(following, axis=0)
    return {
        "left_by_verdicts": round(float(shares[:, 0].mean()), 3),
        "left_by_decisions": round(float(shares[:, 1].mean()), 3),
        "left_by_decisions_spread": round(float(shares[:, 1].std()), 3),
        "next_by_verdicts": round(float(verdicts), 1),
        "next_by_decisions": round(float(found), 1),
        "next_true": round(float(true), 1),
    }


def main() -> None:
    """Measure all sorts of verdicts and write one file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/budget"))
    out: Path = parser.parse_args().out
    found = {
        name: {str(looks): measure(*wrongness, looks) for looks in LOOKS}
        for name, wrongness in VERDICTS.items()
    }
    out.mkdir(parents=True, exist_ok=True)
    kept = {"sets": SETS, "labels": LABELS, "after": found, "versions": versions()}
    text = json.dumps(kept, indent=1) + "\n"
    (out / "outlook-simulated.json").write_text(text, encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
