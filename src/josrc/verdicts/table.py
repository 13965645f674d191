"""``verdicts.csv``, its one writer and its one reader, and ``summary.json`` beside it."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from josrc._io import atomic_csv, write_text
from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.errors import UserError
from josrc.verdicts.findings import Findings, Vector
from josrc.verdicts.reasons import reasons
from josrc.verdicts.rule import Verdicts

if TYPE_CHECKING:
    import pandas

# What the groups are called in files.
VERDICT_TITLES = {CLEAN: "clean", ID: "mislabelled", OOD: "out_of_distribution"}
VERDICT_COLUMNS = (
    "id", "path", "given_label", "verdict", "suggested_label", "p_clean", "p_ood", "confidence",
    "score", "reason",
)  # fmt: skip
# As an earlier josrc wrote them.
COLUMNS_WITHOUT_SCORE = tuple(name for name in VERDICT_COLUMNS if name != "score")
NUMBERS = ["p_clean", "p_ood", "confidence", "score"]
# As many digits as keep the order of float32 numbers.
SCORE = "{:.9g}"
# Verdicts below this confidence are borderline: worth a second look. Those of confidence 0 are none
# yet, as training has not reached their samples.
BORDERLINE = 0.7
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


def write_verdicts(path: Path, parts: Sequence[AuditPart], names: Sequence[str]) -> None:
    """Write a line per sample, in data order.

    Args:
        path: the file.
        parts: what was judged, one after the other.
        names: of the classes of the task.
    """
    with atomic_csv(path) as write:
        write([VERDICT_COLUMNS])
        for part in parts:
            for start in range(0, len(part.given), CHUNK):
                write(_lines(part, range(start, min(start + CHUNK, len(part.given))), names))


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
        *(map("{:.4f}".format, p.tolist()) for p in part.probabilities),
        map(SCORE.format, part.score.tolist()),
        reasons(part, audited.findings.part(some), given, names),
        strict=True,
    )


def read_verdicts(path: Path) -> Iterator[pandas.DataFrame]:
    """The lines of ``verdicts.csv``, so many at a time, by their rows.

    All cells are texts as they stand there; those of ``NUMBERS`` can be read as numbers. Where a
    file has no scores, ``p_clean`` stands in for them.
    """
    import pandas

    options = {
        "dtype": object,  # any name, be it UTF-8 or not
        "keep_default_na": False,
        "encoding_errors": "surrogateescape",
        "index_col": False,
    }
    try:
        found = tuple(pandas.read_csv(path, nrows=0, **options).columns)
        if found not in (VERDICT_COLUMNS, COLUMNS_WITHOUT_SCORE):
            wanted = ", ".join(VERDICT_COLUMNS)
            raise UserError(f"{path} has other columns than josrc writes: {wanted}.")
        with pandas.read_csv(path, chunksize=CHUNK, **options) as frames:
            while (frame := _next(frames)) is not None:
                if found == COLUMNS_WITHOUT_SCORE:
                    frame.insert(VERDICT_COLUMNS.index("score"), "score", frame["p_clean"])
                _check(frame, path)
                yield frame
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
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
    import pandas

    numbers = frame[NUMBERS].apply(pandas.to_numeric, errors="coerce")
    # Every verdict has a reason: where there is none the line is too short.
    wrong = numbers.isna().any(axis=1) | (frame["reason"] == "")
    wrong |= ~frame["verdict"].isin(list(VERDICT_TITLES.values()))
    if wrong.any():
        raise not_a_verdict(path, int(frame.index[wrong.to_numpy()][0]))


def not_a_verdict(path: Path, row: int) -> UserError:
    """The error of a line, by its row."""
    return UserError(f"{path}, line {row + 2} is not a verdict of this run. {_write_again(path)}")


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
