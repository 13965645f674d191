"""What people decided on a run, read only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from josrc._reading import regular
from josrc.errors import UserError

DECISIONS = "decisions.sqlite"


@dataclass(frozen=True)
class SampleDecision:
    """A decision on a sample.

    Attributes:
        outcome: ``keep``, ``relabel`` or ``remove``.
        label: the label of ``relabel``; empty for the others.
    """

    outcome: str
    label: str = ""

    @property
    def text(self) -> str:
        """For a person."""
        return f"now {self.label}" if self.outcome == "relabel" else TITLES[self.outcome]


TITLES = {"keep": "kept", "relabel": "relabelled", "remove": "removed"}


def read_sample_decisions(audit: Path) -> dict[int, SampleDecision]:
    """The decisions of a run by row of its ``verdicts.csv``; none if nobody has made any."""
    path = audit / DECISIONS
    if not path.is_file():
        return {}
    try:
        with closing(
            sqlite3.connect(f"{regular(path).absolute().as_uri()}?mode=ro", uri=True)
        ) as database:
            found = database.execute("SELECT row, outcome, label FROM decision ORDER BY row")
            return {row: SampleDecision(outcome, label or "") for row, outcome, label in found}
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path} can't be opened: {error}. Move it away.") from None
