"""A review on a budget: the looks that bring most, how many are done, and what is left after them.

The looks are kept beside the decisions. So who goes on tomorrow has the same ones before them, and
another budget begins where the last one ended, by what was found so far.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from josrc.review.decisions import Decisions, Store
from josrc.review.index import version_of
from josrc.review.queues import Entry
from josrc.runs.snapshot import OpenRun
from josrc.verdicts.budget import LookPlan, plan_looks
from josrc.verdicts.table import verdicts_of


class Budget:
    """A number of looks at a run's images.

    Attributes:
        store: the decisions.
        looks: how many there is time for.
        gone: rows whose images are not there any more.
    """

    def __init__(self, store: Store, looks: int, gone: Collection[int] = ()) -> None:
        self.store, self.looks, self.gone = store, looks, gone
        self._outlook = -1, ""
        self.plan()

    def plan(self) -> None:
        """Choose the looks, unless some of those that were chosen before are still to be done."""
        version = json.dumps(version_of(verdicts_of(self.store.path.parent)))
        known = self.store.read("SELECT version, looks FROM budget_of")
        done = self.progress()
        if known == [(version, self.looks)] and done["decided"] < done["samples"]:
            return
        plan = self._planned(self.looks)
        rows = plan.rows[: self.looks].tolist()
        chosen = [(row, place, json.dumps(_copies(plan, row))) for place, row in enumerate(rows)]
        with self.store.transaction() as database:
            database.execute("DELETE FROM budget")
            database.execute("DELETE FROM budget_of")
            database.executemany("INSERT INTO budget VALUES (?, ?, ?)", chosen)
            expected = plan.expected(self.looks)
            database.execute(
                "INSERT INTO budget_of VALUES (?, ?, ?)", [version, self.looks, expected]
            )

    def _planned(self, looks: int) -> LookPlan:
        return plan_from(self.store.path.parent, looks, self.store.decisions(), self.gone)

    def progress(self) -> dict[str, Any]:
        """How many looks there are, how many are done, and what they have corrected."""
        samples, decided = self.store.read(
            "SELECT count(*), count(outcome) FROM budget LEFT JOIN decision USING (row)"
        )[0]
        corrected = self.store.read(
            "SELECT count(*) FROM decision WHERE outcome != 'keep' AND row IN (SELECT row FROM "
            "budget UNION SELECT json_extract(value, '$.row') FROM budget, json_each(copies))"
        )[0][0]
        expected = self.store.read("SELECT coalesce(sum(expected), 0) FROM budget_of")[0][0]
        counts = {"samples": samples, "decided": decided, "corrected": corrected}
        return {**counts, "expected": expected}

    def copies(self) -> dict[int, list[Entry]]:
        """The copies of each look that has any, with their labels."""
        found: dict[int, list[Entry]] = {}
        for row, other, near, given in self.store.read(
            "SELECT budget.row, sample.row, json_extract(value, '$.near'), given "
            "FROM budget, json_each(copies) "
            "JOIN sample ON sample.row = json_extract(value, '$.row') ORDER BY budget.row, key"
        ):
            found.setdefault(row, []).append({"row": other, "near": bool(near), "given": given})
        return found

    def begun(self) -> str:
        """What is said when a review begins."""
        found = self.progress()
        return (
            f"{found['samples']:,} looks, {found['decided']:,} of them done. Together they are "
            f"expected to correct about {found['expected']:,.0f} labels."
        )

    def ending(self) -> str:
        """What the looks have corrected, and what is expected to be left; for the last page."""
        latest = self.store.latest()
        if self._outlook[0] != latest:
            self._outlook = latest, self._planned(0).outlook()
        found = self.progress()
        labels = "label" if found["corrected"] == 1 else "labels"
        return (
            f"{found['decided']:,} of {found['samples']:,} looks are done, and "
            f"{found['corrected']:,} {labels} corrected, copies included; about "
            f"{found['expected']:,.0f} were expected in all. {self._outlook[1]}"
        )


def plan_from(audit: Path, looks: int, decisions: Decisions, gone: Collection[int]) -> LookPlan:
    """The looks that bring most at a run on which people have decided so much."""
    decided = {row: outcome != "keep" for row, (_, (outcome, _)) in decisions.items()}
    return plan_looks(audit, looks, decided, gone)


def gone_rows(opened: OpenRun) -> list[int]:
    """Rows whose images are not there any more."""
    gone: list[int] = [] if opened.changes is None else opened.changes.gone.tolist()
    return gone


def _copies(plan: LookPlan, row: int) -> list[dict[str, Any]]:
    """The other rows that show the same picture, and whether they are only nearly the same."""
    return [
        {"row": other, "near": near}
        for near, found in ((False, plan.copies), (True, plan.near))
        for other in found.get(row, [])
    ]
