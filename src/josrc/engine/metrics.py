"""The numbers of an epoch, from the ledger and the truth."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from josrc.data.noise import CLEAN, ID, OOD
from josrc.data.source import Source

Row = dict[str, float | int | None]

# Columns of metrics.csv. Accuracies and precisions are percentages.
METRIC_COLUMNS = (
    "epoch", "lr", "threshold", "loss", "test_accuracy", "n_clean", "n_id", "n_ood",
    "clean_precision", "id_precision", "ood_precision", "fit_clean", "fit_id", "fit_ood",
    "recover_id", "seconds", "teacher_accuracy", "agreement", "labels_turned", "turned_right",
)  # fmt: skip

GROUPS = {"clean": CLEAN, "id": ID, "ood": OOD}
# What people read instead of `id` and `ood`, which are names of columns.
GROUP_TITLES = {"clean": "clean", "id": "mislabelled", "ood": "out of distribution"}


class Truth:
    """Given and true labels on the device, to score what the ledger says."""

    def __init__(self, source: Source, device: torch.device) -> None:
        self.given = torch.from_numpy(source.given).to(device)
        self.known = source.true is not None
        self.verified: Tensor | None = None
        checked = source.verified if source.verified_held is None else source.verified_held
        if checked is not None:
            self.verified = torch.from_numpy(checked).to(device)
        if source.true is not None and source.kind is not None:
            self.true = torch.from_numpy(source.true).to(device)
            self.kind = torch.from_numpy(source.kind).to(device)

    def metrics(self, prediction: Tensor, group: Tensor | None) -> Row:
        """Sizes and precisions of the selection, and how the given labels are fitted.

        Args:
            prediction: each sample's last predicted class, ``(N,)``.
            group: each sample's group, or none for a method that selects nothing.
        """
        if not self.known:
            sizes = {} if group is None else group_sizes(group)
            return sizes | self._of_verified(prediction, group) | self.signs(prediction)
        counts: dict[str, Tensor] = {}
        for name, number in GROUPS.items():
            really = self.kind == number
            fits = (prediction == self.given) & really
            counts |= {f"really_{name}": really.sum(), f"fit_{name}": fits.sum()}
            if group is not None:
                chosen = group == number
                counts[f"n_{name}"] = chosen.sum()
                counts[f"{name}_precision"] = (chosen & really).sum()
        noisy = self.kind == ID
        counts["recover_id"] = ((prediction == self.true) & noisy).sum()
        # One transfer for all of them: the host waits for the device once per epoch.
        values = dict(zip(counts, torch.stack(list(counts.values())).tolist(), strict=True))
        row: Row = {"recover_id": share(values["recover_id"], values["really_id"])}
        for name in GROUPS:
            row[f"fit_{name}"] = share(values[f"fit_{name}"], values[f"really_{name}"])
            if group is not None:
                row[f"n_{name}"] = values[f"n_{name}"]
                row[f"{name}_precision"] = share(values[f"{name}_precision"], values[f"n_{name}"])
        return row

    def turned(self, label: Tensor) -> Row:
        """The share of labels that a method has turned, and of these the share that is right now.

        Args:
            label: what it trains each sample with, ``(N,)``.
        """
        turned = label != self.given
        row: Row = {"labels_turned": share(turned.sum().item(), len(label))}
        if self.known:
            right = (turned & (label == self.true)).sum().item()
            row["turned_right"] = share(right, turned.sum().item())
        return row

    def signs(self, prediction: Tensor) -> Row:
        """Signs of health that need no truth, and are not columns: ``health.py`` reads them.

        How many given labels the network predicts, and which class it predicts most, how often.
        """
        seen = prediction[prediction >= 0].long()
        if not len(seen):
            return {}
        most, top = torch.bincount(seen).max(dim=0)
        fits = (prediction == self.given).sum()
        counts = torch.stack([fits, top, most]).tolist()
        return {
            "fit_given": share(counts[0], len(seen)),
            "top_class": counts[1],
            "top_share": share(counts[2], len(seen)),
        }

    def _of_verified(self, prediction: Tensor, group: Tensor | None) -> Row:
        """What checked labels say: they tell right from wrong, and not why a wrong one is."""
        if self.verified is None:
            return {}
        right, checked = self.verified == 1, self.verified >= 0
        chosen = torch.zeros_like(right) if group is None else group == CLEAN
        masks = (right & (prediction == self.given), right, chosen & right, chosen & checked)
        fits, rights, precise, all_chosen = torch.stack([m.sum() for m in masks]).tolist()
        row: Row = {"fit_clean": share(fits, rights)}
        return row if group is None else row | {"clean_precision": share(precise, all_chosen)}


def group_sizes(group: Tensor) -> Row:
    """How many samples each group has: all that can be said where the truth is unknown."""
    sizes = torch.stack([(group == number).sum() for number in GROUPS.values()]).tolist()
    return {f"n_{name}": size for name, size in zip(GROUPS, sizes, strict=True)}


def share(part: float, whole: float) -> float | None:
    """Percentage, or nothing where there is nothing to take a share of."""
    return 100 * part / whole if whole else None


@torch.no_grad()
def right_answers(network: nn.Module, images: Iterable[Tensor], labels: Tensor) -> Tensor:
    """How many top-1 predictions are right, as a scalar on the device.

    Args:
        network: in evaluation mode.
        images: normalised test images, chunk by chunk.
        labels: their classes, ``(N,)``.
    """
    predictions = torch.cat([network(chunk).argmax(dim=1) for chunk in images])
    return (predictions == labels).sum()
