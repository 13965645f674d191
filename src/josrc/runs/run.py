"""A finished run as an object: its numbers, its verdicts, its networks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from josrc.config import SCAN, RunConfig
from josrc.engine.metrics import Row
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.runs.predictor import Predictor
from josrc.runs.resolve import load_run_config
from josrc.verdicts.table import read_verdicts, verdicts_of
from josrc.verdicts.table_parts import NUMBERS

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        path: its folder.
        config: what was run.
        summary: the content of ``summary.json``.
    """

    path: Path
    config: RunConfig
    summary: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """A finished run from its folder."""
        folder = RunFolder(Path(path))
        config = load_run_config(folder)
        if not folder.summary.is_file():
            folder.check_free()
            raise UserError(f"{path} has not finished. Resume it: josrc resume {path}")
        return cls(folder.path, config, folder.read_summary())

    @property
    def metrics(self) -> list[Row]:
        """A mapping per epoch, with the columns of ``metrics.csv``."""
        return RunFolder(self.path).read_metrics()

    def verdicts(self) -> pandas.DataFrame:
        """The lines of ``audit/verdicts.csv``, indexed by id."""
        import pandas

        lines = pandas.concat(read_verdicts(verdicts_of(self.path / "audit")))
        return lines.astype(dict.fromkeys(NUMBERS, float)).set_index("id")

    @property
    def audit(self) -> dict[str, Any] | None:
        """The content of ``audit/summary.json``; ``None`` for a run without verdicts."""
        return RunFolder(self.path).read_audit()

    @property
    def model(self) -> nn.Module:
        """The network with its best weights, in evaluation mode; of two networks the first."""
        return self.predictor().networks[0]

    def predictor(self, last: bool = False) -> Predictor:
        """The networks with their best weights, or their last, and what they expect of images."""
        if self.config.method.name == SCAN:
            raise UserError(
                f"{self.path} is a scan and has no network of its own. Train one: josrc train "
                f"{self.config.data.place}"
            )
        folder = RunFolder(self.path)
        return Predictor(self.config, folder.last if last else folder.best)

    def predict(self, images: Any) -> list[str]:
        """The most likely class of each image.

        Args:
            images: an array ``(N, height, width, channels)``, a list of paths, or one path.
        """
        predictor = self.predictor()
        likely = predictor.probabilities(images).argmax(axis=1)
        return [predictor.class_names[number] for number in likely]
