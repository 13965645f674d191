"""Tables and calibration curves of an audit, from hand-made results."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from audit_results import put, run_with, tenth
from josrc.bench.audit_tables import audit_table, format_rate, percent, three_verdicts_table
from josrc.bench.calibration_figure import calibration_curves
from josrc.bench.plan import AUDIT_CELLS, WITH_FOREIGN
from josrc.bench.render import render, show, write_results
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS

NOTHING_WRONG = ("precision_wrong", "recall_wrong", "f1_wrong", "average_precision_wrong")


def rows_of(root: Path) -> dict[tuple[str, str], dict[str, str]]:
    view = audit_table("audit", load_results(root, FOLDERS))
    named = [dict(zip(view.header, row, strict=True)) for row in view.rows]
    return {(row["data"], row["side"].partition("\n")[0]): row for row in named}


def test_a_row_has_means_over_seeds_and_what_each_side_says(tmp_path: Path) -> None:
    cell = "cifar100n-c-symmetric-0.05"
    for seed, precision in enumerate((0.8, 0.9)):
        said = {"noise_rate_estimated": 0.06, "noise_rate_low": 0.04, "noise_rate_high": 0.09}
        put(tmp_path, cell, "josrc", seed, noise_rate=0.05, precision_wrong=precision, **said)
    put(tmp_path, cell, "cleanlab", noise_rate=0.05, noise_rate_estimated=0.3, sure_right=None)
    rows = rows_of(tmp_path)
    ours, theirs = (rows["cifar100n-c\nSym-5", side] for side in ("josrc", "cleanlab"))
    # The mean of 80 and 90, sample standard deviation 10 / sqrt(2)
    assert ours["of these wrong"] == "85.0\n±7.1"
    assert (ours["side"], theirs["side"]) == ("josrc\nn=2", "cleanlab\nn=1")
    assert ours["wrong labels"] == theirs["wrong labels"] == "5.0"
    assert (ours["estimated noise rate"], theirs["estimated noise rate"]) == (
        "6.0\n4.0 to 9.0",
        "30.0",
    )
    assert (theirs["sure: right"], theirs["seconds"]) == ("-", "120")
    page = render(load_results(tmp_path, FOLDERS))
    assert "| cifar100n-c<br>Sym-5 | cleanlab<br>n=1 | 5.0 | - | - |" in page


def test_a_clean_cell_is_called_clean_and_has_dashes_where_nothing_is_to_be_found(
    tmp_path: Path,
) -> None:
    nothing = dict.fromkeys(NOTHING_WRONG)
    put(tmp_path, "cifar10n-none-0", "josrc", noise_rate=0, accused=0.002, **nothing)
    row = rows_of(tmp_path)["cifar10n\nclean", "josrc"]
    assert (row["wrong labels"], row["accused"]) == ("0.0", "0.2")
    assert {row[name] for name in ("of these wrong", "of the wrong found", "F1", "AP")} == {"-"}
    assert "own noise" not in "".join(row.values())


def test_what_was_not_run_is_said_so_and_every_cell_has_a_row_for_each_side(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    assert len(rows) == 2 * sum(map(len, AUDIT_CELLS.values()))
    for row in rows.values():
        assert row["side"].endswith("\nnot run")
        assert not any(list(row.values())[2:])
    put(tmp_path, "look-alikes-pairs-0.1", "josrc", noise_rate=0.1)
    rows = rows_of(tmp_path)
    assert rows["look-alikes\npairs-10", "josrc"]["side"] == "josrc\nn=1"
    assert rows["look-alikes\npairs-10", "cleanlab"]["side"] == "cleanlab\nnot run"


def test_three_verdicts_are_shown_where_images_are_foreign(tmp_path: Path) -> None:
    put(tmp_path, "cifar80n-o-symmetric-0.2", "cleanlab", f1_out_of_distribution=0.1, auroc_ood=0.6)
    view = three_verdicts_table("audit", load_results(tmp_path, FOLDERS))
    assert {row[0].partition("\n")[0] for row in view.rows} == set(WITH_FOREIGN)
    row = dict(zip(view.header, view.rows[1], strict=True))
    assert (
        row["F1: out of distribution"],
        row["AUROC: out of distribution"],
        row["F1: clean"],
    ) == ("10.0", "60.0", "-")


def test_a_seed_without_a_number_does_not_count_as_nought() -> None:
    runs = [run_with(precision_wrong=0.5), run_with(precision_wrong=None)]
    assert percent(runs, "precision_wrong") == "50.0"
    assert format_rate([run_with(noise_rate_estimated=0.2, noise_rate_low=None)]) == "20.0"


@pytest.mark.parametrize("width", [80, 100, 140, 220])
def test_a_narrow_terminal_cuts_no_number(tmp_path: Path, width: int) -> None:
    keys = ("noise_rate", "accused", "first_500_right", "sure_reached", "auroc_ood_of_predictions")
    for seed in range(2):
        put(tmp_path, "digits-o-symmetric-0.3", "josrc", seed, **dict.fromkeys(keys, 1.0))
    console = Console(record=True, width=width, file=io.StringIO())
    show("audit", tmp_path, console)
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert text.count("100.0") == 5
    for word in ("accused", "suggestion", "reached", "seconds", "mislabelled", "predictions"):
        assert word in text


def test_the_page_shows_calibration_once_there_is_any(tmp_path: Path) -> None:
    put(tmp_path, "cifar100n-c-none-0", "cleanlab", noise_rate=0)
    results = load_results(tmp_path, FOLDERS)
    assert calibration_curves(results) == []
    assert "calibration.png" not in render(results)
    put(tmp_path, "cifar100n-c-none-0", "josrc", **tenth("0.9", 1.0, 0.99, 1.0))
    assert "](results/figures/calibration.png)" in render(load_results(tmp_path, FOLDERS))


def test_rendering_writes_the_picture_that_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("figures", "calibration_figure"):  # drawing takes the time
        monkeypatch.setattr(f"josrc.bench.{module}._draw", lambda *rest: rest[-1].touch())
    put(tmp_path, "digits-o-symmetric-0.3", "josrc", **tenth("0.9", 1.0, 0.99, 1.0))
    write_results(tmp_path, tmp_path / "RESULTS.md")
    page = (tmp_path / "RESULTS.md").read_text()
    for ending in ("png", "csv"):
        assert f"](figures/calibration.{ending})" in page
        assert (tmp_path / f"figures/calibration.{ending}").is_file()
