"""Every number the paper publishes that josrc compares with, each with its table."""

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
        return f"{'Sym' if self.noise == 'symmetric' else 'Asym'}-{self.rate * 100:.0f}"


@dataclass(frozen=True)
class Score:
    """Mean test accuracy of the last 10 epochs over five runs, and its spread."""

    mean: float
    spread: float


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: accuracies by method, in the order of ``CELLS``."""

    number: int
    data: str
    title: str
    scores: dict[str, tuple[Score, ...]]

    def score(self, method: str, cell: Cell) -> Score | None:
        """The published number of a method in a cell."""
        row = self.scores.get(method)
        return row[CELLS.index(cell)] if row is not None else None


CELLS = (
    Cell("symmetric", 0.2),
    Cell("symmetric", 0.5),
    Cell("symmetric", 0.8),
    Cell("asymmetric", 0.4),
)


def _row(*pairs: tuple[float, float]) -> tuple[Score, ...]:
    return tuple(Score(mean, spread) for mean, spread in pairs)


TABLES = {
    "table1": PaperTable(
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
    "table2": PaperTable(
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
