"""Optimizers of a CPU move parameters as those of torch do, to the last bit."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from josrc.config import OptimizerConfig
from josrc.engine.optimizer import create_optimizer, set_optimizer

SHAPES = [(4, 3), (5,), (6, 3, 3, 3)]
FIRST_STEP = """
import sys
from josrc.data.registry import open_source
from josrc.engine.state import TrainState
from josrc.runs.start import configure
import torch
config = configure("digits-o")
state = TrainState(config, open_source(config.data), torch.device("cpu"))
state.begin_epoch(config, 0)
state.train_step(config.batch_size)
slow = "torch._dynamo", "triton", "sklearn", "scipy.stats", "pandas", "matplotlib", "timm"
print([name for name in slow if name in sys.modules])
"""


def parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    made = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    made[2].data = made[2].data.to(memory_format=torch.channels_last)
    return made


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize(("name", "nesterov"), [("adam", False), ("sgd", False), ("sgd", True)])
def test_they_agree_with_torch_to_the_last_bit(
    name: str, nesterov: bool, weight_decay: float
) -> None:
    config = OptimizerConfig(
        name=name, lr=0.01, momentum=0.9, weight_decay=weight_decay, nesterov=nesterov
    )
    ours, theirs = parameters(), parameters()
    held = create_optimizer(
        [(str(place), each) for place, each in enumerate(ours)], config, torch.device("cpu")
    )
    wanted: torch.optim.Optimizer
    if name == "adam":
        wanted = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay)
    else:
        wanted = torch.optim.SGD(
            theirs, lr=0.01, momentum=0.9, weight_decay=weight_decay, nesterov=nesterov
        )
    for step in range(8):
        if step == 4:
            for optimizer in (held, wanted):
                set_optimizer(optimizer, 0.003, 0.1)
        for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            without = step == 2 and place == 1
            mine.grad = None if without else torch.randn(mine.shape)
            other.grad = None if without else mine.grad.clone()
        held.step()
        wanted.step()
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    for mine, other in zip(ours, theirs, strict=True):
        assert held.state[mine].keys() == wanted.state[other].keys()
        for key, value in wanted.state[other].items():
            assert torch.equal(held.state[mine][key], value)


def test_a_gradient_is_forgotten() -> None:
    (one,) = [torch.nn.Parameter(torch.ones(2))]
    optimizer = create_optimizer([("one", one)], OptimizerConfig(), torch.device("cpu"))
    one.grad = torch.ones(2)
    optimizer.zero_grad()
    assert one.grad is None
    optimizer.step()
    assert torch.equal(one, torch.ones(2))


def test_a_first_step_on_a_cpu_imports_nothing_that_takes_long() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_STEP], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
