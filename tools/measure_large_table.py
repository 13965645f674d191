"""How report and review open a table of very many verdicts: seconds and memory.

    python tools/measure_large_table.py SCRATCH --rows 10000000 --out results/scan/verdicts-10m.json

SCRATCH gets a run folder as a scan of a manifest leaves it, whose verdicts are drawn: a tenth of
the labels look wrong, a hundredth foreign. All rows share a thousand small pictures. Then ``josrc
report``, the index of ``josrc review``, some of the review's requests and ``Run.verdicts()`` run
as processes of their own. Of each the seconds by the clock and of the processors are told, and the
largest resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from measure_large_scan import measured

from josrc.config import SCAN
from josrc.data.feature_file import FeatureWriter
from josrc.data.noise import CLEAN, ID, OOD
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.device import choose_device
from josrc.engine.run_folder import RunFolder, versions
from josrc.runs.features import DEFAULT_MODEL
from josrc.runs.snapshot import write_record
from josrc.runs.start import plan
from josrc.verdicts.confusion import Confusion
from josrc.verdicts.feature_map import FeatureMap, write_map
from josrc.verdicts.findings import Findings
from josrc.verdicts.judge_run import Judgement, write_judgement
from josrc.verdicts.predictions import PREDICTED
from josrc.verdicts.rule import Reference, Verdicts

CLASSES, PICTURES = 100, 1000
MISLABELLED, FOREIGN = 0.1, 0.01

INDEX = """
import sys, pathlib
from josrc.review.index import indexed
indexed(pathlib.Path(sys.argv[1]) / "audit")
"""
# What a review asks of its index: each of them once, and the slowest is told.
REQUESTS = """
import json, pathlib, sys, time
begun = time.monotonic()
from josrc.review.decisions import Store
from josrc.review.queues import Filter
store = Store(pathlib.Path(sys.argv[1]) / "audit")
taken = {"open": time.monotonic() - begun}
def timed(name, ask):
    begun = time.monotonic()
    ask()
    taken[name] = time.monotonic() - begun
timed("first page", lambda: store.page(Filter()))
timed("page in the middle", lambda: store.page(Filter(), int(sys.argv[2]) // 2))
timed("page of a class", lambda: store.page(Filter(given="class-07")))
timed("page of foreign ones", lambda: store.page(Filter(verdict="out_of_distribution")))
timed("search of a name", lambda: store.page(Filter(search="row-0123456")))
timed("search of nothing", lambda: store.page(Filter(search="is not there")))
timed("progress", store.progress)
timed("spot check", store.spot_check)
timed("decision", lambda: store.decide([5], "accept"))
timed("undo", store.undo)
pathlib.Path("requests.json").write_text(json.dumps({k: round(v, 3) for k, v in taken.items()}))
"""
TABLE = """
import sys, josrc
table = josrc.Run.load(sys.argv[1]).verdicts()
assert len(table) == int(sys.argv[2]), len(table)
"""


def main() -> None:
    """Make the run, take every step, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path, help="a folder for data and run")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--steps", help="only these, separated by commas; default all")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    options = parser.parse_args()
    scratch = options.scratch
    scratch.mkdir(parents=True, exist_ok=True)
    run, rows = scratch / "RUN", str(options.rows)
    if not (run / "summary.json").is_file():
        write_run(scratch, options.rows)
    python, josrc = [sys.executable, "-c"], [sys.executable, "-m", "josrc"]
    steps = {
        "josrc report": [*josrc, "report", "RUN"],
        "index of josrc review": [*python, INDEX, "RUN"],
        "requests of josrc review": [*python, REQUESTS, "RUN", rows],
        "Run.verdicts()": [*python, TABLE, "RUN", rows],
    }
    if options.steps:
        steps = {name: steps[name] for name in options.steps.split(",")}
    taken = {name: measured(name, step, scratch) for name, step in steps.items()}
    requests = scratch / "requests.json"
    verdicts = [path for path in (run / "audit").glob("verdicts*") for path in files_of(path)]
    found = {
        "rows": options.rows,
        "processors": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "load": [round(load, 1) for load in os.getloadavg()],
        "steps": taken,
        "seconds_of_requests": json.loads(requests.read_text()) if requests.is_file() else {},
        "megabytes": {
            "verdicts": megabytes(verdicts),
            "report": megabytes([run / "audit" / "report.html"]),
            "index of review": megabytes([run / "audit" / "index.sqlite"]),
        },
        "files_of_verdicts": len(verdicts),
        "versions": versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def files_of(path: Path) -> list[Path]:
    """A file, or those in a folder."""
    return sorted(path.iterdir()) if path.is_dir() else [path]


def megabytes(paths: list[Path]) -> float:
    """What files take together."""
    return round(sum(path.stat().st_size for path in paths if path.is_file()) / 2**20, 1)


def write_run(scratch: Path, rows: int) -> None:
    """A run folder as a scan of a manifest leaves it, without its report."""
    draw = np.random.default_rng(0)
    given = draw.integers(0, CLASSES, rows)
    (scratch / "pictures").mkdir(exist_ok=True)
    for number in range(PICTURES):
        pixels = draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(scratch / "pictures" / f"{number:03}.png")
    with (scratch / "manifest.csv").open("w", encoding="utf-8") as file:
        file.write("id,path,label\n")
        for row, label in enumerate(given.tolist()):
            file.write(f"row-{row:08},pictures/{row % PICTURES:03}.png,class-{label:02}\n")
    config, source = plan(scratch / "manifest.csv", method=SCAN, plant=0.0, model=DEFAULT_MODEL)
    source = source or open_source(config.data)
    folder = RunFolder(scratch / "RUN")
    with folder.locked():
        write_record(folder.samples, source)
        FeatureWriter(folder.features, source.ids, 0, {"model": "given"}).finish()
        judged = drawn_verdicts(source, draw)
        write_judgement(folder.audit, judged, source)
        position = draw.standard_normal((rows, 2), dtype=np.float32)
        write_map(folder.audit, FeatureMap(position, "pca"))
        folder.create(config, source, choose_device("cpu"))
        folder.write_summary({"method": SCAN, "model": DEFAULT_MODEL, **summary(config)})


def summary(config: Any) -> dict[str, Any]:
    """What the summary of a scan has besides."""
    data = config.data
    return {
        "data": data.name,
        "noise": data.noise,
        "rate": data.rate,
        "noise_seed": data.noise_seed,
        "seconds_total": 0.0,
        "device": "none: its verdicts are drawn",
        "versions": versions(),
    }


def drawn_verdicts(source: Source, draw: np.random.Generator) -> Judgement:
    """Verdicts and findings by chance."""
    rows = len(source)
    part = draw.random(rows, dtype=np.float32)
    group = np.full(rows, CLEAN, dtype=np.int8)
    group[part < MISLABELLED] = ID
    group[part > 1 - FOREIGN] = OOD
    rival = (source.given + draw.integers(1, CLASSES, rows)) % CLASSES
    right = draw.random(rows, dtype=np.float32) / 2
    p_clean = np.where(group == CLEAN, 1 - right, right)
    p_ood = np.where(group == OOD, 1 - p_clean, 0.0)
    nothing = np.zeros(0)
    reference = Reference(
        None, Confusion(nothing, nothing, 0.0), None, (0.0, 1.0), 0.9, np.linspace(0, 1, 1001)
    )
    verdicts = Verdicts(
        group, np.where(group == ID, rival, -1), rival, p_clean, p_ood,
        np.maximum(p_clean, 1 - p_clean), p_clean + 1e-7 * draw.random(rows), reference,
    )  # fmt: skip
    findings = Findings(
        visits=np.ones(rows, dtype=np.int16), support=p_clean, lead=2 * p_clean - 1, doubt=right,
        confidence=1 - right, label_share=p_clean, rival=rival, rival_share=1 - p_clean,
        features=p_clean, held=np.full(rows, PREDICTED, dtype=np.int8),
    )  # fmt: skip
    measures = {"planted": None, "estimated_precision": None, "estimated_recall": None}
    return Judgement(verdicts, findings, measures, MISLABELLED)


if __name__ == "__main__":
    main()
