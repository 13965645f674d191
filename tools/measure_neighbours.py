"""What it costs to find the neighbours of very many rows: our cells beside faiss and usearch.

    pip install faiss-cpu usearch
    python tools/measure_neighbours.py --rows 100000 --out results/scan/neighbours.json

Features are those of ``measure_large_scan.py``: drawn around the centres of classes that overlap,
which is harder than features of pictures. Each way looks for the 40 nearest of all rows, on one
thread; told are the seconds of the processor (a machine that is shared counts for little then), and
the share of the 40 nearest of 500 rows that it finds. Ways that would take long are timed on a part
of the rows and multiplied, which the file says. faiss gets as many cells; the graph has the
settings that its makers propose.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measure_large_scan import AXES, CLASSES, DISTANCE

from josrc.engine.run_folder import versions
from josrc.verdicts import neighbours

NEIGHBOURS, ASKED, WIDTH = 40, 500, 384
FAISS_PROBED = (4, 8, 16)
# Of all rows, the share that slow ways are timed on.
PART = 10
Rows = NDArray[np.float32]
Found = tuple[NDArray[Any], dict[str, float]]


def main() -> None:
    """Draw rows, search them in every way, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    vectors = neighbours.directions(drawn(options.rows))
    asked = np.random.default_rng(1).choice(options.rows, ASKED, replace=False)
    near = vectors[asked] @ vectors.T
    near[np.arange(ASKED), asked] = -np.inf
    exact = np.argpartition(-near, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    ways: dict[str, Callable[[Rows, NDArray[Any]], Found]] = {
        "josrc, cells": by_cells,
        **{f"faiss, IndexIVFFlat, {n} cells": partial(by_faiss, probed=n) for n in FAISS_PROBED},
        "usearch, graph": by_usearch,
    }
    found = {}
    for name, way in ways.items():
        nearest, seconds = way(vectors, asked)
        recall = np.mean(
            [len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(exact, nearest, strict=True)]
        )
        found[name] = seconds | {"recall": round(float(recall), 3)}
        print(name, found[name], flush=True)
    report = {
        "rows": options.rows,
        "width": WIDTH,
        "neighbours": NEIGHBOURS,
        "cells_probed": neighbours.PROBED_CELLS,
        "rows_per_cell": neighbours.CELL_SIZE,
        "ways": found,
        "versions": versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def drawn(rows: int) -> Rows:
    """Features around the centres of classes."""
    draw = np.random.default_rng(0)
    centres = np.zeros((CLASSES, WIDTH), dtype=np.float32)
    centres[:, :AXES] = DISTANCE * draw.standard_normal((CLASSES, AXES))
    spread = np.full(WIDTH, 0.5, dtype=np.float32)
    spread[:AXES] = 1
    noise = spread * draw.standard_normal((rows, WIDTH), dtype=np.float32)
    return centres[draw.integers(0, CLASSES, rows)] + noise


def spent() -> float:
    """Seconds that the processors have worked for this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def by_cells(vectors: Rows, asked: NDArray[Any]) -> Found:
    """As a scan of very many images does it."""
    begun = spent()
    found = neighbours.nearest_neighbours(vectors, NEIGHBOURS, exact=False)
    return found.index[asked], {"seconds": round(spent() - begun, 1)}


def by_faiss(vectors: Rows, asked: NDArray[Any], probed: int) -> Found:
    """An inverted file: as many cells, and so many of them looked into."""
    import faiss

    faiss.omp_set_num_threads(1)
    begun = spent()
    cells = max(1, len(vectors) // neighbours.CELL_SIZE)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(WIDTH), WIDTH, cells, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    index.nprobe = probed
    built = spent()
    index.search(vectors[: len(vectors) // PART], NEIGHBOURS + 1)
    seconds = built - begun + PART * (spent() - built)
    found = index.search(vectors[asked], NEIGHBOURS + 1)[1]
    return others(found, asked), {"seconds": round(seconds, 1), "searched": 1 / PART}


def by_usearch(vectors: Rows, asked: NDArray[Any]) -> Found:
    """A graph of neighbours."""
    from usearch.index import Index

    begun = spent()
    index = Index(ndim=WIDTH, metric="ip", dtype="f16")
    index.add(np.arange(len(vectors)), vectors, threads=1)
    built = spent()
    index.search(vectors[: len(vectors) // PART], NEIGHBOURS + 1, threads=1)
    seconds = built - begun + PART * (spent() - built)
    found = index.search(vectors[asked], NEIGHBOURS + 1, threads=1).keys
    return others(found, asked), {"seconds": round(seconds, 1), "searched": 1 / PART}


def others(found: NDArray[Any], asked: NDArray[Any]) -> NDArray[Any]:
    """What was found of each row without the row itself."""
    return np.array([
        [int(row) for row in near if row != own][:NEIGHBOURS]
        for near, own in zip(found, asked, strict=True)
    ])  # fmt: skip


if __name__ == "__main__":
    main()
