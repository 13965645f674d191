"""What is looked at in a review: samples by what is asked for, and how many there are of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from josrc.data.noise import CLEAN
from josrc.review.index import IN_DOUBT, folded
from josrc.verdicts.proportions import wilson_interval
from josrc.verdicts.table import VERDICT_TITLES

Entry = dict[str, Any]

SHOWN = (
    "row", "id", "path", "given", "verdict", "suggested", "p_clean", "p_ood", "confidence",
    "reason", "place", "outcome", "label",
)  # fmt: skip


@dataclass(frozen=True)
class Filter:
    """Which samples are looked at; empty strings are no condition.

    Attributes:
        verdict: ``clean``, ``mislabelled``, ``out_of_distribution``, ``flagged`` (the latter two),
            ``borderline``, ``spot_check`` (some that were drawn at random), ``disagreement``
            (those on which annotators disagree, the most divided first), or ``budget`` (those that
            there is time for).
        given: a given label.
        state: ``open`` or ``decided``.
        search: part of an id, a path or a label.
    """

    verdict: str = ""
    given: str = ""
    state: str = ""
    search: str = ""

    @property
    def drawn(self) -> bool:
        """Whether samples and their order come from a table of their own."""
        return self.verdict in ("spot_check", "disagreement", "budget")

    def conditions(self) -> tuple[str, list[Any]]:
        """For a WHERE."""
        found: list[tuple[str, list[Any]]] = [("1", [])]
        if self.verdict == "borderline":
            found.append((IN_DOUBT, []))
        elif self.verdict == "flagged":
            found.append(("verdict != ?", [VERDICT_TITLES[CLEAN]]))
        elif self.verdict and not self.drawn:
            found.append(("verdict = ?", [self.verdict]))
        if self.given:
            found.append(("given = ?", [self.given]))
        if self.state:
            found.append(("outcome IS " + ("NULL" if self.state == "open" else "NOT NULL"), []))
        if self.search:
            # In the order of the file: one walk over it is faster than a million jumps.
            found_rows = "row IN (SELECT row FROM sample WHERE instr(words, ?))"
            found.append((found_rows, [folded(self.search)]))
        return " AND ".join(sql for sql, _ in found), [v for _, values in found for v in values]


class Queues:
    """Samples and counts, as the index has them with the decisions beside it."""

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query finds in the decisions and the index."""
        raise NotImplementedError

    def page(self, chosen: Filter, after: int = -1, limit: int = 60) -> list[Entry]:
        """The next samples of the queue behind a place."""
        where, values = chosen.conditions()
        place, drawn = "place", ""
        if chosen.drawn:
            place, drawn = "drawn", f"JOIN {chosen.verdict} USING (row)"
        rows = self.read(
            f"SELECT {_shown(place)} FROM sample {drawn} LEFT JOIN decision USING (row) "
            f"WHERE {place} > ? AND {where} ORDER BY {place} LIMIT ?",
            [after, *values, limit],
        )
        return [dict(zip(SHOWN, row, strict=True)) for row in rows]

    def progress(self, given: str = "") -> dict[str, dict[str, int]]:
        """Of every verdict how many samples there are, and how many of them are decided."""
        found = {title: {"samples": 0, "decided": 0} for title in VERDICT_TITLES.values()}
        where, values = ("WHERE given = ?", [given]) if given else ("", [])
        for key, source in (
            ("samples", "sum(samples) FROM census"),
            ("decided", "count(*) FROM decision CROSS JOIN sample USING (row)"),
        ):
            sql = f"SELECT verdict, {source} {where} GROUP BY verdict"
            for verdict, count in self.read(sql, values):
                found[verdict][key] = count
        return found

    def spot_check(self) -> dict[str, float]:
        """Of the samples drawn at random how many are decided, and found wrong or foreign.

        ``low`` and ``high``: between which shares that of all samples lies.
        """
        sql = (
            "SELECT count(*), count(outcome), coalesce(sum(outcome != 'keep'), 0) "
            "FROM spot_check LEFT JOIN decision USING (row)"
        )
        samples, decided, wrong = self.read(sql, [])[0]
        low, high = wilson_interval(wrong, decided)
        return {"samples": samples, "decided": decided, "wrong": wrong, "low": low, "high": high}

    def disagreements(self) -> int:
        """On how many samples annotators disagree."""
        count: int = self.read("SELECT count(*) FROM disagreement", [])[0][0]
        return count

    def classes(self) -> list[tuple[str, int]]:
        """Given labels and how many samples of each are not clean."""
        return self.read(
            "SELECT given, sum(samples * (verdict != ?)) FROM census GROUP BY given ORDER BY given",
            [VERDICT_TITLES[CLEAN]],
        )


def _shown(place: str) -> str:
    other = {"row": "sample.row", "id": "sample.id", "place": place}
    return ", ".join(other.get(name, name) for name in SHOWN)
