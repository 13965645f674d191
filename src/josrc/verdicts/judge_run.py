"""The audit of a run folder: from its checkpoint to ``audit/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.special import expit

from josrc._console import clipped
from josrc._io import UNREADABLE
from josrc._reading import regular
from josrc.data.noise import CLEAN, Labels
from josrc.data.source import Source
from josrc.engine.ledger import COUNTS, MEANS, check_fields
from josrc.errors import UserError, reason
from josrc.verdicts.calibration import INTERVAL_SHARE, Calibration
from josrc.verdicts.duplicates import DUPLICATES, judge_duplicates
from josrc.verdicts.evidence import Evidence
from josrc.verdicts.findings import Findings, held_out_findings
from josrc.verdicts.proportions import wilson_interval
from josrc.verdicts.rule import Verdicts, judge, judge_held_out, least_noise_rate
from josrc.verdicts.table import AuditPart, summarise, verdicts_of, write_summary, write_verdicts
from josrc.verdicts.two_normals import log_odds_of

PREFIX = "ledger."
# Classes that a ledger can tell apart.
MAX_CLASSES = 2**15
# A class looks unlearned if, of at least this many samples, more than this share look wrong, and so
# many times the share of the others.
UNLEARNED_SAMPLES, UNLEARNED_RATE, UNLEARNED_RATIO = 10, 0.5, 2
# This many of them are named.
MAX_UNLEARNED = 10
# Verdicts after fewer epochs come with a warning.
MIN_EPOCHS_TO_TRUST = 10
# Accused labels of so small a share are what chance leaves of a clean set.
MAX_CHANCE_SHARE = 0.003
# What is said where planted errors are of no use.
UNLIKE = (
    "Errors were {made}, but can't be used here: the wrong labels are not like them, as where one "
    "class is given for another again and again."
)
# The precision of what is accused, and its interval, as ``summary.json`` calls them.
PRECISION = tuple(f"estimated_precision{end}" for end in ("", "_low", "_high"))
# Odds of the accused to be wrong may be off by this factor: right labels among them are few, and no
# planted error tells where they lie. Chosen on digits with 2 to 30 % wrong labels.
ODDS_FACTOR = 3.0
# Of a normal distribution nine tenths lie within so many standard deviations.
DEVIATIONS = 1.645
# Where estimates of the noise differ by more, both are reported.
MIN_WIDE_INTERVAL = 0.1


def read_ledger(checkpoint: Path, classes: int = MAX_CLASSES) -> dict[str, NDArray[Any]]:
    """The ledger in a checkpoint; the networks beside it are not read.

    Args:
        checkpoint: the file.
        classes: how many a sample may be taken for.
    """
    try:
        with safe_open(regular(checkpoint), framework="numpy") as file:
            there = set(file.keys())
            wanted = {PREFIX + name for name in (*MEANS, *COUNTS)}
            if not wanted <= there:
                lacking = sorted(wanted - there)[0].removeprefix(PREFIX)
                raise UserError(
                    f"{checkpoint} was written by another version of josrc: its ledger lacks "
                    f"{lacking}. Train again to audit."
                )
            found = {name.removeprefix(PREFIX): file.get_tensor(name) for name in sorted(wanted)}
        check_fields(found, classes)
        return found
    except UserError:
        raise
    except (SafetensorError, *UNREADABLE) as error:
        raise UserError(f"Checkpoint {checkpoint} can't be read: {reason(error)}") from None


def write_audit(
    folder: Path,
    ledger: Mapping[str, NDArray[Any]],
    source: Source,
    evidence: Evidence | None = None,
    held_out: NDArray[Any] | None = None,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
) -> dict[str, Any]:
    """Judge every sample and write ``verdicts.csv`` and ``summary.json``; returns the summary.

    Where the run has a list of exact copies, they get their verdicts too.

    Args:
        folder: where they go.
        ledger: what training found out.
        source: what it was trained on.
        evidence: what was found out beside training.
        held_out: what the final network says of the held-out images, ``(held, classes)``; NaN of
            those that are gone.
        noise_rate: share of wrong labels, where it is known.
        ood_rate: share of foreign images, where it is known.
    """
    if len(ledger["visits"]) != len(source):
        raise UserError(
            f"The checkpoint knows {len(ledger['visits']):,} samples, but the data has "
            f"{len(source):,}: it was made with other data."
        )
    evidence = Evidence() if evidence is None else evidence
    judged = judge_labels(ledger, source, evidence, noise_rate, ood_rate)
    parts = []
    if source.val is not None and held_out is not None:
        val = source.val
        findings = held_out_findings(held_out, val.given, evidence.held)
        verdicts = judge_held_out(findings, val.given, judged.verdicts.reference)
        parts.append(AuditPart(verdicts, findings, val.given, val.ids, val.paths))
    rates, visits = (noise_rate, ood_rate), int(ledger["visits"].max())
    return write_judgement(folder, judged, source, parts, rates, visits)


def write_judgement(
    folder: Path,
    judged: Judgement,
    source: Source,
    held: Sequence[AuditPart] = (),
    rates: tuple[float | None, float | None] = (None, None),
    visits: int | None = None,
) -> dict[str, Any]:
    """Write ``verdicts.csv`` and ``summary.json`` of labels that were judged; returns the latter.

    Args:
        folder: where they go.
        judged: the verdicts.
        source: the samples.
        held: those on held-out samples.
        rates: of noise and of foreign images, where they are known.
        visits: how often training had seen a sample; none if there was no training.
    """
    own = AuditPart(judged.verdicts, judged.findings, source.given, source.ids, source.paths)
    parts = [own, *held]
    write_verdicts(folder / "verdicts.csv", parts, source.closed_names)
    groups = np.concatenate([part.verdicts.group for part in parts])
    judge_duplicates(folder / DUPLICATES, groups)
    summary = summarise(parts, source.closed_names) | judged.measured
    if "noise_rate_low" not in summary:
        summary["noise_rate_low"] = min(judged.least, summary["noise_rate"])
        summary["noise_rate_high"] = summary["noise_rate"]
    summary["known_noise_rate"], summary["known_ood_rate"] = rates
    summary["visits"] = visits
    write_summary(folder / "summary.json", summary)
    return summary


@dataclass(frozen=True)
class Judgement:
    """Verdicts on the labels of all samples that were trained on.

    Attributes:
        verdicts: on the labels that they came with.
        findings: what they rest on.
        measured: what planted errors say of them, as ``summary.json`` has it.
        least: the share of wrong labels if hard images are mislabelled no more often than easy
            ones, or what is known of it.
    """

    verdicts: Verdicts
    findings: Findings
    measured: dict[str, Any]
    least: float


def judge_labels(
    ledger: Mapping[str, NDArray[Any]],
    source: Source,
    evidence: Evidence,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
) -> Judgement:
    """Judge the labels of all samples that were trained on; see ``write_audit``."""
    planted = evidence.planted
    findings = Findings.of(ledger, evidence.features)
    labels = evidence.trained(source.given)
    weight = evidence.features_weight
    verdicts = judge(findings, labels, noise_rate, ood_rate, planted, source.given, weight)
    least = least_noise_rate(findings, verdicts) if noise_rate is None else noise_rate
    measured = measure_by_planted(verdicts, planted, noise_rate)
    if planted is not None:
        # Their own labels were kept out of training: they are judged like held-out ones.
        own = evidence.own_findings(source.given, source.closed, findings)
        anyhow = len(planted) - len(planted) // 2  # were drawn by chance, the look-alike ones not
        kept_out = judge_held_out(own, source.given[planted], verdicts.reference, anyhow)
        findings, verdicts = findings.replaced(planted, own), verdicts.replaced(planted, kept_out)
    return Judgement(verdicts, findings, measured, least)


def measure_by_planted(
    verdicts: Verdicts, planted: Labels | None, noise_rate: float | None, trained: bool = True
) -> dict[str, Any]:
    """What planted errors say of the verdicts on all others; nothing where there are too few.

    An error counts as found if its label would be accused in the data as it was trained on, planted
    errors included.

    Args:
        verdicts: on all labels, with planted errors in place.
        planted: which these are.
        noise_rate: share of wrong labels, where it is known.
        trained: whether planted errors were trained on, and so are among the labels.
    """
    calibration = verdicts.reference.calibration
    if calibration is None or planted is None:
        nothing = dict.fromkeys(("planted", *PRECISION, "estimated_recall"))
        return nothing | ({"planted_unlike": True} if verdicts.reference.unlike else {})
    others = np.ones(len(verdicts.group), dtype=bool)
    others[planted] = False
    accused = others & (verdicts.group != CLEAN)
    wrong = 1 - verdicts.p_clean
    share = len(planted) / len(others) if trained else 0.0
    found = calibration.p_wrong(verdicts.score[planted], share) >= 0.5
    anyhow, alike = np.split(found, 2)
    rates = {
        "noise_rate": calibration.rate,
        "noise_rate_low": calibration.low,
        "noise_rate_high": calibration.high,
    }
    return (rates if noise_rate is None else {}) | {
        "planted": {
            "count": len(planted),
            "found": int(anyhow.sum() + alike.sum()),
            "any": {"count": len(anyhow), "found": int(anyhow.sum())},
            "look_alike": {"count": len(alike), "found": int(alike.sum())},
        },
        **_precision(wrong[accused], calibration),
        "estimated_recall": float(wrong[accused].sum() / max(wrong[others].sum(), 1e-9)),
    }


def _precision(wrong: NDArray[Any], calibration: Calibration) -> dict[str, float | None]:
    """How many of the accused labels are wrong, with an interval of nine in ten.

    The interval holds what follows from either end of that of the noise rate, the odds of each
    label being wrong changing as those of all labels do; from the curves being off by a factor; and
    the chance by which so many labels, each as likely wrong as it is, are wrong in more or fewer
    cases.

    Args:
        wrong: how likely each of the accused labels is wrong.
        calibration: by which they were judged.
    """
    if not len(wrong):
        return dict.fromkeys(PRECISION)
    low, usual, high = log_odds_of(np.array([calibration.low, calibration.rate, calibration.high]))
    ends = []
    for sign, off in ((-1, usual - low), (1, high - usual)):
        chance = expit(log_odds_of(wrong) + sign * np.hypot(off, np.log(ODDS_FACTOR)))
        spread = float(np.sqrt((chance * (1 - chance)).sum())) / len(wrong)
        ends.append(float(np.clip(chance.mean() + sign * DEVIATIONS * spread, 0, 1)))
    return dict(zip(PRECISION, (float(wrong.mean()), *ends), strict=True))


def unlearned_classes(summary: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], float]:
    """Classes whose labels look wrong far more often than those of all other classes.

    A class that the network has not learned looks just like one that is labelled badly. Nothing
    else tells, where there are no test images.

    Returns:
        Their entries in the summary, the worst first, and the share of labels that look wrong
        among all other classes.
    """
    classes: list[Mapping[str, Any]] = summary["classes"]
    worst = sorted(classes, key=lambda entry: -entry["noise_rate"])
    found = [
        entry
        for entry in worst
        if entry["samples"] >= UNLEARNED_SAMPLES and entry["noise_rate"] > UNLEARNED_RATE
    ]
    others = 0.0
    while found:  # a class that is not far enough above the others is one of them
        names = {entry["class"] for entry in found}
        rest = [entry for entry in classes if entry["class"] not in names]
        samples = sum(entry["samples"] for entry in rest)
        if samples < UNLEARNED_SAMPLES:
            return [], 0.0
        others = 1 - sum(entry["clean"] for entry in rest) / samples
        left = [entry for entry in found if entry["noise_rate"] >= UNLEARNED_RATIO * others]
        if len(left) == len(found):
            break
        found = left
    return found, others


def unlearned_warning(summary: Mapping[str, Any]) -> str | None:
    """A warning that names the classes whose verdicts are the least to be trusted, if any."""
    found, others = unlearned_classes(summary)
    if not found:
        return None
    names = [f"'{clipped(entry['class'])}'" for entry in found[:MAX_UNLEARNED]]
    shares = [f"{100 * entry['noise_rate']:.0f} %" for entry in found]
    rest = f"of all others {100 * others:.0f} %"
    if len(found) == 1:
        return (
            f"Of the images labelled {names[0]} {shares[0]} look wrong, {rest}. Maybe the network "
            "has not learned this class: look at its images before you follow its verdicts."
        )
    listed = [f"{name} ({share})" for name, share in zip(names, shares, strict=False)]
    more = len(found) - len(listed)
    *first, last = [*listed, f"{more:,} more"] if more else listed
    where = " Those of all classes: noise_rate in audit/summary.json." if more else ""
    return (
        f"Of the images labelled {', '.join(first)} and {last} most look wrong, {rest}.{where} "
        "Maybe the network has not learned these classes: look at their images before you follow "
        "their verdicts."
    )


def verdict_line(summary: Mapping[str, Any], folder: Path) -> str:
    """What is said on screen: how many of each verdict, and where they are."""
    counts = summary["counts"]
    found = (
        f"Verdicts: {counts['clean']:,} clean, {counts['mislabelled']:,} mislabelled, "
        f"{counts['out_of_distribution']:,} out of distribution: {verdicts_of(folder)}"
    )
    seen, span = summary.get("visits"), noise_span(summary)
    if seen is not None and seen < MIN_EPOCHS_TO_TRUST:
        times = "once" if seen == 1 else f"{seen} times"
        found += f"\nTrain longer before you trust them: each image was seen {times}."
    if (sure := how_sure(summary)) is not None:
        found += f"\n{sure}"
    if span is None or summary.get("planted"):
        return found
    return (
        f"{found}\nAn estimated {100 * span[0]:.0f} to {100 * span[1]:.0f} % of the labels are "
        "wrong: hard images are accused too. Look at the most certain verdicts first."
    )


def errors_words(summary: Mapping[str, Any]) -> str:
    """How many errors have measured the verdicts: a training plants them, a scan tries them out."""
    count = f"{summary['planted']['count']:,}"
    return f"{count} errors that were tried out" if _scanned(summary) else f"{count} planted errors"


def _scanned(summary: Mapping[str, Any]) -> bool:
    return "visits" in summary and summary["visits"] is None


def how_sure(summary: Mapping[str, Any]) -> str | None:
    """What planted errors say of the verdicts, in two or three sentences."""
    if summary.get("planted_unlike"):
        return UNLIKE.format(made="tried out" if _scanned(summary) else "planted")
    if not summary.get("planted"):
        return None
    planted, accused = summary["planted"], summary["samples"] - summary["counts"]["clean"]
    shares = [
        f"{_share_found(planted[sort])} of {title}"
        for sort, title in (("any", "those of any sort"), ("look_alike", "those that look alike"))
    ]
    said = f"Of {errors_words(summary)}, {' and '.join(shares)} were found."
    if nothing_stands_out(summary):
        return f"No wrong labels stand out. {said}"
    low, high = (100 * summary[f"noise_rate_{end}"] for end in ("low", "high"))
    rate = f"An estimated {100 * summary['noise_rate']:.1f} % of the labels are wrong"
    known = summary.get("known_noise_rate") is not None
    span = "" if known else f" (90 % interval: {low:.1f} to {high:.1f})"
    right, (precision, least, most) = "", (summary.get(name) for name in PRECISION)
    if precision:
        right = f", and of the {accused:,} that are accused {100 * precision:.0f} %"
        if least is not None and most is not None:
            right += f" ({100 * least:.0f} to {100 * most:.0f})"
    return f"{rate}{span}{right}. {said}"


def _share_found(errors: Mapping[str, Any]) -> str:
    found, count = errors["found"], errors["count"]
    low, high = wilson_interval(found, count, INTERVAL_SHARE)
    return f"{100 * found / max(count, 1):.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def nothing_stands_out(summary: Mapping[str, Any]) -> bool:
    """Whether hardly a label is accused, and planted errors say that it may be so."""
    accused = 1 - summary["counts"]["clean"] / max(summary["samples"], 1)
    return bool(summary.get("planted")) and accused <= MAX_CHANCE_SHARE


def noise_span(summary: Mapping[str, Any]) -> tuple[float, float] | None:
    """Least and highest estimate of the share of wrong labels, if they lie well apart."""
    if summary.get("planted"):
        return summary["noise_rate_low"], summary["noise_rate_high"]
    high = summary["noise_rate"]
    low = summary.get("noise_rate_low", high)
    return (low, high) if high - low > MIN_WIDE_INTERVAL else None
