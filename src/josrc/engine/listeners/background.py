"""Loggers on threads of their own: one that hangs or fails does not hold up or end a training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import Any

from josrc.engine.listeners.base import Listener, Logger
from josrc.engine.metrics import Row

# Seconds that the end of a training waits for all its loggers together.
PATIENCE = 30.0


class _LoggerThread(Thread):
    """Hands one logger its events in their order, until it fails or has heard the end.

    Attributes:
        problem: why it hears nothing more, until that has been told.
    """

    def __init__(self, name: str, logger: Logger) -> None:
        # A daemon: what hangs must not keep the process.
        super().__init__(name=f"josrc --log {name}", daemon=True)
        self.called, self.logger, self.problem, self.failed = name, logger, "", False
        self.events: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()

    def hears(self, event: str) -> bool:
        """Whether the logger does anything at such an event, and still listens."""
        own, default = getattr(type(self.logger), event), getattr(Listener, event)
        return not self.failed and own is not default

    def run(self) -> None:
        """Call the logger; whatever another library raises is kept as the problem."""
        event = ""
        while event != "ended":
            event, values = self.events.get()
            try:
                getattr(self.logger, event)(*values)
            except Exception as error:  # of another library: anything may be
                self.problem = " ".join(str(error).split())[:200] or type(error).__name__
                self.failed = True
                return


class BackgroundLoggers(Listener):
    """All loggers of a run, each on its own thread.

    A server that is gone, does not answer, or a full account must not cost a training: one line
    reports it, and that logger hears nothing more.
    """

    def __init__(self, loggers: Mapping[str, Logger], tell: Callable[[str], None]) -> None:
        self.threads = [_LoggerThread(name, logger) for name, logger in loggers.items()]
        self.tell = tell

    def started(self, epochs: int, done: int) -> None:
        """Hand it on; nobody waits for a tracker's server here."""
        for thread in self.threads:
            thread.start()
        self._send("started", epochs, done)

    def progressed(self, epoch: int, position: int, samples: int) -> None:
        """Hand it on."""
        self._send("progressed", epoch, position, samples)

    def noticed(self, text: str) -> None:
        """Hand it on."""
        self._send("noticed", text)

    def epoch_ended(self, row: Row) -> None:
        """Hand it on, as it is now."""
        self._send("epoch_ended", dict(row))

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Hand it on, and wait until all have heard it, but not for long."""
        for thread in self.threads:
            thread.events.put(("ended", (None if summary is None else dict(summary),)))
        end = time.monotonic() + PATIENCE
        for thread in self.threads:
            if thread.is_alive():  # one that was never started has heard nothing
                thread.join(max(0.0, end - time.monotonic()))
                if thread.is_alive():
                    self.tell(
                        f"--log {thread.called} has not answered within {PATIENCE:.0f} s of the "
                        "end: what it was not told yet is missing there."
                    )
        self._report()

    def _send(self, event: str, *values: Any) -> None:
        self._report()
        for thread in self.threads:
            if thread.hears(event):
                thread.events.put((event, values))

    def _report(self) -> None:
        """Tell of loggers that have failed since; only the thread of the training writes."""
        for thread in self.threads:
            if thread.problem:
                problem, thread.problem = thread.problem, ""
                self.tell(
                    f"--log {thread.called} failed and will not log the rest of this run: {problem}"
                )
