"""Two runs on the same images: which verdicts changed, and what became of decisions."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josrc._console import clipped
from josrc.data.noise import CLEAN, ID, OOD
from josrc.errors import UserError, no_verdicts
from josrc.runs.run import Run
from josrc.verdicts.decided import TITLES, SampleDecision, read_sample_decisions
from josrc.verdicts.table import VERDICT_TITLES, read_verdicts, verdicts_of

if TYPE_CHECKING:
    import pandas

# Contradicted decisions that are named one by one.
MAX_NAMED = 20
COLUMNS = ["id", "path", "given_label", "verdict", "suggested_label", "confidence"]
# What stands where a run has no such figure.
UNKNOWN = "-"


@dataclass(frozen=True)
class Contradiction:
    """A decision that the second run's verdict speaks against.

    Attributes:
        id: what the sample is called.
        decided: the decision, in words.
        now: the verdict, in words.
        confidence: of the verdict.
    """

    id: str
    decided: str
    now: str
    confidence: float


@dataclass
class Comparison:
    """A run beside an earlier one on the same images, matched by id and file.

    Attributes:
        names: of the two run folders.
        figures: of both runs, by what they are called.
        both: samples in both runs.
        gone: those of the first run alone.
        new: those of the second run alone.
        relabelled: samples in both whose given labels differ.
        verdicts: how often each verdict of the first run became each verdict of the second.
        suggestions: samples that both call mislabelled, with another suggestion.
        decisions: by outcome and by what the second run makes of it: ``confirmed``,
            ``contradicted``, or ``gone`` if the sample is not in it.
        contradicted: the surest contradictions.
    """

    names: tuple[str, str]
    figures: list[tuple[str, str, str]]
    both: int = 0
    gone: int = 0
    new: int = 0
    relabelled: int = 0
    verdicts: dict[tuple[str, str], int] = field(default_factory=dict)
    suggestions: int = 0
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    contradicted: list[Contradiction] = field(default_factory=list)

    def matching(self) -> str:
        """How the samples of both runs go together."""
        parts = [
            f"{count:,} only in {clipped(name)}"
            for count, name in zip((self.gone, self.new), self.names, strict=True)
            if count
        ]
        text = f"{self.both:,} images are in both runs" + "".join(f", {part}" for part in parts)
        return text + (
            f"; {self.relabelled:,} have a different label now." if self.relabelled else "."
        )

    def changes(self) -> list[tuple[str, str, int]]:
        """Verdicts that changed, the most frequent first."""
        found = [(a, b, n) for (a, b), n in self.verdicts.items() if a != b]
        return sorted(found, key=lambda change: -change[2])

    def verdict_lines(self) -> list[str]:
        """What became of the verdicts."""
        changed = sum(count for _, _, count in self.changes())
        lines = [f"{self.both - changed:,} verdicts are the same, {changed:,} are not."]
        lines += [
            f"{_words(before)} to {_words(now)}: {count:,}" for before, now, count in self.changes()
        ]
        if self.suggestions:
            lines.append(f"Mislabelled in both, with a different suggestion: {self.suggestions:,}")
        return lines

    def decision_lines(self) -> list[str]:
        """What the second run makes of the decisions on the first one."""
        total = self.decisions.total()
        if not total:
            return [f"There are no decisions in {clipped(self.names[0])}."]
        said: Counter[str] = Counter()
        for (_, what), count in self.decisions.items():
            said[what] += count
        lines = [
            f"Of {total:,} decisions on {clipped(self.names[0])} {said['confirmed']:,} are "
            f"confirmed by the verdicts of {clipped(self.names[1])}, {said['contradicted']:,} "
            f"contradicted, and {said['gone']:,} are on images that it does not have."
        ]
        for outcome, title in TITLES.items():
            counts = [self.decisions[outcome, what] for what in ("confirmed", "contradicted")]
            if sum(counts):
                lines.append(f"{title}: {counts[0]:,} confirmed, {counts[1]:,} contradicted")
        return lines

    def described(self) -> dict[str, Any]:
        """What the report shows of it."""
        return {
            "names": [clipped(name) for name in self.names],
            "figures": self.figures,
            "matching": self.matching(),
            "verdicts": self.verdict_lines(),
            "decisions": self.decision_lines(),
            "contradicted": [
                {**asdict(one), "id": clipped(one.id), "decided": clipped(one.decided)}
                for one in self.contradicted
            ],
        }

    def text(self) -> str:
        """The whole of it, for a terminal."""
        names = [clipped(name) for name in self.names]
        wide = [max(map(len, column)) for column in zip(*self.figures, ("", *names), strict=True)]
        rows = [("", *names), *self.figures]
        table = [
            f"{row[0]:<{wide[0]}}  {row[1]:>{wide[1]}}  {row[2]:>{wide[2]}}".rstrip()
            for row in rows
        ]
        lines = [*table, "", self.matching(), *self.verdict_lines(), "", *self.decision_lines()]
        if self.contradicted:
            lines.append("Worth another look, the most certain first:")
        lines += [
            f"  {clipped(one.id)}: {clipped(one.decided)}, but {clipped(one.now)} "
            f"({one.confidence:.2f})"
            for one in self.contradicted
        ]
        return "\n".join(lines)


def compare_runs(before: str | Path, now: str | Path) -> Comparison:
    """Compare a run with an earlier one on the same images.

    Args:
        before: the folder of the earlier run.
        now: that of the later one.
    """
    runs = [Run.load(before), Run.load(now)]
    if runs[0].path.samefile(runs[1].path):
        raise UserError(f"{before} and {now} are the same run.")
    named = runs[0].config.data.name == runs[1].config.data.name
    first, second = (_verdicts(run) for run in runs)
    keys = ["id", "path"]
    # Samples without files have numbers for ids, which say nothing of another data set's.
    joined = first.merge(second, on=keys, suffixes=("", "_now"), how="outer", indicator=True)
    there = joined[(joined["_merge"] == "both") & (named | (joined["path"] != ""))]
    if not len(there):
        raise UserError(
            f"{before} and {now} have no image in common: samples are matched by id and file."
        )
    found = Comparison(
        names=(str(before), str(now)),
        figures=_figures(runs),
        both=len(there),
        gone=len(first) - len(there),
        new=len(second) - len(there),
        relabelled=int((there["given_label"] != there["given_label_now"]).sum()),
        verdicts={
            (str(a), str(b)): int(n)
            for (a, b), n in there.groupby(["verdict", "verdict_now"]).size().items()
        },
    )
    other = there["suggested_label"] != there["suggested_label_now"]
    wrong = VERDICT_TITLES[ID]
    suspected = (there["verdict"] == wrong) & (there["verdict_now"] == wrong)
    found.suggestions = int((suspected & other).sum())
    _judge_decisions(found, read_sample_decisions(runs[0].path / "audit"), there)
    return found


def _verdicts(run: Run) -> pandas.DataFrame:
    """The columns of a run's verdicts that are compared, with their rows."""
    import pandas

    path = verdicts_of(run.path / "audit")
    if not path.exists():
        raise no_verdicts(run.path)
    table = pandas.concat(frame[COLUMNS] for frame in read_verdicts(path))
    return table.assign(row=range(len(table)))


def _judge_decisions(
    found: Comparison, decided: dict[int, SampleDecision], there: pandas.DataFrame
) -> None:
    """Count what the second run's verdicts make of the decisions on the first run."""
    lines = there[there["row"].isin(list(decided))].set_index("row")
    found.decisions.update(
        (one.outcome, "gone") for row, one in decided.items() if row not in lines.index
    )
    against = []
    for row, line in lines.iterrows():
        one = decided[int(row)]
        agrees = confirmed(one, line["given_label"], line["given_label_now"], line["verdict_now"],
                           line["suggested_label_now"])  # fmt: skip
        found.decisions[one.outcome, "confirmed" if agrees else "contradicted"] += 1
        if not agrees:
            now = _now(line["given_label_now"], line["verdict_now"], line["suggested_label_now"])
            against.append(Contradiction(line["id"], one.text, now, float(line["confidence_now"])))
    against.sort(key=lambda one: -one.confidence)
    found.contradicted = against[:MAX_NAMED]


def confirmed(one: SampleDecision, before: str, given: str, verdict: str, suggested: str) -> bool:
    """Whether a verdict says what somebody has decided.

    Args:
        one: the decision.
        before: the label that the sample had when it was made.
        given: the label that it has now.
        verdict: on that label.
        suggested: the class that the sample seems to be, if it is called mislabelled.
    """
    if one.outcome == "remove":
        return verdict == VERDICT_TITLES[OOD]
    right = one.label or before
    if verdict == VERDICT_TITLES[CLEAN]:
        return given == right
    return verdict == VERDICT_TITLES[ID] and suggested == right


def _now(given: str, verdict: str, suggested: str) -> str:
    """A verdict in words."""
    if verdict == VERDICT_TITLES[CLEAN]:
        return f"'{given}' looks right"
    if verdict == VERDICT_TITLES[ID]:
        return f"it looks like '{suggested}', not '{given}'"
    return "it looks like no class"


def _words(verdict: str) -> str:
    return verdict.replace("_", " ")


def _figures(runs: list[Run]) -> list[tuple[str, str, str]]:
    """What both runs are, and how good; a figure that neither has is left out."""
    columns = [_of_run(run) for run in runs]
    rows = [(name, columns[0][name], columns[1][name]) for name in columns[0]]
    return [row for row in rows if row[1:] != (UNKNOWN, UNKNOWN)]


def _of_run(run: Run) -> dict[str, str]:
    summary, audit = run.summary, run.audit or {}
    counts: dict[str, Any] = audit.get("counts", {})
    low, high = audit.get("noise_rate_low"), audit.get("noise_rate_high")
    span = (
        ""
        if low is None or high is None or low == high
        else f" ({100 * low:.1f} to {100 * high:.1f})"
    )
    return {
        "data": clipped(str(summary.get("data", UNKNOWN))),
        "method": str(summary.get("method", UNKNOWN)),
        "model": str(run.config.model.name),
        "epochs": str(summary.get("epochs", UNKNOWN)),
        "test accuracy, %": _number(summary.get("last10_mean")),
        "best test accuracy, %": _number(summary.get("best")),
        "agreement with held-out labels, %": _number(summary.get("agreement")),
        "labels estimated wrong, %": _percent(audit.get("noise_rate")) + span,
        "of accused labels, truly wrong, %": _percent(audit.get("estimated_precision")),
        **{
            _words(title): f"{counts[title]:,}" if counts else UNKNOWN
            for title in VERDICT_TITLES.values()
        },
    }


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f}"
