"""The suites as data: which runs each of them has, and what a run asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
# Folder of results that were made before their method was mended: shown, but as rows of their own.
EARLIER = "earlier"
# Jo-SRC's steps with one forward pass for each view, as in the released code.
APART = "ablation-apart"
# And with the threshold at which the paper's last epoch selects as ours does; with another head.
THRESHOLD, HEAD = "ablation-threshold", "ablation-head"
# What every run of these suites has beside its recipe.
VARIED: dict[str, dict[str, Any]] = {
    APART: {"method": {"joint_forward": False}},
    THRESHOLD: {"method": {"threshold_max": 0.83}},
    HEAD: {"model": {"head": "linear"}},
}


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

    @property
    def as_earlier(self) -> Entry:
        """The same row as it was made before its method was mended."""
        return replace(self, home=EARLIER)

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
    seeds: int = 5  # as in the paper


# Tables 3 and 4 have a row more: Jo-SRC as its released configuration has it.
RELEASED = "released"


def _backbone_suite(name: str, table: BackboneTable) -> Suite:
    rows = [Entry(row.method, name, row.variant or None, row.recipe) for row in table.rows]
    return Suite(table.data, (OWN_NOISE,), (*rows, Entry("josrc", name, recipe=RELEASED)))


# The methods of tables 3 and 4 on CIFAR too; Standard and Jo-SRC, for comparison, are rows of
# Tables 1 and 2. What people checked is stood in for by the truth of a tenth of the labels.
OTHERS = (
    ("f-correction", None), ("m-correction", None), ("m-correction", "m-dyr"),
    ("joint-optim", None), ("mlnt", None), ("pencil", None), ("dividemix", None),
    ("metacleaner", None), ("deepself", None), ("cleannet", None),
)  # fmt: skip


NINE = tuple(dict.fromkeys(method for method, _ in OTHERS))


def _steps(name: str) -> Suite:
    """The steps of the method, Table 6, in a suite of their own."""
    variants = ("c", "ci", "cio", None)
    rows = tuple(Entry("josrc", home=name, variant=variant) for variant in variants)
    return Suite("cifar80n-o", (SYM20,), rows)


def _others(name: str, table: str) -> Suite:
    compared = (Entry("standard", home=table), Entry("josrc", home=table))
    others = (Entry(method, home=name, variant=variant) for method, variant in OTHERS)
    return Suite(TABLES[table].data, (SYM20,), (compared[0], *others, compared[1]))


# Half the epochs, and PreAct-ResNet-18 for 100 epochs on what people labelled.
SHORT, PREACT = "short", "preact"
PEERS = ("sed", "sop", "elr", "gce", "dividemix")


def _ours(table: str) -> Suite:
    """Posterior, at both lengths, and its peers; Standard and Jo-SRC are rows of a table."""
    own = (Entry("posterior", "ours"), Entry("posterior", "ours", recipe=SHORT))
    peers = (Entry(peer, "ours") for peer in PEERS)
    compared = (Entry("josrc", home=table), Entry("standard", home=table))
    return Suite(TABLES[table].data, CELLS, (*own, *peers, *compared), seeds=3)


# Suites that are run as one.
GROUPS = {"ours": ("ours-c", "ours-o")}
# Posterior with one setting changed, on noise that no table has and another draw of it.
DEVELOPMENT, DEVELOPMENT_OPEN = "ablation-posterior", "ablation-posterior-o"
DEVELOPMENT_CELLS = (Cell("symmetric", 0.4), Cell("asymmetric", 0.2), Cell("symmetric", 0.7))
CHANGED: dict[str, dict[str, Any]] = {
    "unflipped": {"flips": False},
    "unweighted": {"weighted": False},
    "undistilled": {"distillation": 0.0},
    "closed": {"foreign": False},
    "brief": {"warm_up_most": 10},  # of 100 epochs: the shortest warm-up, always
    "patient": {"gain": 0.0},  # the longest, unless labels are predicted worse
    "slow": {"teacher_decay": 0.999},
    "remembering": {"history": 0.7},
}


def _development(data: str, cells: tuple[Cell, ...]) -> Suite:
    rows = (Entry("posterior", DEVELOPMENT, variant, SHORT) for variant in (None, *CHANGED))
    return Suite(data, cells, tuple(rows), seeds=1)


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
    **{name: _steps(name) for name in VARIED},
    # Not in the paper: small enough for everybody's CPU.
    "digits": Suite(
        "digits-o",
        (Cell("symmetric", 0.5),),
        tuple(Entry(method, home="digits") for method in (*TABLES["table2"].scores, *NINE)),
    ),
    "others-c": _others("others-c", "table1"),
    "others-o": _others("others-o", "table2"),
    "ours-c": _ours("table1"),
    "ours-o": _ours("table2"),
    "ours-n": Suite(
        "cifar10n",
        (Cell("worst", 0),),
        tuple(Entry(m, "ours", recipe=PREACT) for m in ("posterior", "dividemix", "standard")),
        seeds=1,
    ),
    DEVELOPMENT: _development("cifar100n-c", DEVELOPMENT_CELLS),
    DEVELOPMENT_OPEN: _development("cifar80n-o", DEVELOPMENT_CELLS[:1]),
    # Table 5 looks at other numbers of the same runs.
    "selection": Suite("cifar80n-o", CELLS, (Entry("josrc", home="table2"),)),
}

# Photographs of classes that look alike, as a small set of somebody's own.
LOOK_ALIKES = "look-alikes"
# Where verdicts are compared with the truth, and with whose. The constants of the rule were chosen
# on other noise, see docs/use/audit.md.
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
    """A suite by its name; of a group its first, which all the others resemble."""
    if name not in SUITES and name not in GROUPS:
        raise UserError(f"Unknown suite '{name}'. Known: {', '.join([*SUITES, *GROUPS])}.")
    return SUITES[GROUPS.get(name, (name,))[0]]


def choose_methods(name: str, methods: Sequence[str] | None, recipe: str) -> list[str]:
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


def plan_runs(
    name: str,
    methods: Sequence[str] | None,
    cells: Sequence[str] | None,
    seeds: int,
    recipe: str = "augmented",
    rows: Sequence[str] | None = None,
) -> list[ResultKey]:
    """The runs of a suite: every cell with the first seed before any cell with the second.

    Args:
        name: the suite.
        methods: only these.
        cells: only these, by their keys.
        seeds: how many.
        recipe: of rows that have none of their own.
        rows: only these, by the folders of their results: ``augmented``, ``short-closed``.
    """
    suite = find_suite(name)
    keys = [cell.key for cell in suite.cells]
    for wrong in [cell for cell in cells or () if cell not in keys]:
        raise UserError(f"Unknown cell '{wrong}'. {name} has: {', '.join(keys)}.")
    folders = list(dict.fromkeys(entry.folder(recipe) for entry in suite.entries))
    for wrong in [row for row in rows or () if row not in folders]:
        raise UserError(f"Unknown row '{wrong}'. {name} has: {', '.join(folders)}.")
    parts = [SUITES[part] for part in GROUPS.get(name, (name,))]
    chosen = [m for m in choose_methods(name, methods, recipe) if m in method_names()]
    return [
        ResultKey(entry.home, part.data, cell, entry.method, entry.folder(recipe), seed)
        for seed in range(seeds)
        for entries in zip(*(part.entries for part in parts), strict=True)
        for part, entry in zip(parts, entries, strict=True)
        if entry.method in chosen and (not rows or entry.folder(recipe) in rows)
        for cell in part.cells
        if not cells or cell.key in cells
    ]


# SED's run.sh: rate, rate of the warm-up and at the end, m of SCS and of SCR, alpha, the teacher's
# decay, by data and noise. It has nothing for Sym-50, which takes Sym-20's. Its 100 to 140 epochs
# are scaled to ours.
_SED = {
    ("cifar100n-c", "symmetric-0.2"): (0.01, 0.05, 5e-4, 0.9, 0.9, 1.0, 0.99),
    ("cifar100n-c", "symmetric-0.8"): (0.01, 0.01, 5e-5, 0.999, 0.99, 1.0, 0.95),
    ("cifar100n-c", "asymmetric-0.4"): (0.01, 0.01, 5e-5, 0.9, 0.9, 1.0, 0.99),
    ("cifar80n-o", "symmetric-0.2"): (0.05, 0.05, 5e-4, 0.999, 0.85, 0.5, 0.99),
    ("cifar80n-o", "symmetric-0.8"): (0.05, 0.05, 5e-4, 0.95, 0.85, 1.0, 0.99),
    ("cifar80n-o", "asymmetric-0.4"): (0.01, 0.01, 5e-5, 0.9, 0.9, 1.0, 0.99),
}


def settings_of_cell(key: ResultKey) -> list[dict[str, Any]]:
    """What a peer's authors set for a noise, as layers; Posterior has one setting for all."""
    asymmetric = key.cell.noise == "asymmetric"
    if key.method == "sed":
        cell = "symmetric-0.2" if key.cell.key == "symmetric-0.5" else key.cell.key
        lr, before, end, scs, scr, alpha, decay = _SED[key.data, cell]
        method = {
            "threshold_momentum": scs,
            "weight_momentum": scr,
            "strong_weight": alpha,
            "teacher_decay": decay,
        }
        return [{"optimizer": {"lr": lr, "before": before, "end": end}, "method": method}]
    if key.method == "sop" and asymmetric:
        return [{"method": {"rate_v": 100.0}}]
    if key.method == "dividemix":
        weight = 0.0 if asymmetric else 25.0 if key.cell.rate < 0.5 else 150.0
        return [{"method": {"unlabelled_weight": weight, "confidence_penalty": asymmetric}}]
    return []


def request(key: ResultKey) -> dict[str, Any]:
    """What the run of a result asks of ``josrc.runs.start.configure``, beside the data."""
    recipe, _, variant = key.recipe.partition("-")
    layers = [VARIED[key.suite]] if key.suite in VARIED else []
    method: dict[str, Any] = {}
    if key.suite == DEVELOPMENT:
        layers = [{"data": {"noise_seed": 1}}]
        method = CHANGED.get(variant, {})
    elif variant:
        method["variant"] = variant
    if key.suite == "ours":
        layers = settings_of_cell(key)
    noise = key.cell.noise
    if recipe == "plain" and noise == "asymmetric" and key.data == TABLES["table1"].data:
        # As JoCoR, whom Table 1 quotes: blocks of five. Its code halves its own forget rate there;
        # that it did so for the other methods too is our guess.
        noise = "block"
        if "forget_rate" in get_method(key.method).Settings.model_fields:
            method["forget_rate"] = key.cell.rate / 2
    return {
        "recipe": recipe,
        "layers": [*layers, {"method": method}] if method else layers,
        "noise": noise,
        "rate": key.cell.rate,
        "method": key.method,
        "seed": key.seed,
    }
