"""Adam in one kernel for all parameters, its beta1 read from a tensor."""

from __future__ import annotations

import torch
from torch import Tensor


class FusedAdam:
    """Updates what a ``torch.optim.Adam`` holds, in place, as that would do it."""

    def __init__(self, optimizer: torch.optim.Adam) -> None:
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
