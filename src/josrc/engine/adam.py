"""Adam as tensor code: all parameters in a few kernels once it is compiled, beta1 from a tensor.

PyTorch's own fused Adam gives a large piece of a tensor to each of few thread blocks, which leaves
most of a large GPU idle for networks of a million weights, and bakes beta1 into the kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor


class TensorAdam:
    """Updates what a ``torch.optim.Adam`` holds, in place, as that would do it."""

    def __init__(self, optimizer: torch.optim.Adam) -> None:
        (group,) = optimizer.param_groups
        self.parameters: list[Tensor] = group["params"]
        states = [optimizer.state[parameter] for parameter in self.parameters]
        self.means: list[Tensor] = [state["exp_avg"] for state in states]
        self.squares: list[Tensor] = [state["exp_avg_sq"] for state in states]
        self.steps: list[Tensor] = [state["step"] for state in states]
        self.lr: Tensor = group["lr"]
        self.momentum, self.beta2 = group["betas"]
        self.beta1 = torch.tensor(self.momentum, device=self.lr.device)
        self.eps = group["eps"]
        self.weight_decay = group["weight_decay"]

    def set_beta1(self, momentum: float) -> None:
        """Set beta1 for the steps to come."""
        if momentum != self.momentum:
            self.momentum = momentum
            self.beta1.fill_(momentum)

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """One update."""
        if self.weight_decay:
            decay = torch._foreach_mul(self.parameters, self.weight_decay)
            gradients = list(torch._foreach_add(gradients, decay))
        torch._foreach_add_(self.steps, 1)
        step = self.steps[0]
        torch._foreach_mul_(self.means, self.beta1)
        torch._foreach_add_(self.means, torch._foreach_mul(gradients, 1 - self.beta1))
        torch._foreach_mul_(self.squares, self.beta2)
        torch._foreach_addcmul_(self.squares, gradients, gradients, 1 - self.beta2)
        size = self.lr / (1 - self.beta1**step)
        spread = torch.rsqrt(1 - self.beta2**step)
        below = torch._foreach_add(
            torch._foreach_mul(torch._foreach_sqrt(self.squares), spread), self.eps
        )
        moves = torch._foreach_mul(torch._foreach_div(self.means, below), size)
        torch._foreach_sub_(self.parameters, moves)
