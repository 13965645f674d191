"""A method whose step is shared by several processes: its gradients and its batch statistics."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from josrc import distributed
from josrc.config import RunConfig
from josrc.data.loaders import Batch
from josrc.errors import UserError
from josrc.methods import Method, StepResult
from josrc.methods.base import Scalars


class StepModule(nn.Module):
    """A method's step as the forward of a module, which is what torch makes parallel."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method
        self.compiled: Callable[[str, Batch, Scalars], StepResult] | None = None
        self.compiled_size = 0

    def compile_step(self, size: int) -> None:
        """Compile the step of so many samples; others run eagerly."""
        self.compiled, self.compiled_size = torch.compile(self._step, dynamic=False), size

    def _step(self, name: str, batch: Batch, at: Scalars) -> StepResult:
        found: StepResult = getattr(self.method, name)(batch, at)
        return found

    def forward(self, name: str, batch: Batch, at: Scalars) -> StepResult:
        """What the step of that name finds."""
        compiled = self.compiled if len(batch.label) == self.compiled_size else None
        return (compiled or self._step)(name, batch, at)


def in_parallel(method: Method, device: torch.device) -> DistributedDataParallel:
    """A step after which the gradients of all that is trained are means over all processes.

    Teachers and memories have no gradient, and stay outside. Running statistics are put together
    once an epoch and not in every step.
    """
    # Of a 1x1 convolution both layouts are the same.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    # Newer releases of torch call it by another name, and warn of the old one.
    names = inspect.signature(DistributedDataParallel).parameters
    sync = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
    options: dict[str, Any] = {sync: False, "gradient_as_bucket_view": True}
    return DistributedDataParallel(
        StepModule(method), None if device.index is None else [device.index], **options
    )


def with_statistics(method: Method, config: RunConfig, device: torch.device) -> Method:
    """The method, its batch norms looking at the batches of all processes if that is wanted."""
    if distributed.world() == 1 or not config.model.sync_bn:
        return method
    if device.type != "cuda":
        raise UserError(
            "model.sync_bn=true needs GPUs: torch has no SyncBatchNorm for CPUs. Leave it out, or "
            "choose a network without batch statistics."
        )
    synced: Method = nn.SyncBatchNorm.convert_sync_batchnorm(method)
    return synced


@torch.no_grad()
def average_statistics(networks: nn.Module) -> None:
    """Give all processes the mean of their running batch statistics."""
    norms = [m for m in networks.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    found = [(norm.running_mean, norm.running_var) for norm in norms]
    running = [value for pair in found for value in pair if value is not None]
    if distributed.world() == 1 or not running:
        return
    row = torch.cat([value.flatten() for value in running])
    parts = distributed.mean_of_all(row).split([value.numel() for value in running])
    for value, part in zip(running, parts, strict=True):
        value.copy_(part)
