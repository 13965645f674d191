"""``josrc demo``: wrong labels among pictures that a person can judge, or digits to train on."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from josrc._console import say
from josrc._reading import read_arrays
from josrc.engine.run_folder import free_name
from josrc.runs.run import Run
from josrc.runs.scan import scan
from josrc.runs.start import configure, start
from josrc.verdicts.table import VERDICT_TITLES

# Share of the pictures that get a wrong label, and how many rows of the table show what was found.
WRONG, SHOWN = 0.1, 12
# Of the training on digits.
NOISE, RATE = "symmetric", 0.5


def demo_pictures(out: Path | None, console: Console) -> Run:
    """Scan clip art of which every tenth label is wrong, and say how many of these were found."""
    folder = out or free_name(Path("runs") / "demo")
    classes = write_pictures(folder)
    wrong = {name for name, (given, label) in classes.items() if given != label}
    kinds = {label for _, label in classes.values()}
    say(
        console,
        f"{len(classes)} pictures of {len(kinds)} classes, {len(wrong)} of them under a wrong "
        f"label: {folder / 'pictures'}",
    )
    run = scan(folder / "pictures", out=folder / "run", overwrite=True, console=console)
    verdicts = run.verdicts().sort_values("score")
    rows = [
        (Path(row["path"]).name, row["suggested_label"] or "")
        for row in verdicts[verdicts["verdict"] != "clean"].to_dict("records")
    ]
    console.print(_doubted(rows[:SHOWN], classes))
    found = [(name, suggested) for name, suggested in rows if name in wrong]
    right = sum(classes[name][1] == suggested for name, suggested in found)
    say(
        console,
        f"{len(rows)} labels are accused, {len(found)} of them wrong in truth: {len(found)} of "
        f"{len(wrong)} were found, {right} with the right suggestion.\n"
        f"See them, in a browser: {run.path / 'audit' / 'report.html'}\n"
        f"Decide on them (extra review): josrc review {run.path}\n"
        "On images of your own: josrc scan FOLDER",
    )
    return run


def write_pictures(folder: Path) -> dict[str, tuple[str, str]]:
    """Write ``pictures/LABEL/NAME`` and ``truth.csv``; returns each name's given and true label."""
    random = np.random.default_rng(0)
    truth: dict[str, tuple[str, str]] = {}
    with zipfile.ZipFile(str(files("josrc.data") / "demo_pictures.zip")) as archive:
        names = archive.namelist()
        classes = sorted({Path(name).parent.name for name in names})
        wrong = set(random.choice(len(names), round(WRONG * len(names)), replace=False).tolist())
        for place, name in enumerate(names):
            label = Path(name).parent.name
            others = [other for other in classes if other != label]
            given = str(random.choice(others)) if place in wrong else label
            path = folder / "pictures" / given / Path(name).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
            truth[path.name] = given, label
    with (folder / "truth.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "truth"])
        for name, (given, label) in truth.items():
            writer.writerow([f"pictures/{given}/{name}", given, label])
    return truth


def _doubted(rows: Iterable[tuple[str, str]], classes: dict[str, tuple[str, str]]) -> Table:
    table = Table("picture", "label", "suggested", "in truth", title="The most suspicious labels")
    for name, suggested in rows:
        given, label = classes[name]
        table.add_row(Path(name).stem, given, suggested or "none of them", label)
    return table


def demo_digits(out: Path | None, epochs: int | None, console: Console) -> list[Run]:
    """Train Standard and Jo-SRC on ``digits-o`` under heavy noise and print a small table."""
    folder = out or free_name(Path("runs") / "demo")
    say(
        console,
        f"Digits 0 to 7, {RATE:.0%} of their labels wrong, all 8s and 9s mixed in out of "
        "distribution.",
    )
    runs = []
    for method in ("standard", "josrc"):
        config = configure("digits-o", noise=NOISE, rate=RATE, method=method, epochs=epochs)
        runs.append(start(config, folder / method, console=console))
    console.print(_table(runs))
    found = runs[-1].path / "audit"
    say(
        console,
        f"Every verdict with its reason: {found / 'verdicts.csv'}\n"
        f"See which digits it doubts, in a browser: {found / 'report.html'}\n"
        "On your own images: josrc train FOLDER",
    )
    return runs


def _table(runs: list[Run]) -> Table:
    table = Table(
        title="Test accuracy, and verdicts on the training samples (share of them correct)"
    )
    for column in ("method", "accuracy", *VERDICT_TITLES.values(), "seconds"):
        table.add_column(
            column.replace("_", " "), justify="left" if column == "method" else "right"
        )
    for run in runs:
        table.add_row(
            run.summary["method"],
            f"{run.summary['last10_mean']:.1f} %",
            *_verdicts(run),
            f"{run.summary['seconds_total']:.0f}",
        )
    return table


def _verdicts(run: Run) -> list[str]:
    """How many samples got each verdict, and what share of them rightly; the truth is known."""
    verdict = run.verdicts()["verdict"].to_numpy()
    kind = read_arrays(run.path / "noise.npz", needed=("kind",))["kind"]
    really = [kind[verdict == title] == group for group, title in VERDICT_TITLES.items()]
    return [f"{len(right)} ({100 * right.mean():.0f} %)" if len(right) else "0" for right in really]
