"""Every number the paper publishes, each once, in the table that shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A column of a table: one kind and rate of noise."""

    noise: str
    rate: float

    @property
    def key(self) -> str:
        """``symmetric-0.2``."""
        return f"{self.noise}-{self.rate:g}"

    @property
    def title(self) -> str:
        """``Sym-20``."""
        if self.noise == "none":
            return "own noise"
        if not self.rate:
            return self.noise
        noise = {"symmetric": "Sym", "asymmetric": "Asym"}.get(self.noise, self.noise)
        return f"{noise}-{self.rate * 100:.0f}"


@dataclass(frozen=True)
class Score:
    """A published percentage, and its spread over five runs where the paper gives one."""

    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class NoiseTable:
    """Tables 1 and 2: mean test accuracy of the last 10 epochs by method, in the order of CELLS."""

    number: int
    data: str
    title: str
    scores: dict[str, tuple[Score, ...]]

    def score(self, method: str, cell: Cell) -> Score:
        """The published number of a method in a cell."""
        return self.scores[method][CELLS.index(cell)]


@dataclass(frozen=True)
class BackboneRow:
    """A row of Tables 3 and 4: a method, its backbone and its test accuracy."""

    method: str
    backbone: str
    accuracy: float
    variant: str = ""

    @property
    def recipe(self) -> str:
        """The recipe that runs it: ``resnet18``."""
        return self.backbone.lower().replace("-", "")


@dataclass(frozen=True)
class BackboneTable:
    """Tables 3 and 4: test accuracy on a real data set."""

    number: int
    data: str
    title: str
    rows: tuple[BackboneRow, ...]


@dataclass(frozen=True)
class Precision:
    """A cell of Table 5: precision of a selected group at the best and at the last epoch."""

    best: float
    last: float


# Names as the paper writes them.
METHOD_TITLES = {
    "standard": "Standard",
    "decoupling": "Decoupling",
    "coteaching": "Co-teaching",
    "coteaching-plus": "Co-teaching+",
    "jocor": "JoCoR",
    "josrc": "Jo-SRC",
    "f-correction": "F-correction",
    "m-correction": "M-correction",
    "joint-optim": "Joint-Optim",
    "metacleaner": "Meta-Cleaner",
    "mlnt": "Meta-Learning",
    "pencil": "P-correction",
    "dividemix": "DivideMix",
    "cleannet": "CleanNet",
    "deepself": "DeepSelf",
    # Not in the paper.
    "posterior": "Posterior",
    "gce": "GCE",
    "elr": "ELR",
    "sop": "SOP+",
    "sed": "SED",
}

SYM20, SYM50, SYM80 = (Cell("symmetric", rate) for rate in (0.2, 0.5, 0.8))
ASYM40 = Cell("asymmetric", 0.4)
CELLS = (SYM20, SYM50, SYM80, ASYM40)
# The highest numbers that others publish for the cells of Tables 1 and 2, with this network and in
# the order of CELLS, from the tables of their repositories. SED tests one network, CA2C two
# together after 700 epochs.
BEST_KNOWN = {
    "cifar100n-c": ((68.64, "CA2C"), (62.65, "SED"), (40.97, "CA2C"), (65.59, "CA2C")),
    "cifar80n-o": ((70.06, "CA2C"), (58.51, "Jo-SRC"), (42.57, "SED"), (65.71, "CA2C")),
}
OWN_NOISE = Cell("none", 0)  # of real data: none is added


def _row(*pairs: tuple[float, float]) -> tuple[Score, ...]:
    return tuple(Score(mean, spread) for mean, spread in pairs)


TABLES = {
    "table1": NoiseTable(
        1,
        "cifar100n-c",
        "CIFAR100N-C",
        {
            "standard": _row((35.14, 0.44), (16.97, 0.40), (4.41, 0.14), (27.29, 0.25)),
            "decoupling": _row((33.10, 0.12), (15.25, 0.20), (3.89, 0.16), (26.11, 0.39)),
            "coteaching": _row((43.73, 0.16), (34.96, 0.50), (15.15, 0.46), (28.35, 0.25)),
            "coteaching-plus": _row((49.27, 0.03), (40.04, 0.70), (13.44, 0.37), (33.62, 0.39)),
            "jocor": _row((53.01, 0.04), (43.49, 0.46), (15.49, 0.98), (32.70, 0.35)),
            "josrc": _row((58.15, 0.14), (51.26, 0.11), (23.80, 0.05), (38.52, 0.20)),
        },
    ),
    "table2": NoiseTable(
        2,
        "cifar80n-o",
        "CIFAR80N-O",
        {
            "standard": _row((29.37, 0.09), (13.87, 0.08), (4.20, 0.07), (22.25, 0.08)),
            "decoupling": _row((43.49, 0.39), (28.22, 0.19), (10.01, 0.29), (33.74, 0.26)),
            "coteaching": _row((60.38, 0.22), (52.42, 0.51), (16.59, 0.27), (42.42, 0.30)),
            "coteaching-plus": _row((53.97, 0.26), (46.75, 0.14), (12.29, 0.09), (43.01, 0.59)),
            "jocor": _row((59.99, 0.13), (50.61, 0.12), (12.85, 0.05), (39.37, 0.16)),
            "josrc": _row((65.83, 0.13), (58.51, 0.08), (29.76, 0.09), (53.03, 0.25)),
        },
    ),
}

BACKBONE_TABLES = {
    "table3": BackboneTable(
        3,
        "clothing1m",
        "Clothing1M",
        (
            BackboneRow("standard", "ResNet-18", 67.22),
            BackboneRow("decoupling", "ResNet-18", 68.48),
            BackboneRow("coteaching", "ResNet-18", 69.21),
            BackboneRow("coteaching-plus", "ResNet-18", 59.32),
            BackboneRow("jocor", "ResNet-18", 70.30),
            BackboneRow("standard", "ResNet-50", 69.21),
            BackboneRow("f-correction", "ResNet-50", 69.84),
            BackboneRow("m-correction", "ResNet-50", 71.00),
            BackboneRow("joint-optim", "ResNet-50", 72.16),
            BackboneRow("metacleaner", "ResNet-50", 72.50),
            BackboneRow("mlnt", "ResNet-50", 73.47),
            BackboneRow("pencil", "ResNet-50", 73.49),
            BackboneRow("dividemix", "ResNet-50", 74.76),
            BackboneRow("josrc", "ResNet-18", 71.78),
            BackboneRow("josrc", "ResNet-50", 75.93),
        ),
    ),
    "table4": BackboneTable(
        4,
        "food101n",
        "Food101N",
        (
            BackboneRow("standard", "ResNet-50", 84.51),
            BackboneRow("cleannet", "ResNet-50", 83.47, variant="hard"),
            BackboneRow("cleannet", "ResNet-50", 83.95, variant="soft"),
            BackboneRow("deepself", "ResNet-50", 85.11),
            BackboneRow("josrc", "ResNet-50", 86.66),
        ),
    ),
}

# Table 5: Jo-SRC on CIFAR80N-O.
SELECTION = {
    SYM20: {"id": Precision(best=60.91, last=42.62), "ood": Precision(best=59.54, last=54.38)},
    SYM50: {"id": Precision(best=83.86, last=65.92), "ood": Precision(best=40.70, last=38.75)},
    SYM80: {"id": Precision(best=96.31, last=72.84), "ood": Precision(best=26.67, last=24.60)},
    ASYM40: {"id": Precision(best=45.86, last=45.52), "ood": Precision(best=63.97, last=45.37)},
}

# Table 6: CIFAR80N-O, Sym-20, by method and variant. Its first and its last row are in Table 2.
ABLATION: dict[tuple[str, str | None], Score] = {
    ("standard", None): TABLES["table2"].score("standard", SYM20),
    ("josrc", "c"): Score(57.12, 0.33),
    ("josrc", "ci"): Score(61.32, 0.18),
    ("josrc", "cio"): Score(63.10, 0.07),
    ("josrc", None): TABLES["table2"].score("josrc", SYM20),
}
