"""The ledger: what training has learned about every sample.

A few numbers per sample, on the device, written inside the training step and kept with the
checkpoint. Every method fills the same ledger, so every method can audit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc import distributed
from josrc.data.noise import OOD
from josrc.methods.base import StepResult

# How much of a running mean a visit replaces: about the last ten epochs count.
VISIT_WEIGHT = 0.1
# A rival whose share of the visits falls to this gives its place to the next class that wins.
MIN_RIVAL_SHARE = 0.25

# Means over visits; -1 until the first. "Mean prediction" is that of all that a step predicts of a
# sample: by its views, its networks, its teacher.
MEANS = (
    "mean_clean_likelihood",  # the method's own score for "the label is right"
    "mean_label_probability",  # of the given label, on view 1
    "mean_second_label_probability",  # of the given label, by the teacher or the second network
    "mean_agreement",  # of views or networks on the top class
    "mean_loss",  # against the given label
    "mean_entropy",  # of the mean prediction, 0 (certain) to 1 (uniform)
    "mean_confidence",  # the mean prediction's highest probability
    "mean_label_share",  # how often the given label was its top class
    "mean_rival_share",  # how often the rival was
    "mean_rival_probability",  # of the rival, in the mean prediction, since it became the rival
    "long_label_probability",  # of the given label, in the mean prediction; all visits count alike
    "long_margin",  # that less the highest probability of another class
    "long_entropy",
)
# Whole numbers; classes and groups are -1 until they are known.
COUNTS = {
    "prediction": -1,  # top class of view 1, last visit
    "second_prediction": -1,  # top class of the teacher or the second network, last visit
    "group": -1,  # last visit
    "rival": -1,  # the class other than the given one that wins most, in the visits that count
    "visits": 0,
    "changes": 0,  # how often the prediction was another than at the visit before
}
# Visits and changes are counted up to the largest number that an int16 holds.
MAX_VISITS = 2**15 - 1


class Ledger:
    """Per-sample findings, each a vector ``(N,)``; 64 bytes per sample.

    A sample's numbers lie side by side in two tables: a visit reads and writes a row of each, which
    costs a step a few small kernels, whatever the number of findings.

    Attributes:
        fields: the vectors by name. ``mean_`` is a running mean over about the last ten visits (all
            of them, while there are fewer), ``long_`` the mean over all visits.
    """

    def __init__(self, samples: int, device: torch.device) -> None:
        self.means = torch.full((samples, len(MEANS)), -1.0, device=device)
        unwritten = torch.tensor(list(COUNTS.values()), dtype=torch.int16, device=device)
        self.counts = unwritten.repeat(samples, 1)
        self.fields = dict(zip(MEANS, self.means.unbind(1), strict=True))
        self.fields |= dict(zip(COUNTS, self.counts.unbind(1), strict=True))

    def clear(self) -> None:
        """Forget everything, in place."""
        fresh = Ledger(len(self.means), self.means.device)
        self.means.copy_(fresh.means)
        self.counts.copy_(fresh.counts)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The findings in main memory."""
        return {name: field.cpu().numpy() for name, field in self.fields.items()}

    def merge(self, own: Tensor) -> None:
        """Bring together what several processes wrote, each the rows ``own`` ``(N,)``."""
        distributed.merge_rows(self.means, own)
        distributed.merge_rows(self.counts, own)

    @torch.no_grad()
    def record(self, index: Tensor, label: Tensor, found: StepResult) -> None:
        """Write what a step found out about the samples ``index`` with given ``label``."""
        counts = dict(zip(COUNTS, self.counts[index].long().unbind(1), strict=True))
        means = dict(zip(MEANS, self.means[index].unbind(1), strict=True))
        counts["visits"] = counts["visits"] + 1
        all_visits = 1 / counts["visits"]
        running = all_visits.clamp(min=VISIT_WEIGHT)
        winner = found.mean_probabilities.argmax(dim=1)
        for name, value in _findings(found, winner, label).items():
            if value is not None:
                weight = all_visits if name.startswith("long_") else running
                means[name] = torch.lerp(means[name], value.float(), weight)

        rival = _rival(counts["rival"], means, winner, label, running)
        of_rival = found.mean_probabilities.gather(1, rival.clamp(min=0)[:, None]).squeeze(1) * (
            rival >= 0
        )
        kept = torch.lerp(means["mean_rival_probability"].clamp(min=0), of_rival, running)
        means["mean_rival_probability"] = torch.where(rival == counts["rival"], kept, of_rival)
        counts["rival"] = rival

        before = counts["prediction"]
        counts["changes"] = counts["changes"] + ((before >= 0) & (before != found.prediction))
        for name in ("prediction", "second_prediction", "group"):
            value = getattr(found, name)
            counts[name] = counts[name] if value is None else value
        self.means.index_copy_(0, index, torch.stack(list(means.values()), dim=1))
        # They stop there, rather than turn negative.
        table = torch.stack([value.long() for value in counts.values()], dim=1)
        self.counts.index_copy_(0, index, table.clamp(max=MAX_VISITS).short())


def check_fields(fields: Mapping[str, NDArray[Any]], classes: int) -> None:
    """Raise an error for a ledger that no training can have written.

    Args:
        fields: the findings by name, each ``(N,)``.
        classes: how many a sample may be taken for.
    """
    highest = {"group": OOD, "visits": MAX_VISITS, "changes": MAX_VISITS}
    for name, values in fields.items():
        if values.ndim != 1 or len(values) != len(fields["visits"]):
            raise ValueError(f"{name} of the ledger is not a number per sample")
        if name in MEANS:
            wrong = not np.isfinite(values).all()
        else:
            high = highest.get(name, classes - 1)
            wrong = values.dtype.kind not in "iu"
            wrong = wrong or bool(((values < COUNTS[name]) | (values > high)).any())
        if wrong:
            raise ValueError(f"{name} of the ledger holds values that training never writes")


def _findings(found: StepResult, winner: Tensor, label: Tensor) -> dict[str, Tensor | None]:
    """What a visit adds to each mean but those of the rival, each ``(batch,)``."""
    mean, given = found.mean_probabilities, label[:, None]
    of_label = mean.gather(1, given).squeeze(1)
    of_others = mean.scatter(1, given, -1.0).amax(dim=1)
    entropy = torch.special.entr(mean).sum(dim=1) / math.log(max(2, mean.shape[1]))
    return {
        "mean_clean_likelihood": found.clean_likelihood,
        "mean_label_probability": found.label_probability,
        "mean_second_label_probability": found.second_label_probability,
        "mean_agreement": found.agreement,
        "mean_loss": found.sample_loss,
        "mean_entropy": entropy,
        "mean_confidence": torch.maximum(of_label, of_others),
        "mean_label_share": winner == label,
        "long_label_probability": of_label,
        "long_margin": of_label - of_others,
        "long_entropy": entropy,
    }


def _rival(
    rival: Tensor, means: dict[str, Tensor], winner: Tensor, label: Tensor, weight: Tensor
) -> Tensor:
    """The rival after a visit, ``(batch,)``; its share of the visits is brought up to date.

    A vote with one candidate, after Boyer and Moore: a winner that is neither the given label nor
    the rival takes the rival's place once the rival has all but stopped winning.
    """
    share = torch.lerp(means["mean_rival_share"].clamp(min=0), (winner == rival).float(), weight)
    replaced = (winner != label) & (winner != rival)
    replaced &= (rival < 0) | (share <= weight.clamp(min=MIN_RIVAL_SHARE))
    means["mean_rival_share"] = torch.where(replaced, weight, share)
    return torch.where(replaced, winner, rival)
