"""How long something takes, by a clock that may leap."""

from __future__ import annotations

import time

# A lap that is so long, and in which the process has worked for less than this share of it, is one
# in which the machine was suspended, or its clock was set.
MIN_SUSPENSION_SECONDS, MAX_IDLE_SHARE = 60.0, 0.01


class Stopwatch:
    """Seconds since it was made, in laps; those in which the machine slept are left out.

    Attributes:
        seconds: of all laps so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._at, self._worked = time.monotonic(), time.process_time()

    def lap(self) -> float:
        """End a lap; returns the seconds of all."""
        now, worked = time.monotonic(), time.process_time()
        passed, busy = now - self._at, worked - self._worked
        leapt = passed > MIN_SUSPENSION_SECONDS and busy < MAX_IDLE_SHARE * passed
        self.seconds += max(0.0, busy if leapt else passed)
        self._at, self._worked = now, worked
        return self.seconds
