"""Results on disk: exactly what a run wrote, one JSON file a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError, model_validator

from josrc._io import PARTIAL, write_text
from josrc._reading import regular
from josrc.bench.paper import Cell
from josrc.engine.metrics import METRIC_COLUMNS, Row
from josrc.errors import UserError, reason

# The suite whose results are not runs but comparisons of verdicts with the truth.
AUDIT = "audit"


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
        place = place_of(self.suite, self.data, self.cell, self.method, self.recipe)
        return place / f"seed-{self.seed}.json"


def place_of(suite: str, data: str, cell: Cell, method: str, recipe: str) -> Path:
    """The folder of a method's results in a cell, below the results' root."""
    return Path(suite) / f"{data}-{cell.key}" / method / recipe


class _ResultIdentity(BaseModel):
    """What every result says of itself, and which must be what its path says."""

    data: str
    noise: str | None = None
    rate: float | None = None
    seed: int
    epochs: int
    device: str

    def _names(self) -> tuple[str, set[str]]:
        """Of its method and, as a folder, of its recipe."""
        raise NotImplementedError

    def lies_at(self, name: Path) -> bool:
        """Whether its place, SUITE/DATA-NOISE-RATE/METHOD/RECIPE/seed-K.json, is its own."""
        noise = "asymmetric" if self.noise == "block" else self.noise or "none"
        cell = Cell(noise, self.rate or 0)
        method, recipes = self._names()
        places = [
            ResultKey(name.parts[0], self.data, cell, method, recipe, self.seed).path
            for recipe in recipes
        ]
        return len(name.parts) == 5 and name in places


class Result(_ResultIdentity):
    """What tables and figures read of a result; files hold more."""

    method: str
    recipe: str
    variant: str | None = None
    last10_mean: float
    best: float
    best_epoch: int
    final: float
    val_chosen: float | None = None
    seconds_total: float
    versions: dict[str, str]
    commit: str | None = None
    settings: dict[str, Any] = {}
    configuration: dict[str, Any] = {}
    rounds: int | None = None
    labels_turned: float | None = None
    turned_right: float | None = None
    metrics: dict[str, list[float | None]]
    failed: str | None = None

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if self.metrics and {len(c) for c in self.metrics.values()} != {len(self.column("epoch"))}:
            raise ValueError("the columns of its metrics differ in length")
        return self

    def _names(self) -> tuple[str, set[str]]:
        return self.method, {self.recipe, f"{self.recipe}-{self.variant}"}

    def column(self, name: str) -> list[float | None]:
        """A column of the metrics, an entry an epoch; empty if the run has none."""
        return self.metrics.get(name, [])

    def points(self, name: str) -> dict[int, float]:
        """The values of a column that are known, by epoch."""
        pairs = zip(self.column("epoch"), self.column(name), strict=False)
        return {int(e): value for e, value in pairs if e is not None and value is not None}


class AuditResult(_ResultIdentity):
    """What tables read of a side of an audit; files hold more."""

    side: str
    measures: dict[str, float | None]
    seconds_training: float
    seconds_audit: float

    def _names(self) -> tuple[str, set[str]]:
        return self.side, {"augmented"}


@dataclass
class Results:
    """Results by their path below the root, and a line for each file that is none."""

    runs: dict[Path, Result] = field(default_factory=dict)
    audits: dict[Path, AuditResult] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def at(self, place: Path) -> list[Result]:
        """Results in one folder: the seeds of one method in one cell."""
        return [result for path, result in self.runs.items() if path.parent == place]

    def audits_at(self, place: Path) -> list[AuditResult]:
        """Audits in one folder: the seeds of one side of one cell."""
        return [result for path, result in self.audits.items() if path.parent == place]


def save_result(root: Path, key: ResultKey, summary: dict[str, Any], rows: Sequence[Row]) -> None:
    """Keep a run: its summary, and every column of its metrics under ``metrics``."""
    columns = {name: [row.get(name) for row in rows] for name in METRIC_COLUMNS}
    known = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    write_text(root / key.path, json.dumps(summary | {"metrics": known}, indent=1) + "\n")


def is_made(root: Path, key: ResultKey, epochs: int | None = None) -> bool:
    """Whether there is a result, of that many epochs if they are given.

    Raises:
        UserError: what lies in its place is not a result.
    """
    path = root / key.path
    if not path.is_file():
        return False
    try:
        found = _read(path, key.path, AuditResult if key.suite == AUDIT else Result)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is not a result ({_reason(error)})") from None
    return epochs is None or found.epochs == epochs


def load_results(root: Path, suites: Sequence[str]) -> Results:
    """Everything in the folders of some suites."""
    results = Results()
    files = [path for suite in suites for path in (root / suite).rglob("*") if path.is_file()]
    for path in sorted(file for file in files if file.suffix != PARTIAL):
        name = path.relative_to(root)
        try:
            if name.parts[0] == AUDIT:
                results.audits[name] = _read(path, name, AuditResult)
            else:
                results.runs[name] = _read(path, name, Result)
        except (ValueError, OSError) as error:
            results.problems.append(f"{name.as_posix()}: not a result ({_reason(error)})")
    return results


Kind = TypeVar("Kind", bound=_ResultIdentity)


def _read(path: Path, name: Path, kind: type[Kind]) -> Kind:
    result = kind.model_validate_json(regular(path).read_bytes())
    if not result.lies_at(name):
        raise ValueError("by what it says, it belongs elsewhere")
    return result


def _reason(error: Exception) -> str:
    """What is wrong, on one line."""
    if not isinstance(error, ValidationError):
        return " ".join(reason(error).split())
    problems = [(".".join(map(str, p["loc"])), p["msg"]) for p in error.errors()[:3]]
    return "; ".join(": ".join(filter(None, pair)) for pair in problems)
