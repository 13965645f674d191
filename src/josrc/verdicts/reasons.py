"""Why a sample has its verdict, as a sentence for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from josrc.data.noise import CLEAN, ID, Labels
from josrc.verdicts.findings import Findings, Vector
from josrc.verdicts.rule import Verdicts

# From this many visits on, the running shares are about the last ten epochs.
WINDOW = 10
# Why training has not seen a label: it was held out, or an error was planted in its place.
KEPT_OUT = ("", "Held out from training", "Trained with a planted error instead of its own label")
# Who says so: a network that was trained on other images, or predictions that were there before.
SAYS = (*(f"{why}; the final model" for why in KEPT_OUT), "The prediction from similar images")
# How often, by percent.
LOOKS = ["none", *(f"{percent} % of its looks" for percent in range(1, 100)), "all of its looks"]


def reasons(
    verdicts: Verdicts, findings: Findings, given: Labels, names: Sequence[str]
) -> Iterator[str]:
    """A sentence for each sample."""
    held = findings.held > 0
    sentences = [
        make(verdicts.part(rows), findings.part(rows), given[rows], names)
        for make, rows in ((_trained, ~held), (_held, held))
    ]
    for kind in held.tolist():
        yield next(sentences[kind])


def _trained(
    verdicts: Verdicts, findings: Findings, given: Labels, names: Sequence[str]
) -> Iterator[str]:
    """Of samples that were trained on with the label that is judged."""
    # Every part that repeats is made once: a million sentences are then a matter of seconds.
    labels = [f'"{name}", the given label, in ' for name in names]
    rivals = [*(f'"{name}" in ' for name in names), ""]
    usually = (
        f"on average, against {_percent(verdicts.reference.confidence)} for images whose label"
    )
    rows = zip(
        verdicts.group.tolist(),
        given.tolist(),
        findings.visits.tolist(),
        _percents(findings.label_share),
        findings.rival.tolist(),
        _percents(findings.rival_share),
        _percents(findings.confidence),
        strict=True,
    )
    for group, label, visits, label_share, rival, rival_share, confidence in rows:
        if visits == 0:
            yield "The model has not seen this image yet."
            continue
        when = "the last epochs" if visits > WINDOW else f"its first {_looks(visits)}"
        ours = labels[label] + LOOKS[label_share]
        if group == CLEAN:
            rest = f" and {rivals[rival]}{LOOKS[rival_share]}" if rival_share else ""
            yield f"In {when} the model saw {ours}{rest}."
        elif group == ID:
            yield f"In {when} the model saw {rivals[rival]}{LOOKS[rival_share]} and {ours}."
        else:
            yield (
                f"In {when} the model was uncertain: its best guess had "
                f"{confidence} % {usually} it believes."
            )


def _held(
    verdicts: Verdicts, findings: Findings, given: Labels, names: Sequence[str]
) -> Iterator[str]:
    """Of samples whose own label training has not seen; their findings are one prediction."""
    quoted = [f'"{name}"' for name in names]
    usually = _percent(verdicts.reference.confidence)
    rows = zip(
        findings.held.tolist(),
        verdicts.group.tolist(),
        given.tolist(),
        findings.visits.tolist(),
        findings.support.tolist(),
        findings.rival.tolist(),
        findings.rival_share.tolist(),
        findings.confidence.tolist(),
        strict=True,
    )
    for held, group, label, visits, support, rival, rival_share, confidence in rows:
        if visits == 0:
            if held >= len(KEPT_OUT):
                yield "There is no information about this image."
                continue
            gone = "the image was missing when this was written."
            yield f"{KEPT_OUT[held]}; {gone if held < 2 else 'the run has not ended.'}"
            continue
        ours = f"{_percent(support)} to {quoted[label]}, the given label"
        other = f"{_percent(rival_share)} to {quoted[rival]}"
        start = SAYS[held]
        if group == CLEAN:
            yield f"{start} gives {ours}, and {other}."
        elif group == ID:
            yield f"{start} gives {other}, and {ours}."
        else:
            yield (
                f"{start} is uncertain: its best guess has {_percent(confidence)}, "
                f"against {usually} for images whose label it believes."
            )


def _looks(count: int) -> str:
    """One per epoch, but for methods that take a sample several times."""
    return "look" if count == 1 else f"{count} looks"


def _percents(shares: Vector) -> list[int]:
    whole: list[int] = np.rint(100 * np.clip(shares, 0, 1)).astype(np.int64).tolist()
    return whole


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
