"""``verdicts.csv``, its one writer and its one reader, and ``summary.json`` beside it.

Very many verdicts are parts in a folder ``verdicts`` in its place: see ``table_parts``.
"""

from __future__ import annotations

import csv
import json
import math
import shlex
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from josrc._io import atomic_csv, write_text
from josrc._reading import regular
from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.errors import UserError
from josrc.verdicts.findings import Findings, Vector
from josrc.verdicts.reasons import reasons
from josrc.verdicts.rule import Verdicts
from josrc.verdicts.table_parts import NUMBERS, read_parts, write_parts

if TYPE_CHECKING:
    import pandas
    from pandas import DataFrame

VERDICTS_NAME, PARTS_NAME = "verdicts.csv", "verdicts"

# What the groups are called in files.
VERDICT_TITLES = {CLEAN: "clean", ID: "mislabelled", OOD: "out_of_distribution"}
VERDICT_COLUMNS = (
    "id", "path", "given_label", "verdict", "suggested_label", "p_clean", "p_ood", "confidence",
    "score", "reason",
)  # fmt: skip
# As an earlier josrc wrote them.
COLUMNS_WITHOUT_SCORE = tuple(name for name in VERDICT_COLUMNS if name != "score")
# As many digits as keep the order of float32 numbers.
PROBABILITY, SCORE = "{:.4f}", "{:.9g}"
# Verdicts below this confidence are borderline: worth a second look. Those of confidence 0 are none
# yet, as training has not reached their samples.
BORDERLINE = 0.7
# More verdicts than these are no CSV file but parts, where pyarrow is installed.
MAX_CSV_ROWS = 2_000_000
# Rows that are written or read at a time: more would only take more memory.
CHUNK = 50_000
# Pairs of classes that the summary names.
MAX_PAIRS = 20


@dataclass(frozen=True)
class AuditPart:
    """Verdicts on some samples, and what is needed to tell of them.

    Attributes:
        verdicts: on every sample.
        findings: what they rest on.
        given: the given labels.
        ids: what the samples are called.
        paths: where their images lie; an empty string for none.
    """

    verdicts: Verdicts
    findings: Findings
    given: Labels
    ids: Sequence[str] | Sequence[int]
    paths: Sequence[str]


def verdicts_of(audit: Path) -> Path:
    """Where the verdicts in an audit folder are, if there are any: a file, or a folder of parts."""
    file, parts = audit / VERDICTS_NAME, audit / PARTS_NAME
    return parts if parts.is_dir() and not file.is_file() else file


def write_verdicts(path: Path, parts: Sequence[AuditPart], names: Sequence[str]) -> None:
    """Write a line per sample, in data order; very many of them as parts.

    Args:
        path: the file.
        parts: what was judged, one after the other.
        names: of the classes of the task.
    """
    folder = path.with_name(PARTS_NAME)
    chunks = [
        (part, range(start, min(start + CHUNK, len(part.given))))
        for part in parts
        for start in range(0, len(part.given), CHUNK)
    ]
    if sum(len(rows) for _, rows in chunks) > MAX_CSV_ROWS and find_spec("pyarrow"):
        frames = (_frame(_lines(part, rows, names)) for part, rows in chunks)
        with suppress(UnicodeEncodeError):  # some names are no UTF-8: only CSV holds them
            write_parts(folder, VERDICT_COLUMNS, frames, lambda: path.unlink(missing_ok=True))
            return
    with atomic_csv(path) as write:
        write([VERDICT_COLUMNS])
        for part, rows in chunks:
            write(_lines(part, rows, names))
        shutil.rmtree(folder, ignore_errors=True)


def _frame(lines: Iterable[tuple[Any, ...]]) -> pandas.DataFrame:
    """Lines with their numbers as numbers: those that the texts of a CSV file are."""
    import pandas

    frame = pandas.DataFrame(lines, columns=list(VERDICT_COLUMNS), dtype=object)
    return frame.astype(dict.fromkeys(NUMBERS, float))


def _lines(audited: AuditPart, rows: range, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    named = [*names, ""]  # the suggestion -1 is no class
    some = slice(rows.start, rows.stop)
    part, given = audited.verdicts.part(some), audited.given[some]
    return zip(
        (audited.ids[row] for row in rows),
        (audited.paths[row] for row in rows),
        (names[label] for label in given.tolist()),
        (VERDICT_TITLES[group] for group in part.group.tolist()),
        (named[label] for label in part.suggested.tolist()),
        *(map(PROBABILITY.format, p.tolist()) for p in part.probabilities),
        map(SCORE.format, part.score.tolist()),
        reasons(part, audited.findings.part(some), given, names),
        strict=True,
    )


def read_verdicts(
    path: Path,
    columns: Sequence[str] = VERDICT_COLUMNS,
    chosen: NDArray[np.int64] | None = None,
) -> Iterator[DataFrame]:
    """The lines of ``verdicts.csv``, so many at a time, by their rows.

    All cells are texts as they stand there; those of ``NUMBERS`` can be read as numbers, and are
    numbers in a table in parts. Where a file has no scores, ``p_clean`` stands in for them.

    Args:
        path: the file, or the folder of the parts that stand in its place.
        columns: those that are needed; of a file all of them are read anyway.
        chosen: numbers of the rows that are needed, rising; all of them by default.
    """
    path = verdicts_of(path.parent) if path.name == VERDICTS_NAME else path
    if not path.is_dir():
        for frame in _read_file(path):
            yield frame if chosen is None else frame[frame.index.isin(chosen)]
        return
    for frame in read_parts(path, VERDICT_COLUMNS, columns, CHUNK, chosen):
        _check(frame, path)
        yield frame


def _read_file(path: Path) -> Iterator[DataFrame]:
    """The lines of a CSV file."""
    import pandas

    options = {
        "dtype": object,  # any name, be it UTF-8 or not
        "keep_default_na": False,
        "encoding_errors": "surrogateescape",
        "index_col": False,
    }
    try:
        found = tuple(pandas.read_csv(regular(path), nrows=0, **options).columns)
        if found not in (VERDICT_COLUMNS, COLUMNS_WITHOUT_SCORE):
            wanted = ", ".join(VERDICT_COLUMNS)
            raise UserError(f"{path} has columns other than those josrc writes: {wanted}.")
        with pandas.read_csv(regular(path), chunksize=CHUNK, **options) as frames:
            while (frame := _next(frames)) is not None:
                if found == COLUMNS_WITHOUT_SCORE:
                    frame.insert(VERDICT_COLUMNS.index("score"), "score", frame["p_clean"])
                _check(frame, path)
                yield frame
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, csv.Error) as error:
        raise UserError(f"{path} can't be read: {error}") from None
    except pandas.errors.EmptyDataError:
        raise UserError(f"{path} is empty. {_write_again(path)}") from None


def _next(frames: Iterator[pandas.DataFrame]) -> pandas.DataFrame | None:
    """Further lines, if there are any; of a cell too many pandas only warns."""
    import pandas

    with warnings.catch_warnings(action="error", category=pandas.errors.ParserWarning):
        return next(frames, None)


def _check(frame: pandas.DataFrame, path: Path) -> None:
    """Raise an error that names the first line that is no verdict."""
    there = [name for name in NUMBERS if name in frame]
    try:
        numbers = frame[there].astype(float)
    except ValueError:
        numbers = frame[there].map(_number)
    wrong = ~np.isfinite(numbers).all(axis=1)
    shares = numbers.drop(columns="score", errors="ignore")
    wrong |= ((shares < 0) | (shares > 1)).any(axis=1)
    if "reason" in frame:  # every verdict has one: where there is none the line is too short
        wrong |= frame["reason"] == ""
    if "verdict" in frame:
        wrong |= ~frame["verdict"].isin(list(VERDICT_TITLES.values()))
    if wrong.any():
        raise not_a_verdict(path, int(frame.index[wrong.to_numpy()][0]))


def _number(cell: str) -> float:
    """A cell as every reader of these lines will read it."""
    try:
        return float(cell)
    except ValueError:
        return math.nan


def not_a_verdict(path: Path, row: int) -> UserError:
    """The error of a line, by its row."""
    line = f"{path}, row {row}" if path.is_dir() else f"{path}, line {row + 2}"
    return UserError(f"{line} is not a verdict of this run. {_write_again(path)}")


def _write_again(path: Path) -> str:
    return f"Write the file again: josrc audit {shlex.quote(str(path.parent.parent))}"


def summarise(parts: Sequence[AuditPart], names: Sequence[str]) -> dict[str, Any]:
    """Counts, estimated noise rates and the pairs of classes that are most often confused."""
    given = np.concatenate([part.given for part in parts])
    group = np.concatenate([part.verdicts.group for part in parts])
    suggested = np.concatenate([part.verdicts.suggested for part in parts])
    counts = {number: group == number for number in VERDICT_TITLES}
    by_class = {g: np.bincount(given[chosen], minlength=len(names)) for g, chosen in counts.items()}
    total = np.bincount(given, minlength=len(names))
    classes = [
        {
            "class": name,
            "samples": int(total[place]),
            **{VERDICT_TITLES[number]: int(found[place]) for number, found in by_class.items()},
            "noise_rate": _share(total[place] - by_class[CLEAN][place], total[place]),
        }
        for place, name in enumerate(names)
    ]
    samples = len(given)
    return {
        "samples": samples,
        "counts": {VERDICT_TITLES[number]: int(chosen.sum()) for number, chosen in counts.items()},
        "noise_rate": _share(samples - counts[CLEAN].sum(), samples),
        "ood_share": _share(counts[OOD].sum(), samples),
        "classes": classes,
        "confused_pairs": [
            {"given": names[label], "suggested": names[other], "count": count}
            for (label, other), count in islice(
                confused_pairs(group, suggested, given).items(), MAX_PAIRS
            )
        ],
    }


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write ``summary.json``."""
    write_text(path, json.dumps(summary, indent=2) + "\n")


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else 0.0


def confused_pairs(group: Vector, suggested: Vector, given: Labels) -> dict[tuple[int, int], int]:
    """How often each given label stands for each other class, the most frequent first.

    Args:
        group: the verdicts, ``(N,)``.
        suggested: the class that each sample seems to be, -1 for none.
        given: the given labels.
    """
    wrong = (group == ID) & (suggested >= 0)
    pairs, counts = np.unique(
        np.stack([given[wrong], suggested[wrong]]), axis=1, return_counts=True
    )
    order = np.argsort(-counts, kind="stable").tolist()
    return {(int(pairs[0, i]), int(pairs[1, i])): int(counts[i]) for i in order}
