"""Seconds, whatever the clock does."""

from __future__ import annotations

import time

import pytest

from josrc.engine.stopwatch import Stopwatch


def test_a_clock_that_leaps_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, worked = [100.0], [5.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: worked[0])
    watch = Stopwatch()
    for passed, busy, expected in (
        (2.0, 1.9, 2.0),  # work
        (50.0, 0.0, 52.0),  # a disk may be slow
        (1e6, 0.5, 52.5),  # suspended
        (200.0, 150.0, 252.5),  # a long step
        (-1e6, 0.1, 252.5),  # set back
    ):
        now[0], worked[0] = now[0] + passed, worked[0] + busy
        assert watch.lap() == pytest.approx(expected)
