"""A method: the mean absolute error, which noise hardly moves."""

from __future__ import annotations

from josrc.config import MethodSettings
from josrc.data.loaders import Batch
from josrc.distributed import batch_mean
from josrc.methods.base import Method, Scalars, StepResult, describe


class AbsoluteErrorSettings(MethodSettings):
    """It has none of its own."""

    name: str = "absolute-error"


class AbsoluteError(Method):
    """One minus the probability of the given label."""

    Settings = AbsoluteErrorSettings
    title = "Mean absolute error"
    reference = "Ghosh et al., Robust Loss Functions under Label Noise for Deep Neural Networks"
    selects = False

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Nothing changes from epoch to epoch."""
        return {}

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The mean over the batch."""
        logits = self.network(batch.images).float()
        found = describe(logits, batch.label)
        given = logits.softmax(dim=1).gather(1, batch.label[:, None]).squeeze(1)
        return StepResult(batch_mean(1 - given), **found)
