"""What has become faster or slower since an earlier measurement."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from josrc._console import say
from josrc._io import write_text
from josrc._reading import read_json
from josrc.errors import UserError, reason

# Measures of which less is better, and those of which more is, by how their names end.
LESS = ("_ms", "_s", "_mib", "seconds_cold", "seconds_warm", "seconds_per_epoch_warm")
MORE = ("_images_s", "matmul_tflops", "copy_tb_s", "ratio_reference", "ratio_resident")
# What must be the same for the rest to be comparable.
SETTING = (
    "device", "cpu_cores", "loader_workers", "data", "method", "model", "batch_size", "views",
    "precision", "image_size", "images",
)  # fmt: skip
# Of two measurements of the same code on a machine that nobody else uses, less than this differs.
NOTABLE = 0.05


def read_earlier(path: Path) -> dict[str, Any]:
    """What an earlier measurement wrote.

    Raises:
        UserError: it is no such file.
    """
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(f"--compare {path}: {reason(error)}") from None
    if not isinstance(found, dict) or not any(name.endswith(LESS + MORE) for name in found):
        raise UserError(f"--compare {path}: not a file that josrc bench speed wrote.")
    return found


def ratios(earlier: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, float]:
    """By how many times each measure has become better: 2 is twice as fast, or half the memory."""
    better = {}
    for name in found:
        before, now = earlier.get(name), found[name]
        known = all(isinstance(value, int | float) and value > 0 for value in (before, now))
        if known and name.endswith(MORE):
            better[name] = now / before
        elif known and name.endswith(LESS):
            better[name] = before / now
    return better


def write_measurement(
    path: Path, found: Mapping[str, Any], earlier: Mapping[str, Any] | None, console: Console
) -> Path:
    """Keep a measurement, and show it beside an earlier one; returns its path."""
    write_text(path, json.dumps(found, indent=2) + "\n")
    if earlier:
        show_ratios(earlier, found, console)
    say(console, f"Wrote {path}.")
    return path


def show_ratios(earlier: Mapping[str, Any], found: Mapping[str, Any], console: Console) -> None:
    """Both measurements side by side, and what differs between them."""
    table = Table(title="Beside the earlier measurement")
    for column in ("measure", "earlier", "now", "times as good", ""):
        table.add_column(column, justify="left" if column in ("measure", "") else "right")
    for name, ratio in ratios(earlier, found).items():
        word = "better" if ratio > 1 + NOTABLE else "worse" if ratio < 1 - NOTABLE else ""
        table.add_row(name, f"{earlier[name]:.4g}", f"{found[name]:.4g}", f"{ratio:.2f}", word)
    console.print(table)
    for name in SETTING:
        if name in earlier and name in found and earlier[name] != found[name]:
            say(console, f"Not the same: {name} was {earlier[name]}, and is {found[name]} now.")
