"""A measurement beside an earlier one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from commands import josrc
from josrc.bench.speed_ratios import ratios, read_earlier, show_ratios

EARLIER = {
    "device": "cpu", "cpu_cores": 2, "eager_ms": 200.0, "captured_ms": None, "steps_a_window": 3,
    "josrc_images_s": 100.0, "peak_memory_mib": 500.0, "copy_tb_s": 0.04,
}  # fmt: skip


def test_twice_as_good_is_two_whether_less_is_better_or_more() -> None:
    now = EARLIER | {"eager_ms": 100.0, "josrc_images_s": 200.0, "peak_memory_mib": 1000.0}
    assert ratios(EARLIER, now | {"captured_ms": 1.0}) == {
        "eager_ms": 2.0,
        "josrc_images_s": 2.0,
        "peak_memory_mib": 0.5,
        "copy_tb_s": 1.0,
    }


def test_what_is_worse_and_what_differs_is_said() -> None:
    console = Console(file=io.StringIO(), record=True, width=120)
    show_ratios(EARLIER, EARLIER | {"eager_ms": 250.0, "cpu_cores": 4}, console)
    said = console.export_text()
    assert "worse" in next(line for line in said.splitlines() if "eager_ms" in line)
    assert "worse" not in next(line for line in said.splitlines() if "peak_memory" in line)
    assert "Not the same: cpu_cores was 2, and is 4 now." in said


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"device": "cpu"})])
def test_a_file_that_is_no_measurement_is_named_before_anything_is_timed(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "earlier.json"
    file.write_text(text)
    assert josrc("bench", "speed", "--compare", file, "--results", tmp_path / "results") == 2
    assert "earlier.json" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_measurement_of_the_repository_can_be_compared_with() -> None:
    folder = Path(__file__).resolve().parents[3] / "results" / "speed"
    for name in ("cpu-cnn7.json", "h200-resnet50.json"):
        found = read_earlier(folder / name)
        assert set(ratios(found, found).values()) == {1.0}
