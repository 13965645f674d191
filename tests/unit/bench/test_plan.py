"""The paper's numbers, the suites' runs, and what each run asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc.bench.paper import (
    ASYM40,
    CELLS,
    SYM20,
    TABLES,
    Cell,
)
from josrc.bench.plan import EARLIER, GROUPS, SUITES, find_suite, plan_runs, request
from josrc.bench.results import AUDIT, ResultKey, load_results
from josrc.bench.tables import FOLDERS
from josrc.errors import UserError
from josrc.runs.start import configure


def test_seeds_go_round_by_round_so_that_every_cell_has_a_number_first() -> None:
    seeds = [key.seed for key in plan_runs("table1", ["josrc"], None, 2)]
    assert seeds == [0] * 4 + [1] * 4


def test_other_methods_run_on_cifar_beside_two_runs_of_its_table() -> None:
    for suite, table, data in (
        ("others-c", "table1", "cifar100n-c"),
        ("others-o", "table2", "cifar80n-o"),
    ):
        keys = plan_runs(suite, None, None, 1)
        assert {key.suite for key in keys} == {suite, table}
        assert {key.method for key in keys if key.suite == table} == {"standard", "josrc"}
        assert len(keys) == 12
        assert {(key.data, key.cell.key) for key in keys} == {(data, "symmetric-0.2")}


def test_the_ablation_has_five_rows_of_one_cell_and_shares_two_with_table_2() -> None:
    paths = [key.path.as_posix() for key in plan_runs("ablation", None, None, 1)]
    cell = "cifar80n-o-symmetric-0.2"
    assert paths == [
        f"table2/{cell}/standard/augmented/seed-0.json",
        f"ablation/{cell}/josrc/augmented-c/seed-0.json",
        f"ablation/{cell}/josrc/augmented-ci/seed-0.json",
        f"ablation/{cell}/josrc/augmented-cio/seed-0.json",
        f"table2/{cell}/josrc/augmented/seed-0.json",
    ]
    assert set(paths) & {key.path.as_posix() for key in plan_runs("table2", None, None, 1)} == {
        paths[0],
        paths[-1],
    }


def test_a_variant_is_asked_for_as_a_setting_of_the_augmented_recipe() -> None:
    asked = request(ResultKey("ablation", "cifar80n-o", SYM20, "josrc", "augmented-ci", 3))
    assert asked == {
        "recipe": "augmented",
        "layers": [{"method": {"variant": "ci"}}],
        "noise": "symmetric",
        "rate": 0.2,
        "method": "josrc",
        "seed": 3,
    }


def test_every_result_shown_has_the_settings_that_its_run_would_have_now() -> None:
    """A method or recipe that changes makes its results ones of another: to results/earlier."""
    root = Path(__file__).parents[3] / "results"
    folders = [folder for folder in FOLDERS if folder not in (EARLIER, AUDIT)]
    runs = load_results(root, folders).runs
    assert runs
    for path, result in runs.items():
        suite, _, method, recipe, _ = path.parts
        noise = "asymmetric" if result.noise == "block" else result.noise or "none"
        key = ResultKey(suite, result.data, Cell(noise, result.rate or 0), method, recipe, 0)
        config = configure(key.data, **request(key))
        now = config.method.model_dump(mode="json") | dict(config.method.retired)
        # What the data tells is not known here; early results of digits lack their settings.
        differing = {
            name
            for name, value in result.settings.items()
            if now.get(name) is not None and now[name] != value
        }
        unknown = set(now) - set(config.method.retired) - set(result.settings)
        assert not differing, path
        assert not (result.settings and unknown), path


def test_selection_is_the_josrc_row_of_table_2() -> None:
    assert plan_runs("selection", None, None, 2) == plan_runs("table2", ["josrc"], None, 2)


@pytest.mark.parametrize("method", ["coteaching", "coteaching-plus", "jocor", "standard"])
def test_plain_asks_for_jocors_noise_in_table_1_and_half_its_forget_rate(method: str) -> None:
    def asked(table: str, cell: Cell) -> tuple[object, object]:
        found = request(ResultKey(table, TABLES[table].data, cell, method, "plain", 0))
        return found["noise"], found["layers"]

    half = [] if method == "standard" else [{"method": {"forget_rate": 0.2}}]
    assert asked("table1", ASYM40) == ("block", half)
    assert asked("table1", SYM20) == ("symmetric", [])
    assert asked("table2", ASYM40) == ("asymmetric", []), "which quotes nobody"


def test_plain_results_keep_the_cells_name_and_are_of_baselines_unless_asked() -> None:
    keys = plan_runs("table1", None, ["asymmetric-0.4"], 1, "plain")
    assert {key.path.parent.name for key in keys} == {"plain"}
    assert {key.path.parts[1] for key in keys} == {"cifar100n-c-asymmetric-0.4"}
    assert "standard" in {key.method for key in keys}
    assert "josrc" not in {key.method for key in keys}
    assert len(plan_runs("table1", ["josrc"], None, 1, "plain")) == 4


@pytest.mark.parametrize(
    ("suite", "methods", "cells", "message"),
    [
        ("table9", None, None, "Unknown suite 'table9'"),
        ("table1", ["dividemix"], None, "'dividemix' is not in table1"),
        ("table1", None, ["symmetric-0.3"], "Unknown cell 'symmetric-0.3'"),
        ("ablation", None, ["symmetric-0.5"], "Unknown cell 'symmetric-0.5'"),
    ],
)
def test_a_wrong_name_is_explained(
    suite: str, methods: list[str] | None, cells: list[str] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        plan_runs(suite, methods, cells, 1)


def test_ours_runs_both_tables_side_by_side_and_the_method_first() -> None:
    keys = plan_runs("ours", None, None, 1)
    halves = [plan_runs(name, None, None, 1) for name in ("ours-c", "ours-o")]
    assert sorted(map(str, keys)) == sorted(map(str, [*halves[0], *halves[1]]))
    assert {key.method for key in keys[:16]} == {"posterior"}
    assert {key.data for key in keys[:8]} == {"cifar100n-c", "cifar80n-o"}
    assert [key.recipe for key in keys[:16]] == ["augmented"] * 8 + ["short"] * 8
    shared = {key.suite for key in keys if key.method in ("josrc", "standard")}
    assert shared == {"table1", "table2"}
    assert {key.suite for key in keys} - shared == {"ours"}


def test_the_method_has_one_setting_in_all_cells_and_peers_their_authors() -> None:
    def settings(key: ResultKey) -> dict[str, object]:
        return configure(key.data, **request(key)).method.model_dump()

    keys = [key for key in plan_runs("ours", None, None, 1) if key.recipe == "augmented"]
    own = [settings(key) for key in keys if key.method == "posterior"]
    assert len(own) == 8
    assert all(found == own[0] for found in own)
    sed = {(k.data, k.cell.key): configure(k.data, **request(k)) for k in keys if k.method == "sed"}
    hard = sed["cifar100n-c", "symmetric-0.8"]
    assert (hard.optimizer.before, hard.optimizer.end) == (0.01, 5e-5)
    assert hard.method.threshold_momentum == 0.999
    assert sed["cifar80n-o", "symmetric-0.5"].method == sed["cifar80n-o", "symmetric-0.2"].method
    mixed = {k.cell.key: settings(k) for k in keys if k.method == "dividemix"}
    weights = {cell: found["unlabelled_weight"] for cell, found in mixed.items()}
    assert list(weights.values()) == [25, 150, 150, 0]


def test_parts_are_left_out_on_noise_that_no_table_has() -> None:
    keys = plan_runs("ablation-posterior", None, None, 1)
    asked = [configure(key.data, **request(key)) for key in keys]
    assert {config.data.noise_seed for config in asked} == {1}
    assert {config.epochs for config in asked} == {100}
    assert not {key.cell for key in keys} & set(CELLS)
    whole = asked[0].method.model_dump()
    for key, config in zip(keys, asked, strict=True):
        found = config.method.model_dump()
        changed = {name for name in whole if found[name] != whole[name]}
        assert len(changed) == (key.recipe != "short"), key
    (chosen,) = plan_runs("ablation-posterior", None, ["symmetric-0.7"], 1, rows=["short-closed"])
    assert request(chosen)["layers"][-1] == {"method": {"foreign": False}}
    (opened,) = plan_runs("ablation-posterior-o", None, None, 1, rows=["short"])
    assert (opened.data, opened.suite) == ("cifar80n-o", "ablation-posterior")
    with pytest.raises(UserError, match=r"Unknown row 'short-open'.*short-closed"):
        plan_runs("ablation-posterior", None, None, 1, rows=["short-open"])
    short = configure("cifar100n-c", recipe="short", noise="symmetric", rate=0.2)
    long = configure("cifar100n-c", noise="symmetric", rate=0.2)
    assert short.optimizer.decay_start * 2 == long.optimizer.decay_start
    assert short.method.warm_up * 2 == long.method.warm_up


@pytest.mark.parametrize(
    ("suite", "key", "value"),
    [
        ("ablation-apart", "method.joint_forward", False),
        ("ablation-threshold", "method.threshold_max", 0.83),
        ("ablation-head", "model.head", "linear"),
    ],
)
def test_the_steps_with_one_setting_changed_differ_from_those_of_table_6_in_it_alone(
    suite: str, key: str, value: object
) -> None:
    steps = [key for key in plan_runs("ablation", ["josrc"], None, 1) if key.method == "josrc"]
    varied = plan_runs(suite, None, None, 1)
    assert [run.recipe for run in varied] == [run.recipe for run in steps]
    for usual, changed in zip(steps, varied, strict=True):
        before, after = (configure(r.data, **request(r)).flat() for r in (usual, changed))
        assert {name for name in before if before[name] != after[name]} == {key}
        assert after[key] == value


@pytest.mark.parametrize("suite", [*SUITES, *GROUPS])
def test_a_run_trains_what_its_key_says(suite: str) -> None:
    lengths = {"augmented": 200, "plain": 200, "short": 100, "preact": 100}
    for recipe in find_suite(suite).recipes:
        for key in plan_runs(suite, None, None, 2, recipe):
            config = configure(key.data, **request(key))
            noise = config.data.noise.replace("block", "asymmetric")
            found = (config.data.name, noise, config.method.name, config.recipe, config.seed)
            own = key.recipe.partition("-")[0]
            assert found == (key.data, key.cell.noise, key.method, own, key.seed), key.path
            assert noise == "none" or config.data.rate == key.cell.rate, key.path
            if key.data.startswith("cifar"):
                assert config.epochs == lengths[own], key.path
