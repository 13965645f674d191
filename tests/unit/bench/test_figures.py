"""Figures and their CSV files."""

from __future__ import annotations

import csv
from pathlib import Path

from bench_results import PutResult
from josrc.bench.figures import figures_of, lines_of, missing, write_figure
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS
from rendered import page_of, two_seeds


def csv_of(root: Path, name: str) -> list[dict[str, str]]:
    with (root / "figures" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_figures_csv_holds_the_mean_over_seeds_and_what_is_missing(
    tmp_path: Path, put_result: PutResult
) -> None:
    two_seeds(put_result)
    results = load_results(tmp_path, FOLDERS)
    for figure in figures_of(results):
        if figure.name in ("fig3-cifar80n-o", "fig5-cifar80n-o"):
            write_figure(figure, results, tmp_path / "figures")
    assert (tmp_path / "figures/fig3-cifar80n-o.png").stat().st_size > 5000
    rows = csv_of(tmp_path, "fig3-cifar80n-o")
    ours = [row for row in rows if (row["panel"], row["method"]) == ("symmetric-0.2", "josrc")]
    # (10 + 12) / 2 with spread sqrt(2); (20 + 26) / 2 with sqrt(18); the third has one run
    assert [tuple(row.values())[3:] for row in ours] == [
        ("1", "11.0000", "1.4142", "2"),
        ("2", "23.0000", "4.2426", "2"),
        ("3", "30.0000", "", "1"),
    ]
    absent = [row for row in rows if (row["panel"], row["method"]) == ("symmetric-0.2", "jocor")]
    assert [row["runs"] for row in absent] == ["0"]
    groups = csv_of(tmp_path, "fig5-cifar80n-o")
    fits = [row for row in groups if (row["panel"], row["method"]) == ("fit_id", "josrc")]
    assert [(row["epoch"], row["mean"]) for row in fits] == [("2", "5.0000"), ("3", "6.0000")]


def test_a_panel_names_what_is_missing(tmp_path: Path, put_result: PutResult) -> None:
    two_seeds(put_result)
    results = load_results(tmp_path, FOLDERS)
    names = ("fig3-cifar80n-o", "fig4-cifar80n-o")
    accuracy, precision = (f for f in figures_of(results) if f.name in names)
    notes = [missing(lines_of(accuracy, panel, results)) for panel in accuracy.panels[:2]]
    others = "not run: Standard, Decoupling, Co-teaching, Co-teaching+, JoCoR"
    assert notes == [others, f"{others}, Jo-SRC"]
    note = missing(lines_of(precision, precision.panels[0], results))
    assert note.startswith("not run: Decoupling, "), "Standard selects nothing"
    assert note.endswith("; without this number: Jo-SRC")


def test_the_plain_recipe_has_figures_of_its_own_once_it_was_run(
    tmp_path: Path, put_result: PutResult
) -> None:
    assert "recipe plain (as Fig." not in page_of(tmp_path)
    metrics = {"epoch": [1], "test_accuracy": [7.0]}
    put_result("table1/cifar100n-c-asymmetric-0.4/jocor/plain", noise="block", metrics=metrics)
    results = load_results(tmp_path, FOLDERS)
    (figure,) = (f for f in figures_of(results) if f.name == "fig3-cifar100n-c-plain")
    write_figure(figure, results, tmp_path / "figures")
    rows = csv_of(tmp_path, figure.name)
    assert {row["method"] for row in rows} == {
        *("standard", "decoupling", "coteaching", "coteaching-plus", "jocor")
    }
    assert [row["mean"] for row in rows if row["mean"]] == ["7.0000"]
    page = page_of(tmp_path)
    assert "recipe plain (as Fig. 3 of the paper). Last epoch, in %. Sym-20: not run; " in page
    assert "Asym-40: JoCoR 7](results/figures/fig3-cifar100n-c-plain.png)" in page
    assert "jocor/plain/seed-0 | block |" in page
