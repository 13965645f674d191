"""Optimizers with their state in place from the start, and Adam in one kernel for all weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from josrc.config import OptimizerConfig
from josrc.engine.plain_optimizers import PlainAdam, PlainOptimizer, PlainSGD

ADAM_BETA2 = 0.999
Optimizer = torch.optim.Optimizer | PlainOptimizer


def create_optimizer(
    parameters: Iterable[tuple[str, nn.Parameter]], config: OptimizerConfig, device: torch.device
) -> Optimizer:
    """The optimizer, its state already there so that it can be captured, saved and loaded.

    Args:
        parameters: what is trained of a method, by name; those of a backbone may have a rate of
            their own, and come first then.
        config: the settings.
        device: where the parameters are.
    """
    on_gpu = device.type == "cuda"
    lr = torch.tensor(config.lr, device=device) if on_gpu else config.lr
    groups = _groups(list(parameters), config.backbone_factor, lr)
    settings: dict[str, Any] = {"lr": lr, "weight_decay": config.weight_decay}
    if config.name == "adam":
        settings["betas"] = (config.momentum, ADAM_BETA2)
    else:
        settings |= {"momentum": config.momentum, "nesterov": config.nesterov}
    if not on_gpu:
        return (PlainAdam if config.name == "adam" else PlainSGD)(groups, **settings)
    optimizer: torch.optim.Optimizer
    if config.name == "adam":
        optimizer = torch.optim.Adam(groups, fused=True, capturable=True, **settings)
    else:
        optimizer = torch.optim.SGD(groups, fused=True, **settings)
    _create_state(optimizer)
    return optimizer


def _groups(
    parameters: list[tuple[str, nn.Parameter]], factor: float, lr: float | Tensor
) -> list[dict[str, Any]]:
    """Parameters by their rate; a group with another rate than the run's has its ``factor``."""
    if factor == 1:
        return [{"params": [parameter for _, parameter in parameters]}]
    inside = [parameter for name, parameter in parameters if ".backbone." in name]
    others = [parameter for name, parameter in parameters if ".backbone." not in name]
    slow: dict[str, Any] = {"params": inside, "lr": lr * factor, "factor": factor}
    return [group for group in (slow, {"params": others}) if group["params"]]


def _create_state(optimizer: torch.optim.Optimizer) -> None:
    """Make torch create the lazily made state by a step that moves nothing, then clear it."""
    before = [dict(group) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0
        if (
            "momentum" in group
        ):  # SGD keeps no buffer while its momentum is 0, but it may rise later
            group["momentum"] = group["momentum"] or 0.9
    for parameter in parameters_of(optimizer):
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, values in zip(optimizer.param_groups, before, strict=True):
        group.update(values)
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def set_optimizer(optimizer: Optimizer, lr: float, momentum: float) -> None:
    """Set learning rate and momentum; on the GPU the rate is a tensor that keeps its place."""
    for group in optimizer.param_groups:
        rate = lr * group.get("factor", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
        if "betas" in group:
            group["betas"] = (momentum, ADAM_BETA2)
        else:
            group["momentum"] = momentum


def parameters_of(optimizer: Optimizer) -> Iterable[Tensor]:
    """All that an optimizer moves."""
    for group in optimizer.param_groups:
        yield from group["params"]


class FusedAdam:
    """Updates what Adam holds, in place, as that would do it.

    Its beta1 is read from a tensor, so that a captured step survives another one.
    """

    def __init__(self, optimizer: torch.optim.Adam | PlainAdam) -> None:
        from josrc.kernels.tensors import TensorLists

        (group,) = optimizer.param_groups
        self.parameters: list[Tensor] = group["params"]
        states = [optimizer.state[parameter] for parameter in self.parameters]
        self.steps: list[Tensor] = [state["step"] for state in states]
        self.lists = TensorLists(
            self.parameters,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
        )
        self.momentum, beta2 = group["betas"]
        self.lr: Tensor = group["lr"]
        self.beta1 = torch.tensor(self.momentum, device=self.lr.device)
        self.constants = {
            "beta2": beta2,
            "eps": group["eps"],
            "weight_decay": float(group["weight_decay"]),
        }

    def set_beta1(self, momentum: float) -> None:
        """Set beta1 for the steps to come."""
        if momentum != self.momentum:
            self.momentum = momentum
            self.beta1.fill_(momentum)

    @torch.no_grad()
    def step(self) -> bool:
        """One update; does nothing and says so if a parameter has no gradient."""
        from josrc.kernels import tensors

        found = [parameter.grad for parameter in self.parameters]
        gradients = [gradient for gradient in found if gradient is not None]
        if len(gradients) < len(found):
            return False
        torch._foreach_add_(self.steps, 1)
        tensors.adam(
            self.lists,
            gradients,
            step=self.steps[0],
            lr=self.lr,
            beta1=self.beta1,
            **self.constants,
        )
        return True
