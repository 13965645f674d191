"""What torchrun starts in tests: commands of josrc, one after the other, in each of its processes.

    torchrun ... tests/processes.py COMMANDS.json

The file holds a list of ``{"arguments": [...]}``. With ``"signal"``, the second process sends that
signal to itself before its seventh training step; with ``"traced"`` steps that would be compiled
are traced, which takes less time, and their number is printed. Beside the file each process leaves
the exit codes of its commands, ``codes-RANK.json``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from commands import josrc
from josrc.engine.state import TrainState

STEP = 7


def send_before_step(name: str) -> None:
    """Let this process get a signal in the middle of its training, once."""
    original, count = TrainState.train_step, 0

    def train_step(self: TrainState, size: int) -> None:
        nonlocal count
        count += 1
        if count == STEP:
            os.kill(os.getpid(), signal.Signals[name])
        original(self, size)

    TrainState.train_step = train_step  # type: ignore[method-assign, assignment]


@contextmanager
def traced() -> Iterator[None]:
    """Compile without a compiler behind it; tell how many compiled steps were taken."""
    original, count = torch.compile, 0

    def compile(function: Any, **options: Any) -> Any:
        followed = original(function, backend="eager", **options)

        def call(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            return followed(*arguments)

        return call

    torch.compile = compile  # type: ignore[assignment]
    yield
    torch.compile = original
    print(f"compiled steps: {count}", flush=True)


if __name__ == "__main__":
    file, rank, codes = Path(sys.argv[1]), os.environ["RANK"], []
    whole_step = TrainState.train_step
    for command in json.loads(file.read_text()):
        TrainState.train_step = whole_step  # type: ignore[method-assign]
        if "signal" in command and rank == "1":
            send_before_step(command["signal"])
        with traced() if "traced" in command else nullcontext():
            codes.append(josrc(*command["arguments"]))
        file.with_name(f"codes-{rank}.json").write_text(json.dumps(codes))
