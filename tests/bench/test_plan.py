"""The paper's numbers, the suites' runs, and what each run asks for."""

from __future__ import annotations

import pytest

from josrc.bench.paper import (
    ABLATION,
    ASYM40,
    BACKBONE_TABLES,
    CELLS,
    METHOD_TITLES,
    SELECTION,
    SYM20,
    TABLES,
    Cell,
)
from josrc.bench.plan import SUITES, planned, request
from josrc.bench.results import ResultKey
from josrc.errors import UserError


def test_every_published_number_has_its_cell() -> None:
    keys = {cell.key for cell in CELLS}
    assert keys == {"symmetric-0.2", "symmetric-0.5", "symmetric-0.8", "asymmetric-0.4"}
    for table in TABLES.values():
        assert all(len(row) == len(CELLS) for row in table.scores.values())
    # A second transcription, in the order of the cells.
    means = {
        "table1": """35.14 16.97 4.41 27.29  33.10 15.25 3.89 26.11  43.73 34.96 15.15 28.35
                     49.27 40.04 13.44 33.62  53.01 43.49 15.49 32.70  58.15 51.26 23.80 38.52""",
        "table2": """29.37 13.87 4.20 22.25  43.49 28.22 10.01 33.74  60.38 52.42 16.59 42.42
                     53.97 46.75 12.29 43.01  59.99 50.61 12.85 39.37  65.83 58.51 29.76 53.03""",
    }
    for name, numbers in means.items():
        found = [score.mean for row in TABLES[name].scores.values() for score in row]
        assert found == [float(number) for number in numbers.split()]
    assert set(SELECTION) == set(CELLS)
    assert SELECTION[ASYM40]["ood"].best == 63.97
    assert {(e.method, e.variant) for e in SUITES["ablation"].entries} == set(ABLATION)
    assert [score.mean for score in ABLATION.values()] == [29.37, 57.12, 61.32, 63.10, 65.83]


def test_tables_3_and_4_have_a_backbone_and_a_name_for_every_row() -> None:
    rows = [row for table in BACKBONE_TABLES.values() for row in table.rows]
    assert len(rows) == 15 + 5
    assert {row.backbone for row in rows} == {"ResNet-18", "ResNet-50"}
    assert all(row.method in METHOD_TITLES for row in rows)
    josrc = {row.backbone: row.accuracy for row in rows[:15] if row.method == "josrc"}
    assert josrc == {"ResNet-18": 71.78, "ResNet-50": 75.93}


def test_seeds_go_round_by_round_so_that_every_cell_has_a_number_first() -> None:
    seeds = [key.seed for key in planned("table1", ["josrc"], None, 2)]
    assert seeds == [0] * 4 + [1] * 4


def test_other_methods_run_on_cifar_beside_two_runs_of_its_table() -> None:
    for suite, table, data in (
        ("others-c", "table1", "cifar100n-c"),
        ("others-o", "table2", "cifar80n-o"),
    ):
        keys = planned(suite, None, None, 1)
        assert {key.suite for key in keys} == {suite, table}
        assert {key.method for key in keys if key.suite == table} == {"standard", "josrc"}
        assert len(keys) == 8
        assert {(key.data, key.cell.key) for key in keys} == {(data, "symmetric-0.2")}


def test_the_ablation_has_five_rows_of_one_cell_and_shares_two_with_table_2() -> None:
    paths = [key.path.as_posix() for key in planned("ablation", None, None, 1)]
    cell = "cifar80n-o-symmetric-0.2"
    assert paths == [
        f"table2/{cell}/standard/augmented/seed-0.json",
        f"ablation/{cell}/josrc/augmented-c/seed-0.json",
        f"ablation/{cell}/josrc/augmented-ci/seed-0.json",
        f"ablation/{cell}/josrc/augmented-cio/seed-0.json",
        f"table2/{cell}/josrc/augmented/seed-0.json",
    ]
    assert set(paths) & {key.path.as_posix() for key in planned("table2", None, None, 1)} == {
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


def test_selection_is_the_josrc_row_of_table_2() -> None:
    assert planned("selection", None, None, 2) == planned("table2", ["josrc"], None, 2)


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
    keys = planned("table1", None, ["asymmetric-0.4"], 1, "plain")
    assert {key.path.parent.name for key in keys} == {"plain"}
    assert {key.path.parts[1] for key in keys} == {"cifar100n-c-asymmetric-0.4"}
    assert "standard" in {key.method for key in keys}
    assert "josrc" not in {key.method for key in keys}
    assert len(planned("table1", ["josrc"], None, 1, "plain")) == 4


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
        planned(suite, methods, cells, 1)
