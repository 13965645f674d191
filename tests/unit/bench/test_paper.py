"""The paper's numbers, as they are kept."""

from __future__ import annotations

from josrc.bench.paper import (
    ABLATION,
    ASYM40,
    BACKBONE_TABLES,
    CELLS,
    METHOD_TITLES,
    SELECTION,
    TABLES,
)
from josrc.bench.plan import SUITES


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
