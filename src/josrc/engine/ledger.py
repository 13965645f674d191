"""The ledger: what training has learned about every sample.

A few numbers a sample, on the device, written inside the training step and kept with the
checkpoint. Every method fills the same ledger.
"""

from __future__ import annotations

import torch
from torch import Tensor

from josrc.methods.base import StepResult

# How much of a running mean an epoch replaces: about the last ten epochs count.
RUNNING = 0.1


class Ledger:
    """Per-sample findings, each a vector ``(N,)``; 37 bytes a sample.

    Attributes:
        fields: the vectors by name. Those that begin with ``mean_`` are running means over epochs,
            the others hold the last visit. A sample that was never visited has prediction -1.
    """

    def __init__(self, samples: int, device: torch.device) -> None:
        def column(fill: float, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.full((samples,), fill, dtype=dtype, device=device)

        self.fields = {
            "prediction": column(-1, torch.int16),
            "second_prediction": column(-1, torch.int16),
            "group": column(-1, torch.int8),
            "loss": column(0),
            "confidence": column(0),
            "clean_likelihood": column(0),
            "mean_clean_likelihood": column(-1),
            "mean_label_probability": column(-1),
            "mean_agreement": column(-1),
            "mean_loss": column(-1),
            "changes": column(0, torch.int32),
        }

    def record(self, index: Tensor, found: StepResult) -> None:
        """Write what a step found out about the samples ``index``, ``(batch,)``."""
        before = self.fields["prediction"][index]
        changed = (before >= 0) & (before != found.prediction)
        self._write("changes", index, self.fields["changes"][index] + changed)
        self._write("prediction", index, found.prediction)
        self._write("loss", index, found.sample_loss)
        self._write("confidence", index, found.confidence)
        self._blend("mean_loss", index, found.sample_loss)
        self._blend("mean_label_probability", index, found.label_probability)
        if found.second_prediction is not None:
            self._write("second_prediction", index, found.second_prediction)
        if found.group is not None:
            self._write("group", index, found.group)
        if found.clean_likelihood is not None:
            self._write("clean_likelihood", index, found.clean_likelihood)
            self._blend("mean_clean_likelihood", index, found.clean_likelihood)
        if found.agreement is not None:
            self._blend("mean_agreement", index, found.agreement)

    def _write(self, name: str, index: Tensor, values: Tensor) -> None:
        field = self.fields[name]
        field.index_copy_(0, index, values.detach().to(field.dtype))

    def _blend(self, name: str, index: Tensor, values: Tensor) -> None:
        """Running mean that starts with the first value; -1 marks a field never written."""
        old, new = self.fields[name][index], values.detach().float()
        self._write(name, index, torch.where(old < 0, new, torch.lerp(old, new, RUNNING)))
