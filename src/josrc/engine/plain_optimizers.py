"""Adam and SGD on a CPU: each parameter moves, to the last bit, as ``torch.optim`` moves it.

The first optimizer of ``torch.optim`` that is made imports torch's compiler, which takes more than
a second. A CPU has no use for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


class PlainOptimizer:
    """What moves parameters along their gradients.

    Attributes:
        param_groups: parameters and their settings, as those of ``torch.optim``.
        state: what is remembered of each parameter; all of it is there from the start.
    """

    def __init__(self, groups: Sequence[Mapping[str, Any]], **settings: Any) -> None:
        """Take parameters in; what a group sets itself is stronger than ``settings``."""
        self.param_groups: list[dict[str, Any]] = [{**settings, **group} for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = {
            parameter: self.first_state(parameter)
            for group in self.param_groups
            for parameter in group["params"]
        }

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """What is remembered of a parameter before the first step."""
        raise NotImplementedError

    def move(self, parameter: Tensor, gradient: Tensor, settings: Mapping[str, Any]) -> None:
        """Move one parameter, and what is remembered of it, in place."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if (gradient := parameter.grad) is None:
                    continue
                if group["weight_decay"] != 0:
                    gradient = gradient.add(parameter, alpha=group["weight_decay"])
                self.move(parameter, gradient, group)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class PlainAdam(PlainOptimizer):
    """Adam."""

    def __init__(self, groups: Sequence[Mapping[str, Any]], **settings: Any) -> None:
        """See ``PlainOptimizer``."""
        super().__init__(groups, eps=1e-8, **settings)

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """No step, and no moments."""
        return {
            "step": torch.zeros((), dtype=torch.float32),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }

    def move(self, parameter: Tensor, gradient: Tensor, settings: Mapping[str, Any]) -> None:
        """Move by the mean gradient over its size, both corrected for their beginning at 0."""
        state, (beta1, beta2) = self.state[parameter], settings["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        state["step"].add_(1)
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        steps = state["step"].item()
        size = (square.sqrt() / (1 - beta2**steps) ** 0.5).add_(settings["eps"])
        parameter.addcdiv_(mean, size, value=-(settings["lr"] / (1 - beta1**steps)))


class PlainSGD(PlainOptimizer):
    """SGD with momentum."""

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """No momentum."""
        return {"momentum_buffer": torch.zeros_like(parameter)}

    def move(self, parameter: Tensor, gradient: Tensor, settings: Mapping[str, Any]) -> None:
        """Move by the gradient, or by what has gathered of gradients."""
        if (momentum := settings["momentum"]) != 0:
            gathered = self.state[parameter]["momentum_buffer"].mul_(momentum).add_(gradient)
            nesterov = settings["nesterov"]
            gradient = gradient.add(gathered, alpha=momentum) if nesterov else gathered
        parameter.add_(gradient, alpha=-settings["lr"])
