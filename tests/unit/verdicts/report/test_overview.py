"""The overview of a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from josrc.config import DataKind
from josrc.data.readers.arrays import ARRAYS_NAME
from josrc.engine.health import ended_badly
from josrc.engine.run_folder import RunFolder
from josrc.runs.resolve import load_run_config
from josrc.verdicts.report.overview import matrix, next_steps, overview, result


def test_the_matrix_holds_the_pairs_that_occur_most() -> None:
    pairs = {(0, 1): 9, (2, 1): 4, (1, 0): 1}
    found = matrix(pairs, ["a", "b", "c"])
    assert found is not None
    cells = {
        (row["name"], column["name"]): cell["count"]
        for row in found["rows"]
        for column, cell in zip(found["columns"], row["cells"], strict=True)
    }
    assert cells == {
        ("a", "a"): 0, ("a", "b"): 9, ("b", "a"): 1, ("b", "b"): 0, ("c", "a"): 0, ("c", "b"): 4,
    }  # fmt: skip
    many = {(k, k + 1): 100 - k for k in range(50)}
    large = matrix(many, [str(k) for k in range(51)])
    assert large is not None
    assert not large["whole"]
    assert len(large["rows"]) == len(large["columns"]) == 12
    assert large["rows"][0]["cells"][0]["count"] == 100
    assert matrix({}, ["a"]) is None


@pytest.mark.parametrize(
    ("rows", "name", "value", "words"),
    [
        ([{"test_accuracy": 50.0}] + [{"test_accuracy": 90.0}] * 10, "Test accuracy", "90.0 %", ""),
        ([{"agreement": 71.25}] * 11, "Agreement", "71.2 %", "not accuracy"),
        ([{"loss": 1.0}] * 11, "Accuracy", "unknown", "--test"),
        ([{"test_accuracy": 80.0}], "Test accuracy", "80.0 %", "stopped after epoch 1 of 11"),
    ],
)
def test_an_accuracy_is_called_one_only_where_it_is(
    rows: list[dict[str, Any]], name: str, value: str, words: str
) -> None:
    found = result(rows, 11)
    assert (found["name"], found["value"]) == (name, value)
    assert words in found["note"]


def test_of_images_in_memory_no_command_is_offered_that_needs_them(
    audited_run: Callable[[], Path],
) -> None:
    folder = RunFolder(audited_run())
    config = load_run_config(folder)
    summary = json.loads((folder.audit / "summary.json").read_text())
    data = config.data.model_copy(update={"name": ARRAYS_NAME, "kind": DataKind.ARRAYS})
    steps = next_steps(folder, config.model_copy(update={"data": data}), summary)
    assert [step["command"] for step in steps if "command" in step][-1:] == [
        f"josrc.Run.load({str(folder.path)!r}).verdicts()"
    ]
    assert not any(
        word in step.get("command", "") for step in steps for word in ("review", "apply")
    )
    offered = [step.get("command", "") for step in next_steps(folder, config, summary)]
    assert f"josrc review {folder.path}" in offered


def test_a_run_that_is_about_to_end_badly_is_told_before_its_summary_is_there(
    audited_run: Callable[[], Path],
) -> None:
    folder = RunFolder(audited_run())
    config, audit = load_run_config(folder), folder.read_audit() or {}
    folder.summary.unlink(missing_ok=True)
    told, untold = (
        json.dumps(overview(folder, config, audit, None, ended)) for ended in ({"fell": True}, {})
    )
    warning = ended_badly({"fell": True})
    assert warning
    assert json.dumps(warning)[1:-1] in told
    assert json.dumps(warning)[1:-1] not in untold


@pytest.mark.parametrize(
    ("trained_on", "named"),
    [("photos", "cleaned"), ("cleaned.csv", "cleaned-2"), ("cleaned-2.csv", "cleaned-3")],
)
def test_the_corrected_data_gets_another_name_than_the_data(
    audited_run: Callable[[], Path], trained_on: str, named: str
) -> None:
    folder = RunFolder(audited_run())
    config = load_run_config(folder)
    data = config.data.model_copy(update={"name": f"/data/{trained_on}"})
    summary = folder.read_audit() or {}
    steps = next_steps(folder, config.model_copy(update={"data": data}), summary)
    assert steps[-1]["command"] == f"josrc apply {folder.path} --out {named}.csv"
