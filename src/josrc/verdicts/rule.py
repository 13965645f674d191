"""Verdicts: clean, mislabelled or out of distribution, from what training found out.

The batch-wise groups of a method serve its training and are not verdicts: Jo-SRC drops samples from
its clean set for being predicted too surely. A verdict asks two questions, of every method alike.

Is the label right? A score orders all labels: how likely the network found a label over the whole
of training, and how likely it is by the features of the final network, of which a wrong label that
was learned by heart is not part. Where a habit of mislabelling shows, losing to the class it is for
counts too (``confusion``). How many of the labels at the lower end are wrong is learned from errors
that were planted (``calibration``). Where there are none, a mixture of two normal distributions
finds two heaps of labels. Two heaps are found in any numbers, even if all labels are right. So the
lower heap must be one in which labels lose; where they win there too, a label is wrong only if it
loses itself.

If it is wrong, does the image belong to any class? The network settles on the class of an image
that has one, and hesitates about one that has none. Planted errors show how much it hesitates about
images that do belong to a class: only what is far more frequent among the accused is evidence.
Without them it is two heaps again, of doubt, and an image counts as foreign only if the network
hesitates more than it does about nearly all labels it believes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.errors import UserError
from josrc.verdicts.calibration import Calibration, Looks, calibrate, sureness
from josrc.verdicts.confusion import Confusion, systematic_confusion
from josrc.verdicts.findings import Findings, Vector, replace_rows
from josrc.verdicts.foreign import foreign_evidence
from josrc.verdicts.rising_chance import RisingChance
from josrc.verdicts.suggestions import suggestion_evidence
from josrc.verdicts.two_normals import TwoNormals, fit_two_normals, log_odds_of

# --- the rule's constants: chosen on other noise settings than docs/use/audit.md reports ----------

# Weight of what the features say beside what training found out, in the score: features that were
# trained with the labels, and those of a frozen backbone, with a vote of neighbours, which know
# nothing of them. The latter: chosen on 6,000 images of CIFAR-10 with labels by people (random 2).
FEATURE_WEIGHT, FROZEN_FEATURE_WEIGHT = 0.25, 0.5
# Log-odds of a label that is as far ahead as it can be, where there is no heap of wrong labels.
MAX_LEAD = 10.0
# Share of the believed labels whose doubt a foreign image exceeds, and the log-odds it gains for
# exceeding it by a standard deviation of theirs. No more: hard images hesitate too, and where all
# images are hard two heaps of doubt say little.
BELIEVED_QUANTILE, EXCESS_LOG_ODDS = 0.9, 1.0
# The chance to be foreign that is left to the most doubtful image where planted errors say nothing
# of the kind: it keeps the order.
MAX_FOREIGN_UNMEASURED = 0.05
# Fewer samples than this in doubt are not a heap: none of them is called out of distribution.
MIN_HEAP = 20
# The images that the network is surest of: this share, and this many at least; and what a foreign
# image is that nobody need doubt.
SUREST_SHARE, MIN_SUREST, CERTAIN = 0.1, 50, 0.9


# A network is sure of nearly all images if its confidence at the lower quartile is this share of
# that at the upper one, and labels are ahead by so much at the median: one that has learned nothing
# is equally unsure of all. By how many more labels must lose there than planted errors say are
# wrong, as a share of all, for the planted ones not to be a measure.
MIN_SURENESS_RATIO, MIN_MEDIAN_LEAD, MAX_EXTRA_LOSERS = 0.8, 0.5, 0.05
# What the score of a label counts beside others that are as likely wrong, in log-odds.
AS_LIKELY = 1e-6
# Steps at which the order of all scores is kept.
ORDER_STEPS = 1001

VECTORS = ("group", "suggested", "rival", "p_clean", "p_ood", "confidence", "score")


@dataclass(frozen=True)
class Reference:
    """What is usual in a data set: the yardstick for images that were not trained on.

    Attributes:
        labels: heaps of the log-odds of the given label; the upper one has the right labels. None
            where there is no heap of wrong ones.
        confusion: which labels are systematically given to which other class.
        calibration: what planted errors say of the scores; none where none were planted.
        foreign: what they say of the log-odds of doubt.
        suggestions: what they say of the hold of labels that are suggested.
        doubts: heaps of the log-odds of doubt; the upper one has the images of no class. None
            where too little was in doubt.
        doubt: the log-odds of doubt that few of the believed labels exceed, and their spread.
        confidence: median confidence about images whose label is believed.
        scores: of the labels that were trained on, in order, at even steps.
        unlike: whether errors were planted, but wrong labels are of another sort.
        shift: log-odds that all labels gain, or lose, where it is known how many are wrong.
        foreign_shift: the same for being foreign, where it is known how many are; minus infinity
            if none is.
        features_weight: weight of what features say, in the score.
    """

    labels: TwoNormals | None
    confusion: Confusion
    doubts: TwoNormals | None
    doubt: tuple[float, float]
    confidence: float
    scores: Vector
    unlike: bool = False
    shift: float = 0.0
    foreign_shift: float = 0.0
    features_weight: float = FEATURE_WEIGHT
    calibration: Calibration | None = None
    foreign: RisingChance | None = None
    suggestions: RisingChance | None = None


@dataclass(frozen=True)
class Verdicts:
    """A verdict on every sample, each vector ``(N,)``.

    Attributes:
        group: 0 clean, 1 mislabelled, 2 out of distribution.
        suggested: the class a mislabelled sample seems to be, -1 for the others.
        rival: the most likely class other than the given label, whatever the verdict; -1 for none.
        p_clean: probability that the given label is right.
        p_ood: probability that the image belongs to no class.
        confidence: probability of the verdict; of a mislabelled sample, with its suggestion.
        score: orders all samples, the most suspicious first.
        reference: what the verdicts were measured by.
    """

    group: Vector
    suggested: Vector
    rival: Vector
    p_clean: Vector
    p_ood: Vector
    confidence: Vector
    score: Vector
    reference: Reference

    @property
    def probabilities(self) -> tuple[Vector, Vector, Vector]:
        """Those of the columns, in their order."""
        return self.p_clean, self.p_ood, self.confidence

    def part(self, rows: slice | NDArray[np.bool_]) -> Verdicts:
        """Those on some samples."""
        return replace(self, **{name: getattr(self, name)[rows] for name in VECTORS})

    def replaced(self, rows: Vector, others: Verdicts) -> Verdicts:
        """With other verdicts on some samples."""
        return replace(self, **replace_rows(self, VECTORS, rows, others))


def judge(
    findings: Findings,
    given: Labels,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
    planted: Labels | None = None,
    own: Labels | None = None,
    features_weight: float = FEATURE_WEIGHT,
    alike_sorts: int = 1,
) -> Verdicts:
    """Verdicts on the labels that a run was trained with.

    Args:
        findings: from its ledger.
        given: those labels, ``(N,)``.
        noise_rate: share of wrong labels, those of foreign images included, where it is known:
            that many are accused.
        ood_rate: share of foreign images, where it is known: of the labels that are accused, so
            many, the most doubtful, are called foreign.
        planted: rows of the errors that were planted, the random ones first, then as many
            look-alike ones.
        own: the labels that all samples came with.
        features_weight: weight of what features say, in the score.
        alike_sorts: into how many sorts the look-alike errors fall, one after the other.
    """
    seen = findings.visits > 0
    if not seen.any():
        raise UserError("Training has not seen any sample yet, so there is nothing to audit.")
    wrong = np.zeros(0, dtype=np.int64) if planted is None else planted[seen[planted]]
    others = seen.copy()
    others[wrong] = False
    confusion = systematic_confusion(findings.part(others), given[others])
    score = _score(findings, given, confusion, features_weight)
    anyhow, alike = np.array_split(wrong, 2)
    looks = Looks(score, findings.doubt)
    sorts = [looks.part(sort) for sort in np.array_split(alike, alike_sorts)]
    learned = not findings.held.any()
    calibration = calibrate(
        looks.part(anyhow), sorts, looks.part(others), findings.confidence[others], learned=learned
    )
    unlike = calibration is not None and _unlike(calibration, findings.part(others))
    if unlike:
        calibration = None
    # Where labels that lose are known to be wrong, each stands for itself.
    heaps = _label_heaps(findings.part(seen)) if calibration is None and not unlike else None
    odds = _label_odds(findings, given, score, confusion, calibration or heaps)
    shift = 0.0
    if noise_rate is not None:
        # Labels that are as likely wrong are accused in the order of their scores.
        odds = odds + AS_LIKELY * np.argsort(np.argsort(score, kind="stable")) / len(score)
        shift = -float(np.quantile(odds[others], noise_rate))
    p_clean = expit(odds + shift)
    suspect = others & (p_clean < 0.5)
    believed = others & ~suspect if (others & ~suspect).any() else others
    doubt = log_odds_of(findings.doubt)
    reference = Reference(
        labels=heaps,
        confusion=confusion,
        calibration=calibration,
        doubts=fit_two_normals(doubt[suspect]) if suspect.sum() >= MIN_HEAP else None,
        doubt=(
            float(np.quantile(doubt[believed], BELIEVED_QUANTILE)),
            float(np.std(doubt[believed])),
        ),
        confidence=float(np.median(findings.confidence[believed])),
        scores=np.quantile(score[others], np.linspace(0, 1, ORDER_STEPS)),
        unlike=unlike,
        shift=shift,
        features_weight=features_weight,
    )
    if calibration is not None or unlike:
        # A habit is no matter of how an image looks.
        looks = Looks(score + confusion.evidence(findings, given), doubt)
        accused = looks.part(suspect)
        usual = looks.part(anyhow[p_clean[anyhow] < 0.5])
        share = len(accused) / int(others.sum())
        # Labels that were compared by doubt look no less wrong for being of doubtful images.
        by_score = calibration is None or not calibration.by_doubt
        reference = replace(
            reference, foreign=foreign_evidence(usual, accused, share, by_score=by_score)
        )
        if own is not None:
            found = wrong[p_clean[wrong] < 0.5]
            right = findings.rival[found] == own[found]
            hold = _hold(findings, reference)[found]
            rate = calibration.rate if calibration else share
            reference = replace(reference, suggestions=suggestion_evidence(hold, right, rate))
    if ood_rate is not None:
        reference = _with_foreign(reference, doubt, suspect, round(ood_rate * int(others.sum())))
    return _verdicts(findings, p_clean, score, reference)


def _unlike(calibration: Calibration, findings: Findings) -> bool:
    """Whether far more labels lose than are wrong by planted errors.

    A network that is sure of nearly all images knows why: those labels are wrong, if in a way that
    was not planted. One that hesitates about many images loses right labels too, and so does one
    that has not seen them.
    """
    if findings.held.any():
        return False
    sure = (
        sureness(findings.confidence) >= MIN_SURENESS_RATIO
        and np.median(findings.lead) >= MIN_MEDIAN_LEAD
    )
    return bool(sure and np.mean(findings.lead < 0) > calibration.high + MAX_EXTRA_LOSERS)


def _with_foreign(
    reference: Reference, doubt: Vector, suspect: NDArray[np.bool_], count: int
) -> Reference:
    """The yardstick by which that many of the suspects are foreign, the most doubtful ones."""
    if count == 0 or not suspect.any():
        return replace(reference, foreign_shift=-np.inf)
    odds = np.sort(_foreign_odds(doubt, reference)[suspect])[::-1]
    return replace(reference, foreign_shift=-float(odds[min(count, len(odds)) - 1]))


def least_noise_rate(findings: Findings, verdicts: Verdicts) -> float:
    """The share of wrong labels if hard images are mislabelled no more often than easy ones.

    Hard images are accused whether their labels are wrong or not, so that the share of the accused
    is what is wrong at most. Where the network is sure, a label that loses is wrong. Foreign images
    are not among those, and count if there is no doubt about them.
    """
    seen = np.flatnonzero(findings.visits > 0)
    surest = seen[np.argsort(findings.doubt[seen], kind="stable")]
    accused = (verdicts.group[surest] != CLEAN)[: max(MIN_SUREST, int(SUREST_SHARE * len(seen)))]
    foreign = np.mean((verdicts.group == OOD) & (verdicts.confidence >= CERTAIN))
    least = foreign + (1 - foreign) * np.mean(accused)
    return float(min(least, np.mean(verdicts.group != CLEAN)))


def judge_held_out(
    findings: Findings, given: Labels, reference: Reference, drawn: int | None = None
) -> Verdicts:
    """Verdicts on labels that were not trained on, by what is usual in the training data.

    A label that is not trained on looks more wrong than one that is. But as many of them are wrong
    as of all others, if it was chance that kept them out: so they get the scores of those, in the
    same order.

    Args:
        findings: of the samples.
        given: their labels.
        reference: what is usual.
        drawn: how many of the samples, the first ones, were drawn by chance; all, unless it is
            said.
    """
    score = _score(findings, given, reference.confusion, reference.features_weight)
    by_chance = np.sort(score[:drawn][findings.visits[:drawn] > 0])
    if len(by_chance) >= MIN_HEAP:
        ranks = (np.arange(len(by_chance)) + 0.5) / len(by_chance)
        steps = np.interp(ranks, np.linspace(0, 1, ORDER_STEPS), reference.scores)
        score = np.interp(score, by_chance, steps)
    measure = reference.calibration or reference.labels
    odds = _label_odds(findings, given, score, reference.confusion, measure)
    return _verdicts(findings, expit(odds + reference.shift), score, reference)


def _label_heaps(findings: Findings) -> TwoNormals | None:
    """Heaps of right and of wrong labels, if there is one of wrong labels."""
    support = log_odds_of(findings.support)
    heaps = fit_two_normals(support)
    lower = heaps.log_odds(support) < 0
    return heaps if lower.any() and np.median(findings.lead[lower]) < 0 else None


def _score(findings: Findings, given: Labels, confusion: Confusion, weight: float) -> Vector:
    """What orders the labels, the most suspicious first."""
    trained = np.log(np.maximum(findings.support.astype(np.float64), 0) + 1e-7)
    features = np.log(findings.features.astype(np.float64) + 1e-6)
    score: Vector = trained + weight * features - confusion.evidence(findings, given)
    return score


def _label_odds(
    findings: Findings,
    given: Labels,
    score: Vector,
    confusion: Confusion,
    measure: Calibration | TwoNormals | None,
) -> Vector:
    """Log-odds that each label is right, by planted errors, two heaps, or its own lead."""
    if isinstance(measure, Calibration):
        calibrated: Vector = -log_odds_of(measure.p_wrong(score))
        return calibrated
    support = log_odds_of(findings.support)
    odds = MAX_LEAD * findings.lead if measure is None else measure.log_odds(support)
    found: Vector = odds - confusion.evidence(findings, given)
    return found


def _hold(findings: Findings, reference: Reference) -> Vector:
    """The rival's hold on samples: how often it wins, and how sure the network is."""
    sure = np.minimum(1, findings.confidence / reference.confidence)
    hold: Vector = findings.rival_share * sure
    return hold


def _foreign_odds(doubt: Vector, reference: Reference) -> Vector:
    """Log-odds that images are foreign, by the log-odds of doubt."""
    bound, spread = reference.doubt
    excess: Vector = EXCESS_LOG_ODDS * (doubt - bound) / max(spread, 1e-6)
    if reference.foreign is not None:
        chance = reference.foreign.at(doubt)
        known: Vector = log_odds_of(chance + (1 - chance) * MAX_FOREIGN_UNMEASURED * expit(excess))
        return known + reference.foreign_shift
    if reference.doubts is not None:
        excess = np.minimum(reference.doubts.log_odds(doubt), excess)
    return excess + reference.foreign_shift


def _verdicts(findings: Findings, p_clean: Vector, score: Vector, reference: Reference) -> Verdicts:
    """From the answer to the first question to verdicts."""
    p_foreign: Vector = np.zeros(len(p_clean))
    if reference.doubts is not None or reference.foreign is not None or reference.foreign_shift:
        p_foreign = expit(_foreign_odds(log_odds_of(findings.doubt), reference))
    if reference.foreign_shift == -np.inf:  # what no other class ever won is what it is called
        p_clean = np.where(findings.rival < 0, np.maximum(p_clean, 0.5), p_clean)
    p_ood = (1 - p_clean) * p_foreign
    p_wrong = (1 - p_clean) * (1 - p_foreign)
    # A sample that no other class ever won has nothing that could be suggested.
    foreign = (p_foreign >= 0.5) | (findings.rival < 0)
    group = np.where(p_clean >= 0.5, CLEAN, np.where(foreign, OOD, ID)).astype(np.int8)
    hold = _hold(findings, reference)
    p_right = hold if reference.suggestions is None else reference.suggestions.at(hold)
    sure = np.choose(group, [p_clean, p_wrong * p_right, p_ood])
    unseen = findings.visits == 0
    return Verdicts(
        group=np.where(unseen, CLEAN, group).astype(np.int8),
        suggested=np.where((group == ID) & ~unseen, findings.rival, -1),
        rival=findings.rival,
        p_clean=np.where(unseen, 0.5, p_clean),
        p_ood=np.where(unseen, 0.0, p_ood),
        confidence=np.where(unseen, 0.0, sure),
        score=np.where(unseen, np.max(score, initial=0.0), score),
        reference=reference,
    )
