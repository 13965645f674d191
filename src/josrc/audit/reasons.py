"""Why a sample has its verdict, as a sentence for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from josrc.audit.verdicts import Findings, Verdicts
from josrc.data.noise import CLEAN, ID, Labels

# From so many visits on, the running shares are about the last ten epochs.
WINDOW = 10


def reasons(
    verdicts: Verdicts, findings: Findings, given: Labels, names: Sequence[str]
) -> Iterator[str]:
    """A sentence a sample."""
    quoted = [f'"{name}"' for name in names]
    usually = _percent(verdicts.usual.confidence)
    rows = zip(
        verdicts.group.tolist(),
        given.tolist(),
        findings.visits.tolist(),
        findings.label_share.tolist(),
        findings.rival.tolist(),
        findings.rival_share.tolist(),
        findings.confidence.tolist(),
        strict=True,
    )
    for group, label, visits, label_share, rival, rival_share, confidence in rows:
        if visits == 0:
            yield "The model has not seen this image yet."
            continue
        when = "the last epochs" if visits > WINDOW else f"its first {_epochs(visits)}"
        ours = f"{quoted[label]}, the given label, in {_looks(label_share)}"
        other = f"{quoted[rival]} in {_looks(rival_share)}"
        if group == CLEAN:
            rest = f" and {other}" if rival >= 0 and rival_share >= 0.005 else ""
            yield f"In {when} the model saw {ours}{rest}."
        elif group == ID:
            yield f"In {when} the model saw {other} and {ours}."
        else:
            yield (
                f"In {when} the model could not tell what this is: its best guess had "
                f"{_percent(confidence)} on average, against {usually} for images whose label it "
                "believes."
            )


def held_out_reasons(
    verdicts: Verdicts, findings: Findings, given: Labels, names: Sequence[str]
) -> Iterator[str]:
    """A sentence for each image that was not trained on, whose findings are one prediction."""
    quoted = [f'"{name}"' for name in names]
    usually = _percent(verdicts.usual.confidence)
    rows = zip(
        verdicts.group.tolist(),
        given.tolist(),
        findings.support.tolist(),
        findings.rival.tolist(),
        findings.rival_share.tolist(),
        findings.confidence.tolist(),
        strict=True,
    )
    for group, label, support, rival, rival_share, confidence in rows:
        ours = f"{_percent(support)} to {quoted[label]}, the given label"
        other = f"{_percent(rival_share)} to {quoted[rival]}"
        start = "Held out of training; the final model"
        if group == CLEAN:
            yield f"{start} gives {ours}, and {other}."
        elif group == ID:
            yield f"{start} gives {other}, and {ours}."
        else:
            yield (
                f"{start} can't tell what this is: its best guess has {_percent(confidence)}, "
                f"against {usually} for training images whose label it believes."
            )


def _epochs(count: int) -> str:
    return "epoch" if count == 1 else f"{count} epochs"


def _looks(share: float) -> str:
    percent = round(100 * share)
    return {0: "none", 100: "all of its looks"}.get(percent, f"{percent} % of its looks")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
