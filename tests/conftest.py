"""Shared by all tests: one thread a process, and small data in place of CIFAR-100."""

from __future__ import annotations

import atexit
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run in Triton's interpreter
# What josrc remembers of a user on a machine is forgotten with the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="josrc-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
# A shell starts a background job with Ctrl-C ignored, and what a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    absent = sum("label_studio" in report.keywords for report in skipped)
    if absent:
        terminalreporter.write_line(
            f"NOT RUN: {absent} tests with Label Studio, as there is none. In an environment of "
            "its own: pip install label-studio; then JOSRC_LABEL_STUDIO=ENV/bin/label-studio",
            red=True,
            bold=True,
        )
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
    """CIFAR shrunk to 200 training and 100 test images of 8x8 random pixels."""

    def read(root: object, train: bool, classes: int) -> SimpleNamespace:
        generator = np.random.default_rng(int(train))
        count = 200 if train else 100
        return SimpleNamespace(
            data=generator.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8),
            targets=[i % classes for i in range(count)],
            classes=[f"class {i}" for i in range(classes)],
        )

    monkeypatch.setattr("josrc.data.datasets.cifar.read_cifar", read)


# What somebody may have called a class, and a file.
HOSTILE_CLASS, HOSTILE_FILE = "<img src=x onerror=alert(1)>", 'it\'s "quoted" <b>&amp;.png'
HOSTILE_REASON = "</script><script>alert(2)</script><!-- the end -->"


def in_order(source: Any, ids: list[str], given: list[int], classes: list[str]) -> Any:
    """A source of images in files, its samples and classes in another order."""
    known = list(source.ids)
    order = np.array([known.index(name) for name in ids])
    return replace(source.take(order), given=np.array(given), class_names=classes)


@pytest.fixture
def audited_run(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run on nine images in files whose verdicts are known, without training anything.

    Three classes, one of them hostile. Images 0 to 3 are mislabelled, ever less certainly, 4 and 5
    out of distribution, 6 is borderline, 7 and 8 are clean.
    """
    from josrc.engine.run_folder import RunFolder
    from josrc.runs.snapshot import write_record
    from josrc.runs.start import plan
    from josrc.verdicts.table import VERDICT_COLUMNS, VERDICT_TITLES

    # given label, verdict, suggested label, p_clean, p_ood, confidence, score
    found = [
        (0, 1, 1, 0.01, 0.00, 0.99, -4.61),
        (1, 1, 2, 0.05, 0.00, 0.95, -3.00),
        (2, 1, 0, 0.10, 0.00, 0.90, -2.30),
        (0, 1, 2, 0.20, 0.00, 0.80, -2.20),
        (1, 2, None, 0.10, 0.90, 0.90, -1.90),
        (2, 2, None, 0.15, 0.85, 0.85, -1.80),
        (0, 0, None, 0.55, 0.00, 0.55, -0.60),
        (1, 0, None, 0.98, 0.00, 0.98, -0.02),
        (2, 0, None, 0.99, 0.00, 0.99, -0.01),
    ]

    def make(third: str = "dog") -> Path:
        classes, folders, rows = ["cat", HOSTILE_CLASS, third], ["cat", HOSTILE_CLASS, "dog"], []
        for number, (given, verdict, suggested, *scores) in enumerate(found):
            name = HOSTILE_FILE if number == 1 else f"image {number}.png"
            path = tmp_path / "photos" / folders[given] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (60 + number, 40), (20 * number, 90, 120)).save(path)
            title = "" if suggested is None else classes[suggested]
            ident = path.relative_to(tmp_path / "photos")
            reason = HOSTILE_REASON if number == 1 else f"Reason {number}."
            rows.append(
                (ident, path, classes[given], VERDICT_TITLES[verdict], title, *scores, reason)
            )
        folder = RunFolder(tmp_path / "run")
        folder.path.mkdir()
        config, source = plan(str(tmp_path / "photos"), epochs=3)
        ids = [str(row[0]) for row in rows]
        write_record(folder.samples, in_order(source, ids, [one[0] for one in found], classes))
        folder.config.write_text(config.to_yaml())
        folder.write_metrics(
            [{"epoch": e, "agreement": 50.0 + e, "n_clean": 9 - e, "n_id": e} for e in (1, 2, 3)]
        )
        folder.audit.mkdir()
        with (folder.audit / "verdicts.csv").open("w", newline="") as file:
            csv.writer(file).writerows([VERDICT_COLUMNS, *rows])
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


HOSTILE = "<img src=x onerror=document.title='hacked'>"
CLASSES = (HOSTILE, "cat", "dog")
COLOURS = {HOSTILE: (200, 40, 40), "cat": (40, 200, 40), "dog": (40, 40, 200)}


@pytest.fixture
def reviewed(tmp_path: Path) -> Path:
    """A run that never was: 24 images of three classes, and verdicts made up by hand.

    Rows 0 to 7 have the hostile label, 8 to 15 ``cat``, 16 to 23 ``dog``. Of each eight the first
    four are mislabelled as the next class, with falling confidence, then one is out of
    distribution, and three are clean. Scores go from the surest verdict against a label to the
    surest clean one. The first image of ``cat`` has quotes in its name.
    """
    from josrc._console import Terminal
    from josrc.engine.run_folder import RunFolder
    from josrc.runs.data import read_images
    from josrc.runs.snapshot import write_record
    from josrc.runs.start import plan
    from josrc.verdicts.table import VERDICT_COLUMNS

    photos = tmp_path / "photos"
    for name in CLASSES:
        (photos / name).mkdir(parents=True)
        for number in range(8):
            title = "0 'q\" <b>.png" if name == "cat" and number == 0 else f"{number}.png"
            Image.new("RGB", (40, 30), COLOURS[name]).save(photos / name / title)
    config, source = plan(str(photos), model="cnn7", workers=0, method="standard")
    assert source is not None
    source = read_images(source, config, Terminal(quiet=True))
    folder = RunFolder(tmp_path / "run")
    write_record(folder.samples, source)
    folder.create(config, source, torch.device("cpu"))
    folder.audit.mkdir()
    with (folder.audit / "verdicts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(VERDICT_COLUMNS)
        for row in range(24):
            name, number = CLASSES[row // 8], row % 8
            verdict = "mislabelled" if number < 4 else "clean"
            verdict = "out_of_distribution" if number == 4 else verdict
            other = CLASSES[(row // 8 + 1) % 3] if number < 4 else ""
            sure = 0.99 - 0.1 * number - 0.01 * (row // 8)
            score = sure - 1 if verdict == "clean" else -1 - sure
            numbers = ["0.1", "0.2", f"{sure:.4f}", f"{score:.9g}"]
            line = [name, verdict, other, *numbers, f"Because of {name}."]
            writer.writerow([source.ids[row], source.paths[row], *line])
    return folder.path


@pytest.fixture
def with_copies(reviewed: Path) -> Path:
    """Images 0 and 8 show the same, and so do 1 and 9, nearly; the labels differ."""
    from josrc.data.duplicates import Duplicate
    from josrc.verdicts.duplicates import write_duplicates

    copies = [
        Duplicate(group, "training", row, f"{row}.png", "", "", kind, alike)
        for group, (rows, kind, alike) in enumerate([((0, 8), "exact", 1.0), ((1, 9), "near", 0.9)])
        for row in rows
    ]
    write_duplicates(reviewed / "audit" / "duplicates.csv", copies)
    return reviewed


@pytest.fixture
def serving() -> Iterator[Callable[..., tuple[Any, str]]]:
    """Starts real servers, ``josrc review RUN``: gives the process and the address it prints."""
    started: list[subprocess.Popen[str]] = []

    def serve(run: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "josrc", "review", str(run), *options]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(server)
        assert server.stdout is not None
        for line in server.stdout:
            if "http://" in line:
                return server, line[line.index("http://") :].strip()
        raise AssertionError("the server printed no address")

    yield serve
    for server in started:
        server.send_signal(signal.SIGKILL)
        server.communicate()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 digits as coloured PNG files of 20 x 24 pixels, in folders ``zero`` to ``three``."""
    root = tmp_path_factory.mktemp("pictures")
    data = load_digits(n_class=4)
    for number in range(120):
        grey = np.kron(data.images[number] * 15.9, np.ones((3, 3)))[:, :20]
        colour = np.stack([grey, 255 - grey, grey / 2], axis=2).astype(np.uint8)
        path = root / ("zero", "one", "two", "three")[data.target[number]] / f"{number:03}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(colour).save(path)
    return root


@pytest.fixture(scope="session")
def finished(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the pictures. Nobody may change it."""
    import josrc

    run = tmp_path_factory.mktemp("finished") / "run"
    options = {"method": "standard", "epochs": 3, "batch_size": 16, "device": "cpu", "val": 0.2}
    return josrc.train(str(pictures), out=run, **options).path


# What these test is the choice of a network, or what a pretrained one gives; and near copies.
PRETRAINED = (
    *("test_pretrained", "test_published", "test_network", "test_pace", "test_frozen", "test_docs"),
    *(
        "test_scan",
        "test_scan_copies",
        "test_features",
        "test_feature_file",
        "test_own_predictions",
    ),
)
COPIES = (
    *("test_pairs", "test_alignment", "test_sketches", "test_candidates", "test_duplicates"),
    *("test_report", "test_page", "test_gallery", "test_overview", "test_thumbnails"),
    *("test_scan_copies", "test_docs"),
)


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own images are trained with cnn7, as without pretrained weights, and not compared.

    Both take seconds, and drawn pictures that are nearly alike are compared for longest.
    """
    from josrc.data.near.pairs import NO_PAIRS

    if request.path.stem not in PRETRAINED:
        monkeypatch.setattr("josrc.runs.network.is_pretrained_at_hand", lambda name: False)
    if request.path.stem not in COPIES:
        compare = "josrc.data.duplicates.find_near_pairs"
        monkeypatch.setattr(compare, lambda sketches, images, chosen: NO_PAIRS)
