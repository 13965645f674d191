"""How long a scan of very many rows takes, and how much memory: from features that are given.

    python tools/measure_large_scan.py SCRATCH --rows 1000000 --out results/scan/a-million-rows.json

Features are drawn around the centres of classes that overlap, and some labels are wrong. Files that
a person would have are written to SCRATCH: a manifest and an npy file. Then every step runs as a
process of its own, as a person starts it: ``josrc scan`` on the manifest, ``josrc report``, the
index of ``josrc review``, ``josrc apply``, and ``josrc.scan`` on labels alone. Of each the seconds
by the clock and of the processors are told, and the largest resident memory. All rows of the
manifest share a thousand small pictures: no scan from features reads them, but the report shows
them. Take ``OMP_NUM_THREADS`` for the number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from josrc.bench.truth import measure_run
from josrc.engine.run_folder import versions

ROOT = Path(__file__).resolve().parents[1]
# Classes, how far their centres lie from each other beside the spread of 1 inside of them along
# every axis that matters, such axes, and pictures.
CLASSES, DISTANCE, AXES, PICTURES = 100, 0.6, 48, 1000
ROWS_AT_A_TIME = 50_000


def main() -> None:
    """Make the data, run every step, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path, help="a folder for data and runs")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384, help="numbers per row")
    parser.add_argument("--type", choices=("float16", "float32"), default="float16")
    parser.add_argument("--wrong", type=float, default=0.1, help="share of wrong labels")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    true, given = write_data(options)
    run, alone = options.scratch / "RUN", options.scratch / "ALONE"
    python, josrc = [sys.executable, "-c"], [sys.executable, "-m", "josrc"]
    scan = [*josrc, "scan", "manifest.csv", "--features", "features.npy", "--out", run.name]
    steps = {
        "josrc scan": [*scan, "--overwrite"],
        "josrc report": [*josrc, "report", run.name],
        "index of josrc review": [*python, INDEX, f"{run.name}/audit"],
        "josrc apply": [*josrc, "apply", run.name, "--auto", "0.9", "--out", "cleaned.csv"],
        "josrc.scan of labels alone": [*python, LABELS_ALONE, alone.name],
    }
    taken = {name: measured(name, step, options.scratch) for name, step in steps.items()}
    found = {
        "rows": options.rows,
        "width": options.width,
        "type": options.type,
        "wrong": float((true != given).mean()),
        "processors": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "steps": taken,
        "measures": measure_run(run, np.char.add("class-", np.char.zfill(true.astype(str), 2))),
        "megabytes": {
            name: round((run / name).stat().st_size / 2**20, 1)
            for name in ("audit/verdicts.csv", "audit/report.html", "audit/index.sqlite")
        },
        "versions": versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


INDEX = """
import sys, pathlib
from josrc.review.index import indexed
indexed(pathlib.Path(sys.argv[1]))
"""
LABELS_ALONE = """
import sys, numpy, josrc
given, features = numpy.load("given.npy"), numpy.load("features.npy", mmap_mode="r")
josrc.scan(given, features=features, out=sys.argv[1], overwrite=True)
"""


def write_data(options: argparse.Namespace) -> tuple[NDArray[Any], NDArray[Any]]:
    """Write features, labels, a manifest and pictures; returns true and given labels."""
    draw, folder = np.random.default_rng(0), options.scratch
    true = draw.integers(0, CLASSES, options.rows)
    wrong = draw.random(options.rows) < options.wrong
    given = np.where(wrong, (true + draw.integers(1, CLASSES, options.rows)) % CLASSES, true)
    np.save(folder / "given.npy", given)
    centres = np.zeros((CLASSES, options.width), dtype=np.float32)
    centres[:, :AXES] = DISTANCE * draw.standard_normal((CLASSES, AXES))
    spread = np.full(options.width, 0.5, dtype=np.float32)
    spread[:AXES] = 1
    shape = (options.rows, options.width)
    features = open_memmap(folder / "features.npy", "w+", np.dtype(options.type), shape)
    for begin in range(0, options.rows, ROWS_AT_A_TIME):
        labels = true[begin : begin + ROWS_AT_A_TIME]
        noise = spread * draw.standard_normal((len(labels), options.width), dtype=np.float32)
        features[begin : begin + len(labels)] = centres[labels] + noise
    features.flush()
    with (folder / "manifest.csv").open("w", encoding="utf-8") as file:
        file.write("id,path,label\n")
        for row, label in enumerate(given.tolist()):
            file.write(f"row-{row:07},pictures/{row % PICTURES:03}.png,class-{label:02}\n")
    shutil.rmtree(folder / "pictures", ignore_errors=True)
    (folder / "pictures").mkdir()
    for number in range(PICTURES):
        pixels = draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{number:03}.png")
    return true, given


def measured(name: str, command: list[str], folder: Path) -> dict[str, float]:
    """Run a step; its seconds by the clock and of the processors, and its largest memory."""
    print(f"{name} ...", flush=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{name} ended with status {status}.")
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "seconds_of_processors": round(used.ru_utime + used.ru_stime, 1),
        "gigabytes_resident": round(used.ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    main()
