"""The suites as data: which runs each of them has, and what a run asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from josrc.bench.paper import (
    ASYM40,
    BACKBONE_TABLES,
    CELLS,
    METHOD_TITLES,
    OWN_NOISE,
    SYM20,
    TABLES,
    BackboneTable,
    Cell,
)
from josrc.bench.results import ResultKey
from josrc.errors import UserError
from josrc.methods import get_method, method_names

RECIPES = ("augmented", "plain")


@dataclass(frozen=True)
class Entry:
    """A row of a suite.

    Attributes:
        method: its key.
        home: the suite whose folder holds its results; one run has one file.
        variant: of the method, where the row has one of its own.
        recipe: its own, whatever the suite is asked for.
    """

    method: str
    home: str
    variant: str | None = None
    recipe: str | None = None

    @property
    def title(self) -> str:
        """``Jo-SRC-CI``."""
        return METHOD_TITLES[self.method] + (f"-{self.variant.upper()}" if self.variant else "")

    def folder(self, recipe: str) -> str:
        """The RECIPE in a result's path: ``augmented``, ``augmented-ci``."""
        recipe = self.recipe or recipe
        return f"{recipe}-{self.variant}" if self.variant else recipe


@dataclass(frozen=True)
class Suite:
    """A table of the paper as runs: every entry in every cell."""

    data: str
    cells: tuple[Cell, ...]
    entries: tuple[Entry, ...]
    recipes: tuple[str, ...] = ("augmented",)


# Tables 3 and 4 have a row more: Jo-SRC as its released configuration has it.
RELEASED = "released"


def _backbone_suite(name: str, table: BackboneTable) -> Suite:
    rows = [Entry(row.method, name, row.variant or None, row.recipe) for row in table.rows]
    return Suite(table.data, (OWN_NOISE,), (*rows, Entry("josrc", name, recipe=RELEASED)))


# Of the methods of tables 3 and 4, those that need no verified labels and no groups of images, on
# CIFAR too; Standard and Jo-SRC, for comparison, are rows of Tables 1 and 2.
OTHERS = ("f-correction", "m-correction", "joint-optim", "mlnt", "pencil", "dividemix")


def _others(name: str, table: str) -> Suite:
    compared = (Entry("standard", home=table), Entry("josrc", home=table))
    others = (Entry(method, home=name) for method in OTHERS)
    return Suite(TABLES[table].data, (SYM20,), (compared[0], *others, compared[1]))


SUITES = {
    name: Suite(table.data, CELLS, tuple(Entry(m, home=name) for m in table.scores), RECIPES)
    for name, table in TABLES.items()
} | {
    **{name: _backbone_suite(name, table) for name, table in BACKBONE_TABLES.items()},
    # Standard and the full method are rows of Table 2 too: their results are kept there.
    "ablation": Suite(
        "cifar80n-o",
        (SYM20,),
        (
            Entry("standard", home="table2"),
            Entry("josrc", home="ablation", variant="c"),
            Entry("josrc", home="ablation", variant="ci"),
            Entry("josrc", home="ablation", variant="cio"),
            Entry("josrc", home="table2"),
        ),
    ),
    # Not in the paper: small enough for everybody's CPU.
    "digits": Suite(
        "digits-o",
        (Cell("symmetric", 0.5),),
        tuple(Entry(method, home="digits") for method in TABLES["table2"].scores),
    ),
    "others-c": _others("others-c", "table1"),
    "others-o": _others("others-o", "table2"),
    # Table 5 looks at other numbers of the same runs.
    "selection": Suite("cifar80n-o", CELLS, (Entry("josrc", home="table2"),)),
}

# Photographs of classes that look alike, as a small set of somebody's own.
LOOK_ALIKES = "look-alikes"
# Where verdicts are compared with the truth, and with whose. The constants of the rule were chosen
# on other noise, see docs/audit.md.
AUDIT_CELLS: dict[str, tuple[Cell, ...]] = {
    "cifar100n-c": (
        Cell("none", 0),
        Cell("symmetric", 0.02),
        Cell("symmetric", 0.05),
        SYM20,
        Cell("asymmetric", 0.3),
    ),
    "cifar10n": (
        Cell("none", 0),
        Cell("aggregate", 0),
        Cell("random1", 0),
        Cell("worst", 0),
    ),
    "cifar80n-o": (SYM20, ASYM40),
    LOOK_ALIKES: (Cell("pairs", 0.05), Cell("pairs", 0.1)),
    "digits-o": (Cell("symmetric", 0.3), Cell("asymmetric", 0.3)),
}
AUDIT_SIDES = ("josrc", "cleanlab")
# Data of the audit in which some images belong to no class.
WITH_FOREIGN = ("cifar80n-o", "digits-o")


def audit_title(cell: Cell) -> str:
    """``Sym-20``. To an audit, data without added noise is clean."""
    return "clean" if cell.noise == "none" else cell.title


def find_suite(name: str) -> Suite:
    """A suite by its name."""
    if name not in SUITES:
        raise UserError(f"Unknown suite '{name}'. Known: {', '.join(SUITES)}.")
    return SUITES[name]


def chosen_methods(name: str, methods: Sequence[str] | None, recipe: str) -> list[str]:
    """Methods of a suite that were asked for, whether josrc has them or not."""
    suite = find_suite(name)
    known = list(dict.fromkeys(entry.method for entry in suite.entries))
    for wrong in [method for method in methods or () if method not in known]:
        raise UserError(f"'{wrong}' is not in {name}. It has: {', '.join(known)}.")
    if recipe not in suite.recipes:
        raise UserError(f"{name} has no recipe '{recipe}'. It has: {', '.join(suite.recipes)}.")
    # `plain` trains on images as they are. Jo-SRC lives on two different views of each, so it has
    # no such number in the paper, and it is run only if it is asked for.
    return [m for m in known if (m in methods if methods else (m, recipe) != ("josrc", "plain"))]


def planned(
    name: str,
    methods: Sequence[str] | None,
    cells: Sequence[str] | None,
    seeds: int,
    recipe: str = "augmented",
) -> list[ResultKey]:
    """The runs of a suite: every cell with the first seed before any cell with the second."""
    suite = find_suite(name)
    keys = [cell.key for cell in suite.cells]
    for wrong in [cell for cell in cells or () if cell not in keys]:
        raise UserError(f"Unknown cell '{wrong}'. {name} has: {', '.join(keys)}.")
    chosen = [m for m in chosen_methods(name, methods, recipe) if m in method_names()]
    return [
        ResultKey(entry.home, suite.data, cell, entry.method, entry.folder(recipe), seed)
        for seed in range(seeds)
        for entry in suite.entries
        if entry.method in chosen
        for cell in suite.cells
        if not cells or cell.key in cells
    ]


def request(key: ResultKey) -> dict[str, Any]:
    """What the run of a result asks of ``josrc.runs.start.configure``, beside the data."""
    recipe, _, variant = key.recipe.partition("-")
    method: dict[str, Any] = {"variant": variant} if variant else {}
    noise = key.cell.noise
    if recipe == "plain" and noise == "asymmetric" and key.data == TABLES["table1"].data:
        # As JoCoR, whom Table 1 quotes: blocks of five. Its code halves its own forget rate there;
        # that it did so for the other methods too is our guess.
        noise = "block"
        if "forget_rate" in get_method(key.method).Settings.model_fields:
            method["forget_rate"] = key.cell.rate / 2
    return {
        "recipe": recipe,
        "layers": [{"method": method}] if method else [],
        "noise": noise,
        "rate": key.cell.rate,
        "method": key.method,
        "seed": key.seed,
    }
