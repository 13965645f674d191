"""Ctrl-C and SIGTERM as a request that training grants between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from josrc import distributed
from josrc.errors import InterruptedRunError


class StopRequest:
    """Whether somebody asked a run to stop.

    Attributes:
        signal: number of the signal that asked for it; none as long as nobody did.
    """

    def __init__(self, run: Path) -> None:
        """Args: run: its folder, which a message names."""
        self.run = run
        self.signal: int | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Turn signals into a request; a second one ends at once.

        A request that comes too late to stop the run is handed on when it has ended.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wanted = [
            n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._ask) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.signal is not None:
            signal.raise_signal(self.signal)

    def is_granted(self) -> bool:
        """Whether to stop before the next step; of several processes all stop at the same one.

        They ask each other before every step, on the host: one that has ended is noticed here, and
        not by a device that waits for it.
        """
        if distributed.world() == 1:
            return self.signal is not None
        agreed = distributed.highest(self.signal or 0)
        if agreed:  # else the present one stays: it may have come just now, and counts next time
            self.signal = agreed
        return agreed > 0

    def stopped(self, saved: str) -> InterruptedRunError:
        """What ends the run, with what became of its state."""
        assert self.signal is not None
        return InterruptedRunError(self.signal, self.run, saved)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        # torchrun may send a second one while the first still has to be agreed on.
        if self.signal is not None and distributed.world() == 1:
            raise InterruptedRunError(number, self.run, "files saved earlier are intact")
        self.signal = number
