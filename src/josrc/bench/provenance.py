"""What results were made from: version, commit, settings, and where rows of a table differ."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from josrc.bench.plan import SUITES, Entry, Suite
from josrc.bench.results import Result, Results
from josrc.bench.tables import runs_of, title_of, with_earlier
from josrc.config import RunConfig

SOURCE = Path(__file__).resolve().parent.parent
# What cells and seeds differ in by design, and what follows from them.
OF_A_CELL = ("data.noise", "data.rate", "seed", "method.forget_rate")
UNRECORDED = "without a record of its commit"
SHORT_COMMIT = 10


@cache
def commit() -> str | None:
    """The commit of the code that runs, marked if the code is not as committed.

    None if it is no checkout, as where josrc is installed.
    """
    found = _git("rev-parse", "HEAD")
    if not found or not _git("ls-files", "--", __file__):
        return None
    return found + (" (changed)" if _git("status", "--porcelain", "--", ".") else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=SOURCE, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def record(config: RunConfig) -> dict[str, Any]:
    """What a result's file says of its origin: the commit, and the run's settings as resolved.

    Those of the method alone are ``settings``; ``configuration`` has all others by their keys.
    """
    whole = {
        key: _without_folder(value)
        for key, value in config.identity().items()
        if not key.startswith("method.")
    }
    return {
        "commit": commit(),
        "settings": config.method.model_dump(mode="json"),
        "configuration": whole,
    }


def _without_folder(value: Any) -> Any:
    """A file by its name alone: its folder is that of somebody's machine."""
    is_place = isinstance(value, str) and Path(value).is_absolute()
    return Path(value).name if is_place else value


def origins(name: str, results: Results) -> str:
    """Where the runs behind the rows of a table differ in what they were made from."""
    if name not in SUITES:
        return ""
    suite = SUITES[name]
    return differences(
        {
            _row(entry, suite, recipe): [
                run for cell in suite.cells for run in runs_of(results, suite, cell, entry, recipe)
            ]
            for recipe in suite.recipes
            for entry in with_earlier(results, suite, recipe)
        }
    )


def _row(entry: Entry, suite: Suite, recipe: str) -> str:
    """A row as a sentence names it: ``Jo-SRC plain``."""
    told = entry.recipe or (recipe if len(suite.recipes) > 1 and recipe != "augmented" else "")
    return f"{title_of(entry)} {told}".strip()


def differences(rows: Mapping[str, Sequence[Result]]) -> str:
    """Where the runs of a table differ other than by method, cell and seed: sentences, or none.

    Args:
        rows: the runs behind each row of a table.
    """
    return " ".join(sentence for sentence in (_origins(rows), _settings(rows)) if sentence)


def _origins(rows: Mapping[str, Sequence[Result]]) -> str:
    """Versions and commits, if they are not one."""
    found = Counter(_origin(run) for runs in rows.values() for run in runs)
    if len(found) < 2 and not any(UNRECORDED in origin for origin in found):
        return ""
    parts = [f"{origin} ({count})" for origin, count in found.most_common()]
    return f"Made from (runs): {'; '.join(parts)}." if parts else ""


def _origin(run: Result) -> str:
    version = f"josrc {run.versions.get('josrc', '?')}"
    if run.commit is None:
        return f"{version}, {UNRECORDED}"
    return f"{version} at {short(run.commit)}"


def short(found: str | None) -> str:
    """A commit as people read it, ``67fd862a1b``; nothing where there is no record."""
    sha, *changed = (found or "").split(" ", 1)
    return " ".join([sha[:SHORT_COMMIT], *changed])


def _settings(rows: Mapping[str, Sequence[Result]]) -> str:
    """Settings that are not the same in all rows or, those of a method, in all runs of one."""
    recorded = {title: _known(runs) for title, runs in rows.items()}
    recorded = {title: known for title, known in recorded.items() if known}
    common = sorted({key for known in recorded.values() for each in known for key in each})
    parts = list(_between([key for key in common if not key.startswith("method.")], recorded))
    parts += _inside(recorded)
    return f"Not alike: {'; '.join(parts)}." if parts else ""


def _known(runs: Sequence[Result]) -> list[dict[str, str]]:
    """The settings of each run that has a record, values as text."""
    return [
        {key: json.dumps(value) for key, value in _flat(run).items() if key not in OF_A_CELL}
        for run in runs
        if run.configuration
    ]


def _flat(run: Result) -> dict[str, Any]:
    method = {f"method.{key}": value for key, value in run.settings.items()}
    return {**run.configuration, **method, "torch": run.versions.get("torch"), "device": run.device}


def _between(
    keys: Sequence[str], recorded: Mapping[str, Sequence[Mapping[str, str]]]
) -> Iterator[str]:
    """Each key with the rows that have another value than most."""
    for key in keys:
        values = {title: {each.get(key, "") for each in known} for title, known in recorded.items()}
        usual, _ = Counter(value for found in values.values() for value in found).most_common(1)[0]
        others = [title for title, found in values.items() if found != {usual}]
        if others:
            yield f"`{key}` ({', '.join(others)})"


def _inside(recorded: Mapping[str, Sequence[Mapping[str, str]]]) -> Iterator[str]:
    """Each setting of a method that differs between the runs of one row."""
    for title, known in recorded.items():
        keys = sorted({key for each in known for key in each if key.startswith("method.")})
        for key in keys:
            if len({each.get(key) for each in known}) > 1:
                yield f"`{key}` between the runs of {title}"
