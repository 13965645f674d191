"""What the battery keeps: a line per case as it ends, the table of figures, and every bad case."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import cases
from .cases import Result

# Groups that are no single command with hostile input.
KILLS, FAULTS = "kills", "faults"
REVIEW_KILLS, LATENCY, LOAD, GROWTH = "review kills", "review latency", "review load", "growth"
MEASURED = (REVIEW_KILLS, LATENCY, LOAD, GROWTH)


class Record:
    """The cases that have ended, in a JSONL file that a battery that goes on reads first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: list[Result] = []
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            self.results = [Result(**json.loads(line)) for line in lines if line.endswith("}")]

    @property
    def done(self) -> set[tuple[str, str]]:
        """Groups and names of what has ended."""
        return {result.key for result in self.results}

    def forget_bad(self) -> None:
        """Keep only what ended well; the rest counts as not run."""
        self.results = [one for one in self.results if one.outcome in cases.GOOD]
        lines = [json.dumps(one.line()) + "\n" for one in self.results]
        self.path.write_text("".join(lines), encoding="utf-8")

    def add(self, result: Result) -> None:
        """Keep a case."""
        self.results.append(result)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.line()) + "\n")


def hostile(results: Iterable[Result]) -> list[Result]:
    """Cases of one command, or one request, with hostile input."""
    return [one for one in results if one.group not in (KILLS, FAULTS, *MEASURED)]


def figures(results: list[Result], about: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a battery, as JSON."""
    inputs = hostile(results)
    count = Counter(one.outcome for one in inputs)
    groups = {
        group: dict(Counter(one.outcome for one in inputs if one.group == group))
        for group in dict.fromkeys(one.group for one in inputs)
    }
    kills = [one for one in results if one.group == KILLS]
    faults = [one for one in results if one.group == FAULTS]
    return {
        **about,
        "hostile_cases": len(inputs),
        "tracebacks": count[cases.TRACEBACK],
        "hangs_over_60_s": count[cases.HANG],
        "processes_over_2_gib_above_base": count[cases.MEMORY],
        "wrote_outside": count[cases.OUTSIDE],
        "files_lost": count[cases.LOST],
        "executed": count[cases.EXECUTED],
        "other_bad": sum(count[kind] for kind in (cases.LONG, cases.ESCAPE, cases.CODE)),
        "outcomes": dict(count.most_common()),
        "groups": groups,
        "kills": sum(one.figures.get("kills", 0) for one in kills),
        "kills_that_differ": sum(one.outcome != cases.ACCEPTED for one in kills),
        "faults": len(faults),
        "faults_that_differ": sum(one.outcome not in cases.GOOD for one in faults),
        "measured": {one.name: one.figures for one in results if one.group in MEASURED},
    }


def table(found: dict[str, Any]) -> str:
    """The figures as a table for people, in Markdown."""
    lines = ["| what | count |", "|---|---:|"]
    named = {
        "hostile_cases": "hostile cases", "tracebacks": "tracebacks", "hangs_over_60_s": "hangs over 60 s",
        "processes_over_2_gib_above_base": "processes over 2 GiB above their base",
        "wrote_outside": "cases that wrote outside --out", "files_lost": "cases that lost a file",
        "executed": "cases that executed what a file holds", "other_bad": "escape sequences, endless messages, odd exit codes",
        "kills": "kills", "kills_that_differ": "rounds of kills whose result differs",
        "faults": "torn files and disks that fail", "faults_that_differ": "of these, bad ends",
    }  # fmt: skip
    lines += [f"| {title} | {found[key]:,} |" for key, title in named.items()]
    lines += ["", "| group | cases | clear error | accepted | bad |", "|---|---:|---:|---:|---:|"]
    for group, count in found["groups"].items():
        total, clear, accepted = (
            sum(count.values()),
            count.get(cases.CLEAR, 0),
            count.get(cases.ACCEPTED, 0),
        )
        lines.append(f"| {group} | {total} | {clear} | {accepted} | {total - clear - accepted} |")
    lines += [""] + [f"- {name}: {_told(one)}" for name, one in found["measured"].items()]
    return "\n".join(lines)


def _told(numbers: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in numbers.items())


def write(folder: Path, results: list[Result], about: dict[str, Any]) -> str:
    """Write figures.json and bad.json, and give the table."""
    found = figures(results, about)
    (folder / "figures.json").write_text(json.dumps(found, indent=2) + "\n")
    bad = [one.line() for one in results if one.outcome not in cases.GOOD]
    (folder / "bad.json").write_text(json.dumps(bad, indent=1) + "\n")
    return table(found)
