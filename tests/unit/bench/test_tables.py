"""Tables, figures and RESULTS.md from hand-made results."""

from __future__ import annotations

from pathlib import Path

from bench_results import PutResult
from josrc.bench.figures import figures_of, lines_of, missing, write_figure
from josrc.bench.render import render
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS
from rendered import SYM20, page_of, shown


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
