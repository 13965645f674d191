"""What torchrun starts in tests: commands of josrc, one after the other, in each of its processes.

    torchrun ... tests/support/processes.py COMMANDS.json

The file holds a list of ``{"arguments": [...]}``. With ``"signal"``, the second process sends that
signal to itself before its seventh training step. Beside the file each process leaves the exit
codes of its commands, ``codes-RANK.json``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

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


if __name__ == "__main__":
    file, rank, codes = Path(sys.argv[1]), os.environ["RANK"], []
    whole_step = TrainState.train_step
    for command in json.loads(file.read_text()):
        TrainState.train_step = whole_step  # type: ignore[method-assign]
        if "signal" in command and rank == "1":
            send_before_step(command["signal"])
        codes.append(josrc(*command["arguments"]))
        file.with_name(f"codes-{rank}.json").write_text(json.dumps(codes))
