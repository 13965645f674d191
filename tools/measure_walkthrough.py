"""The numbers of docs/use/walkthrough.md: its commands, run one after the other, held to the truth.

    python tools/measure_walkthrough.py SCRATCH --cifar DIR --out FILE.json

The images are made by the page's own program; DIR holds ``cifar-100-python``. Of every command the
seconds by the clock and of the processors are told, and what it reached: measures of verdicts, test
accuracy, labels mended and spoiled. cleanlab judges the same labels by the same features.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from josrc.bench.scan import measure_datalab, measure_filter, probe
from josrc.bench.truth import measure_run
from josrc.data.feature_file import open_features
from josrc.data.noise import groups_of
from josrc.engine.run_folder import versions
from josrc.review.index import spot_check
from josrc.runs.run import Run

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "use" / "walkthrough.md"
HEAD = ["--test", "photos-test", "--train", "head"]
PLAIN = ["--method", "standard", "--plant", "0"]
# Name of each training, and its words.
TRAININGS = {
    "photos, head": ["photos", *HEAD],
    "photos, head, standard": ["photos", *HEAD, *PLAIN],
    "cleaned, head": ["cleaned.csv", *HEAD, "--plant", "0"],
    "cleaned, head, standard": ["cleaned.csv", *HEAD, *PLAIN],
    "photos, cnn7": [
        "photos", "--test", "photos-test", "--model", "cnn7", "--image-size", "16",
        "--epochs", "30",
    ],
}  # fmt: skip


def main() -> None:
    """Make the images, run every command, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path, help="a folder for images and runs")
    parser.add_argument("--cifar", type=Path, required=True, help="holds cifar-100-python")
    parser.add_argument("--trainings", nargs="*", default=list(TRAININGS), help="only these")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    options = parser.parse_args()
    scratch = options.scratch.absolute()
    truth = make_images(scratch, options.cifar.absolute())
    os.chdir(scratch)
    found: dict[str, Any] = {
        "page": str(PAGE.relative_to(ROOT)),
        "images": len(truth),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }
    found["scan"] = josrc("scan", "photos", "--out", "RUN", "--overwrite")
    names = true_names(Path("RUN"), truth)
    found["scan"]["measures"] = measure_run(Path("RUN"), names)
    found |= cleanlab(Path("RUN"), names)
    found["spot check"] = check_spots(names)
    known = ["--auto", "0.5", "--auto-remove", "--out", "cleaned.csv", "--overwrite"]
    found["apply"] = josrc("apply", "RUN", *known) | outcome(Path("cleaned.csv"), truth)
    for name, words in TRAININGS.items():
        if name in options.trainings:
            found[name] = trained(name, words, truth)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def make_images(scratch: Path, cifar: Path) -> dict[str, str]:
    """Run the page's program; returns the true class of each image by its number."""
    for name in ("photos", "photos-test"):
        shutil.rmtree(scratch / name, ignore_errors=True)
    scratch.mkdir(parents=True, exist_ok=True)
    if not (scratch / "cifar").exists():
        (scratch / "cifar").symlink_to(cifar)
    program = PAGE.read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    subprocess.run([sys.executable, "-c", program], cwd=scratch, check=True)
    from torchvision.datasets import CIFAR100

    data = CIFAR100(cifar, train=True)
    numbers = (path.stem for path in (scratch / "photos").glob("*/*.png"))
    return {number: data.classes[data.targets[int(number)]] for number in numbers}


def josrc(*words: str) -> dict[str, Any]:
    """Run a command, and tell how long it took."""
    print("josrc", *words, flush=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "josrc", *words], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"josrc {' '.join(words)} ended with status {status}.")
    return {
        "command": " ".join(["josrc", *words]),
        "seconds": round(time.monotonic() - begun, 1),
        "seconds_of_processors": round(used.ru_utime + used.ru_stime, 1),
    }


def true_names(run: Path, truth: dict[str, str]) -> NDArray[np.str_]:
    """The true class of each image, in the order of the verdicts."""
    return np.array([truth[Path(name).stem] for name in Run.load(run).verdicts().index])


def cleanlab(run: Path, names: NDArray[np.str_]) -> dict[str, Any]:
    """What cleanlab finds by the features of a scan."""
    table = Run.load(run).verdicts()
    classes = sorted(set(table["given_label"]))
    every = [*classes, *sorted(set(names) - set(classes))]
    given, true = (
        np.array([every.index(name) for name in column]) for column in (table["given_label"], names)
    )
    kind = groups_of(given, true, len(classes))
    features = np.array(open_features(run / "features.safetensors"), dtype=np.float32)
    predicted = probe(features, given, len(classes), torch.device("cpu"))
    return {
        "cleanlab": {"measures": measure_filter(predicted, given, true, kind)},
        "datalab": {"measures": measure_datalab(features, predicted, given, true, kind)},
        "datalab-features": {"measures": measure_datalab(features, None, given, true, kind)},
    }


def check_spots(names: NDArray[np.str_]) -> dict[str, Any]:
    """Who decides on the spot check finds so many wrong ones; and what follows if that is said."""
    given = Run.load("RUN").verdicts()["given_label"].to_numpy().astype(str)
    wrong = int((given != names)[spot_check(len(names))].sum())
    shutil.rmtree("TOLD", ignore_errors=True)
    shutil.copytree("RUN", "TOLD")
    taken = josrc("audit", "TOLD", "--noise-rate", f"{wrong / 100:.2f}")
    return taken | {"found": wrong, "measures": measure_run(Path("TOLD"), names)}


def outcome(cleaned: Path, truth: dict[str, str]) -> dict[str, Any]:
    """What became of the labels."""
    before = {path.stem: path.parent.name for path in Path("photos").glob("*/*.png")}
    with cleaned.open(encoding="utf-8") as file:
        after = {Path(row["path"]).stem: row["label"] for row in csv.DictReader(file)}
    changed = [number for number in after if after[number] != before[number]]
    classes = set(before.values())
    gone = before.keys() - after.keys()
    right = sum(truth[number] == after[number] for number in changed)
    spoiled = sum(truth[number] == before[number] for number in changed)
    return {
        "images": len(after),
        "wrong_before": sum(truth[number] != label for number, label in before.items()),
        "wrong_after": sum(truth[number] != label for number, label in after.items()),
        "relabelled": len(changed),
        "became_right": right,
        "right_became_wrong": spoiled,
        "stayed_wrong": len(changed) - right - spoiled,
        "removed": len(gone),
        "removed_of_a_class": sum(truth[number] in classes for number in gone),
        "removed_with_a_right_label": sum(truth[number] == before[number] for number in gone),
    }


def trained(name: str, words: list[str], truth: dict[str, str]) -> dict[str, Any]:
    """Train, and tell the test accuracy; of Jo-SRC on the images as they came the verdicts too."""
    run = Path(name.replace(", ", "-"))
    found = josrc("train", *words, "--out", str(run), "--overwrite", "--quiet")
    summary = Run.load(run).summary
    kept = ("last10_mean", "best", "best_epoch", "epochs", "seconds_total")
    found |= {key: summary[key] for key in kept}
    if words[0] == "photos" and "standard" not in words:
        found["measures"] = measure_run(run, true_names(run, truth))
    return found


if __name__ == "__main__":
    main()
