"""Shared by all tests: one thread a process, and small data in place of CIFAR-100."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run in Triton's interpreter


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum("browser" in report.keywords for report in skipped)
    if count:
        terminalreporter.write_line(
            f"NOT RUN: {count} browser tests, as there is no Chromium. On Debian and Ubuntu: "
            "apt install chromium",
            red=True,
            bold=True,
        )


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-100 shrunk to 200 training and 100 test images of 8x8 random pixels."""

    def read(root: object, train: bool) -> SimpleNamespace:
        generator = np.random.default_rng(int(train))
        count = 200 if train else 100
        return SimpleNamespace(
            data=generator.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8),
            targets=[i % 100 for i in range(count)],
            classes=[f"class {i}" for i in range(100)],
        )

    monkeypatch.setattr("josrc.data.cifar._read", read)


# What somebody may have called a class, and a file.
HOSTILE_CLASS, HOSTILE_FILE = "<img src=x onerror=alert(1)>", 'it\'s "quoted" <b>&amp;.png'
HOSTILE_REASON = "</script><script>alert(2)</script><!-- the end -->"


@pytest.fixture
def audited_run(tmp_path: Path) -> Callable[[], Path]:
    """Makes a run on nine images in files whose verdicts are known, without training anything.

    Three classes, one of them hostile. Images 0 to 3 are mislabelled, ever less certainly, 4 and 5
    out of distribution, 6 is borderline, 7 and 8 are clean.
    """
    from josrc.audit.files import COLUMNS, TITLES
    from josrc.engine.runfolder import RunFolder
    from josrc.runs import configure

    classes = ["cat", HOSTILE_CLASS, "dog"]
    # given label, verdict, suggested label, p_clean, p_ood, confidence
    found = [
        (0, 1, 1, 0.01, 0.00, 0.99),
        (1, 1, 2, 0.05, 0.00, 0.95),
        (2, 1, 0, 0.10, 0.00, 0.90),
        (0, 1, 2, 0.20, 0.00, 0.80),
        (1, 2, None, 0.10, 0.90, 0.90),
        (2, 2, None, 0.15, 0.85, 0.85),
        (0, 0, None, 0.55, 0.00, 0.55),
        (1, 0, None, 0.98, 0.00, 0.98),
        (2, 0, None, 0.99, 0.00, 0.99),
    ]

    def make() -> Path:
        rows = []
        for number, (given, verdict, suggested, *scores) in enumerate(found):
            name = HOSTILE_FILE if number == 1 else f"image {number}.png"
            path = tmp_path / "photos" / classes[given] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (60 + number, 40), (20 * number, 90, 120)).save(path)
            title = "" if suggested is None else classes[suggested]
            ident = path.relative_to(tmp_path / "photos")
            reason = HOSTILE_REASON if number == 1 else f"Reason {number}."
            rows.append((ident, path, classes[given], TITLES[verdict], title, *scores, reason))
        folder = RunFolder(tmp_path / "run")
        folder.path.mkdir()
        folder.config.write_text(configure(str(tmp_path / "photos"), epochs=3).to_yaml())
        folder.write_metrics(
            [{"epoch": e, "agreement": 50.0 + e, "n_clean": 9 - e, "n_id": e} for e in (1, 2, 3)]
        )
        folder.audit.mkdir()
        with (folder.audit / "verdicts.csv").open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
        counts = {"clean": 3, "mislabelled": 4, "out_of_distribution": 2}
        each = [(name, [row for row in rows if row[2] == name]) for name in classes]
        summary = {
            "samples": 9,
            "counts": counts,
            "noise_rate": 6 / 9,
            "classes": [
                {
                    "class": name,
                    "samples": len(own),
                    **{title: sum(row[3] == title for row in own) for title in counts},
                    "noise_rate": sum(row[3] != "clean" for row in own) / len(own),
                }
                for name, own in each
            ],
        }
        (folder.audit / "summary.json").write_text(json.dumps(summary))
        return folder.path

    return make
