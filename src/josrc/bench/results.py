"""Results on disk: exactly what a run wrote, one JSON file a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from josrc.bench.paper import Cell
from josrc.engine.checkpoint import write_text
from josrc.engine.metrics import COLUMNS, Row

NEEDED = {
    *("seed", "last10_mean", "best", "best_epoch", "final"),
    *("seconds_total", "device", "versions", "metrics"),
}


@dataclass(frozen=True)
class ResultKey:
    """Which run a result belongs to."""

    suite: str
    data: str
    cell: Cell
    method: str
    recipe: str
    seed: int

    @property
    def path(self) -> Path:
        """``table2/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json``."""
        place = Path(self.suite) / f"{self.data}-{self.cell.key}" / self.method / self.recipe
        return place / f"seed-{self.seed}.json"


def save_result(root: Path, key: ResultKey, summary: dict[str, Any], rows: Sequence[Row]) -> None:
    """Keep a run: its summary, and every column of its metrics under ``metrics``."""
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    known = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    write_text(root / key.path, json.dumps(summary | {"metrics": known}, indent=1) + "\n")


def load_results(root: Path, suite: str) -> tuple[dict[Path, dict[str, Any]], list[str]]:
    """Results of a suite by their path below ``root``, and a line for each file that is none."""
    found: dict[Path, dict[str, Any]] = {}
    problems = []
    for path in sorted(_files(root / suite)):
        name = path.relative_to(root)
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            missing = NEEDED - set(result)
        except (ValueError, TypeError, OSError) as error:
            problems.append(f"{name}: not a result ({error})")
            continue
        if missing:
            problems.append(f"{name}: not a result (without {', '.join(sorted(missing))})")
        else:
            found[name] = result
    return found, problems


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
