"""Tables, figures and RESULTS.md from hand-made results."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from bench_results import PutResult
from josrc.bench.figures import figures_of, lines_of, missing, write_figure
from josrc.bench.render import VIEWS, render, show, write_results
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS
from josrc.errors import UserError

SYM20 = "table2/cifar80n-o-symmetric-0.2"


def page_of(root: Path) -> str:
    return render(load_results(root, FOLDERS))


def shown(suite: str, root: Path, width: int = 200) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    show(suite, root, console)
    return console.export_text()


def test_the_table_shows_mean_spread_count_and_difference(
    tmp_path: Path, put_result: PutResult
) -> None:
    for seed, accuracy in enumerate((65.0, 67.0)):
        put_result(f"{SYM20}/josrc/augmented", seed, last10_mean=accuracy)
    put_result(f"{SYM20}/josrc/plain", last10_mean=40.0)
    page = page_of(tmp_path)

    # mean 66, sample standard deviation sqrt(2), 66 - 65.83 = 0.17
    ours = "66.00 ± 1.41 (n=2)<br>paper 65.83 ± 0.13, +0.17"
    absent = "not run<br>paper 58.51 ± 0.08"
    assert f"| Jo-SRC | augmented | {ours} | {absent} |" in page
    assert "| Jo-SRC | plain | 40.00 (n=1)<br>paper 65.83 ± 0.13, -25.83 |" in page
    assert "| JoCoR | plain | not run<br>paper 53.01 ± 0.04 |" in page
    assert "| JoCoR | plain | not run<br>paper 59.99" not in page, "the paper has none there"
    assert f"| {SYM20}/josrc/plain/seed-0 | symmetric | 40.00 |" in page
    assert "66.00 ± 1.41 (n=2)" in shown("table2", tmp_path)


@pytest.mark.parametrize("suite", VIEWS)
@pytest.mark.parametrize("width", [80, 81, 93])
def test_a_note_is_whole_on_any_terminal(tmp_path: Path, suite: str, width: int) -> None:
    text = " ".join(shown(suite, tmp_path, width).split())
    for view_of in VIEWS[suite]:
        note = view_of(suite, load_results(tmp_path, FOLDERS)).note
        assert " ".join(note.split()) in text


def test_notes_beside_the_results_are_on_the_page(tmp_path: Path, put_result: PutResult) -> None:
    put_result(f"{SYM20}/josrc/augmented")
    (tmp_path / "notes.md").write_text("Seed 0 ran on a Tuesday.\n")
    write_results(tmp_path, tmp_path / "RESULTS.md")
    assert "\n\nSeed 0 ran on a Tuesday.\n\n## " in (tmp_path / "RESULTS.md").read_text()


def test_the_ablation_takes_two_rows_from_table_2(tmp_path: Path, put_result: PutResult) -> None:
    put_result(f"{SYM20}/standard/augmented", last10_mean=30.0)
    put_result(f"{SYM20}/josrc/augmented", last10_mean=66.0)
    put_result("ablation/cifar80n-o-symmetric-0.2/josrc/augmented-ci", last10_mean=61.0)
    page = page_of(tmp_path)
    assert "| Standard | 29.37 ± 0.09 | 30.00 (n=1) | +0.63 |" in page
    assert "| Jo-SRC-C | 57.12 ± 0.33 | not run |  |" in page
    assert "| Jo-SRC-CI | 61.32 ± 0.18 | 61.00 (n=1) | -0.32 |" in page
    assert "| Jo-SRC | 65.83 ± 0.13 | 66.00 (n=1) | +0.17 |" in page
    assert "61.00 (n=1)" in shown("ablation", tmp_path)


def test_a_folder_without_results_is_told(tmp_path: Path, put_result: PutResult) -> None:
    assert f"There are no results in {tmp_path}." in shown("table2", tmp_path).replace("\n", "")
    put_result(f"{SYM20}/josrc/augmented")
    assert "There are no results" not in shown("table2", tmp_path)


def test_selection_shows_the_last_epoch_and_the_best_in_both_senses(
    tmp_path: Path, put_result: PutResult
) -> None:
    metrics = {
        "epoch": [1, 2, 3, 4, 5],
        "test_accuracy": [10.0, 20.0, 40.0, 35.0, 30.0],
        # The second epoch is one of the warm-up, the third has too few.
        "id_precision": [None, 90.0, 60.0, 55.0, 50.0],
        "n_id": [0, 700, 499, 500, 800],
        "ood_precision": [None, None, None, None, 44.0],
        "n_ood": [0, 0, 0, 0, 1000],
    }
    put_result(f"{SYM20}/josrc/augmented", best_epoch=3, metrics=metrics, settings={"warm_up": 2})
    page = page_of(tmp_path)
    # Table 5, Sym-20: ID best 60.91, last 42.62; OOD best 59.54, last 54.38
    assert (
        "| Sym-20 | ID noisy | 50.00 (n=1)<br>paper 42.62, +7.38 "
        "| 60.00 (n=1)<br>paper 60.91, -0.91 "
        "| 55.00 (n=1)<br>paper 60.91, -5.91<br>of 500 selected |"
    ) in page
    assert (
        "| Sym-20 | out of distribution | 44.00 (n=1)<br>paper 54.38, -10.38 "
        "| none selected<br>paper 59.54 "
        "| 44.00 (n=1)<br>paper 59.54, -15.54<br>of 1,000 selected |"
    ) in page
    assert "| Sym-50 | ID noisy | not run<br>paper 65.92 |" in page
    assert "of 500 selected" in shown("selection", tmp_path)


def test_what_was_made_before_a_method_was_mended_has_a_row_of_its_own(
    tmp_path: Path, put_result: PutResult
) -> None:
    put_result("earlier/cifar80n-o-symmetric-0.2/pencil/augmented", last10_mean=63.0)
    put_result("earlier/cifar80n-o-symmetric-0.5/coteaching-plus/augmented", last10_mean=41.0)
    turned = {"labels_turned": 30.0, "turned_right": 80.0}
    put_result("others-o/cifar80n-o-symmetric-0.2/pencil/augmented", last10_mean=64.0, **turned)
    page = page_of(tmp_path)
    assert "| P-correction | 64.00 (n=1) | - | - | - | 30.0 (80.0) |" in page
    assert "| P-correction (earlier) | 63.00 (n=1) | - | - | - | - |" in page
    assert "| Co-teaching+ | augmented | not run<br>paper 53.97 ± 0.26 |" in page
    earlier = "41.00 (n=1)<br>paper 46.75 ± 0.14, -5.75"
    row = f"| Co-teaching+ (earlier) | augmented | not run<br>paper 53.97 ± 0.26 | {earlier} |"
    assert row in page
    assert "Jo-SRC (earlier)" not in page


def test_steps_with_a_pass_for_each_view_stand_beside_those_with_one(
    tmp_path: Path, put_result: PutResult
) -> None:
    cell = "cifar80n-o-symmetric-0.2/josrc"
    put_result(f"ablation/{cell}/augmented-cio", last10_mean=63.5)
    put_result(f"ablation-apart/{cell}/augmented-cio", last10_mean=64.25)
    page = page_of(tmp_path)
    assert "| Jo-SRC-CIO | 63.10 ± 0.07 | 63.50 (n=1) | 64.25 (n=1) | +0.75 |" in page
    assert "| Jo-SRC-C | 57.12 ± 0.33 | not run | not run |  |" in page


def test_the_digits_suite_shows_accuracy_and_the_last_epochs_precision(
    tmp_path: Path, put_result: PutResult
) -> None:
    place = "digits/digits-o-symmetric-0.5"
    for seed, precision in enumerate((80.0, 90.0)):
        metrics = {"epoch": [1, 2], "test_accuracy": [1, 2], "clean_precision": [1.0, precision]}
        put_result(f"{place}/josrc/augmented", seed, last10_mean=97.0 + seed, metrics=metrics)
    put_result(f"{place}/standard/augmented")
    page = page_of(tmp_path)
    # mean 97.5, sample standard deviation sqrt(0.5), mean precision 85
    assert "| Jo-SRC | 97.50 ± 0.71 (n=2) | 85.0 | - | - | - |" in page
    assert "| Standard | 50.00 (n=1) | - | - | - | - |" in page
    assert "| JoCoR | not run | - | - | - | - |" in page


def test_tables_3_and_4_show_what_was_run_beside_the_paper(
    tmp_path: Path, put_result: PutResult
) -> None:
    place = "table3/clothing1m-none-0/josrc"
    for seed, chosen in enumerate((71.0, 72.0)):
        put_result(f"{place}/released", seed, val_chosen=chosen, final=70.0, best=73.0)
    put_result("table4/food101n-none-0/cleannet/resnet50-soft", final=84.0, best=84.5)
    page = page_of(tmp_path)
    assert "| Co-teaching+ | ResNet-18 | 59.32 | not run |  |  |  |" in page
    # 71.5 by validation, the paper has 71.78
    assert (
        "| Jo-SRC (released) | ResNet-18 | 71.78 | 71.50 ± 0.71 (n=2) | -0.28 | 70.00 ± 0.00 (n=2) "
        "| 73.00 ± 0.00 (n=2) |"
    ) in page
    assert "| CleanNet hard | ResNet-50 | 83.47 | not run |  |  |  |" in page
    soft = "| CleanNet soft | ResNet-50 | 83.95 | 84.00 (n=1) | +0.05 | 84.00 (n=1) | 84.50 (n=1) |"
    assert soft in page
    assert "75.93" in shown("table3", tmp_path)


def test_an_unknown_table_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Unknown suite 'table7'"):
        shown("table7", tmp_path)


def test_files_that_are_no_results_are_named_and_skipped(
    tmp_path: Path, put_result: PutResult
) -> None:
    folder = put_result(f"{SYM20}/josrc/augmented", last10_mean=66.0).parent
    (folder / "seed-2.json").write_text("{ not json")
    (folder / "notes.txt").write_text("someone's notes")
    (folder / "seed-3.json").write_bytes(b"\xff\xfe")
    (folder / "seed-4.json").write_text("[1, 2]")
    put_result(f"{SYM20}/josrc/augmented", 5, last10_mean="high")
    put_result(f"{SYM20}/josrc/augmented", 6, metrics={"epoch": [1], "test_accuracy": [1.0, 2.0]})
    good = (folder / "seed-0.json").read_text()
    elsewhere = (
        *("josrc/seed-7.json", "josrc/augmented/seed-8.json", "jocor/augmented/seed-0.json"),
        *("josrc/plain/seed-0.json", "../cifar80n-o-symmetric-0.5/josrc/augmented/seed-0.json"),
    )
    for name in elsewhere:
        path = tmp_path / SYM20 / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(good)
    (folder / "seed-9.json.partial").write_text("{")  # is just being written
    page = page_of(tmp_path)

    assert "66.00 (n=1)<br>paper 65.83" in page
    skipped = [line for line in page.splitlines() if "not a result" in line]
    names = ["notes.txt", *(f"seed-{seed}.json" for seed in (2, 3, 4, 5, 6))]
    names += [name.removeprefix("../") for name in elsewhere]
    assert len(skipped) == len(names)
    assert all(any(name in line for line in skipped) for name in names)
    assert "last10_mean: Input should be a valid number" in page
    assert "skipped " in shown("table2", tmp_path)
    results = load_results(tmp_path, FOLDERS)
    accuracy = figures_of(results)[0]
    josrc = lines_of(accuracy, accuracy.panels[0], results)[-1]
    assert (josrc.entry.method, josrc.runs) == ("josrc", 1)


def two_seeds(put_result: PutResult) -> None:
    """Three epochs of two runs; the second failed before its third."""
    for seed, accuracies in enumerate(([10.0, 20.0, 30.0], [12.0, 26.0])):
        epochs = list(range(1, len(accuracies) + 1))
        metrics = {"epoch": epochs, "test_accuracy": accuracies, "fit_id": [None, 5.0, 6.0]}
        metrics["fit_id"] = metrics["fit_id"][: len(epochs)]
        put_result(f"{SYM20}/josrc/augmented", seed, metrics=metrics)


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


def test_rendering_twice_gives_the_same_bytes(
    tmp_path: Path, put_result: PutResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Drawing takes the time here, and other tests draw.
    monkeypatch.setattr("josrc.bench.figures._draw", lambda figure, drawn, path: path.touch())
    two_seeds(put_result)
    page = tmp_path / "RESULTS.md"
    write_results(tmp_path, page)
    files = [page, *sorted((tmp_path / "figures").iterdir())]
    before = [file.read_bytes() for file in files]
    write_results(tmp_path, page)
    assert [file.read_bytes() for file in files] == before
    pictures = {file.stem for file in files if file.suffix == ".png"}
    assert pictures == {
        *("fig3-cifar80n-o", "fig4-cifar80n-o", "fig5-cifar80n-o"),
        *("fig3-cifar100n-c", "fig4-cifar100n-c"),
    }
    for name in pictures:
        assert f"](figures/{name}.png)" in page.read_text()
        assert f"](figures/{name}.csv)" in page.read_text()


def test_posterior_has_a_figure_beside_josrc_once_it_was_run(
    tmp_path: Path, put_result: PutResult
) -> None:
    cell = "cifar100n-c-symmetric-0.8"
    metrics = {"metrics": {"epoch": [1, 2], "test_accuracy": [20.0, 40.0]}}
    put_result(f"ours/{cell}/posterior/short", epochs=100, **metrics)
    assert not [f for f in figures_of(load_results(tmp_path, FOLDERS)) if f.number is None]
    put_result(f"ours/{cell}/posterior/augmented", **metrics)
    put_result(f"table1/{cell}/josrc/augmented", **metrics)
    put_result(f"table1/{cell}/standard/augmented", **metrics)
    results = load_results(tmp_path, FOLDERS)
    (figure,) = (f for f in figures_of(results) if f.number is None)
    assert figure.name == "ours-cifar100n-c"
    assert figure.title == "Test accuracy of Posterior on CIFAR100N-C (not in the paper)"
    panel = next(p for p in figure.panels if p.key == "symmetric-0.8")
    lines = {line.entry.method: line for line in lines_of(figure, panel, results)}
    assert lines.keys() == {"posterior", "dividemix", "josrc"}
    assert [point.mean for point in lines["posterior"].points] == [20, 40]
    assert missing(list(lines.values())) == "not run: DivideMix"
    write_figure(figure, results, tmp_path)
    assert (tmp_path / "ours-cifar100n-c.png").is_file()
    page = render(results)
    assert "| Posterior | 200 | not run | not run | 50.00 (n=1) | not run |" in page
    assert "### Test accuracy of Posterior on CIFAR100N-C (not in the paper)" in page
    assert "## Posterior and its peers on cifar10n (not in the paper)" in page
