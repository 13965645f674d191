"""How long a run still takes, told by how fast it goes just now."""

from __future__ import annotations

import time
from collections import deque

from josrc._console import duration
from josrc.engine.listeners.base import Listener
from josrc.engine.metrics import Row

# The first steps of a run import, compile and allocate: they say nothing of the others.
FIRST_STEPS = 10
# The rate is that of the last epoch, or of so many seconds if that is longer.
MIN_WINDOW_SECONDS = 60.0


class RunClock(Listener):
    """Measures the rate of a run while it goes on, from its first epoch on.

    What comes before training, and its first steps, are left out. Tests and checkpoints between two
    epochs count as soon as there was one.

    Attributes:
        marks: times, and how many epochs were done then, of the time that is looked back on.
    """

    def __init__(self) -> None:
        self.marks: deque[tuple[float, float]] = deque()
        self.epochs, self.steps = 0, 0

    def started(self, epochs: int, done: int) -> None:
        """Remember how much there is to do."""
        self.marks.clear()
        self.epochs, self.steps = epochs, 0

    def progressed(self, epoch: int, position: int, samples: int) -> None:
        """Mark a step."""
        self.steps += 1
        if self.steps >= FIRST_STEPS:
            self._mark(epoch + position / samples)

    def epoch_ended(self, row: Row) -> None:
        """Mark the end of an epoch."""
        if self.marks:
            self._mark(float(row["epoch"] or 0))

    def _mark(self, place: float) -> None:
        now = time.monotonic()
        self.marks.append((now, place))
        while len(self.marks) > 2:
            at, done = self.marks[1]
            if now - at < MIN_WINDOW_SECONDS or place - done < 1:
                break  # without the first mark the window would be too short
            self.marks.popleft()

    @property
    def watched(self) -> float:
        """Seconds that the rate rests on."""
        return self.marks[-1][0] - self.marks[0][0] if self.marks else 0.0

    @property
    def an_epoch(self) -> float | None:
        """Seconds per epoch at the present rate; none as long as there is nothing to tell it by."""
        done = self.marks[-1][1] - self.marks[0][1] if self.marks else 0.0
        return self.watched / done if done > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds until the last epoch ends."""
        if (an_epoch := self.an_epoch) is None:
            return None
        return an_epoch * (self.epochs - self.marks[-1][1])

    def in_words(self) -> str:
        """``12 min left``, or nothing as long as that is not known."""
        return "" if self.left is None else f"{duration(self.left)} left"
