"""What a run says while it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from josrc._console import Terminal
from josrc.engine.listeners import clock
from josrc.engine.listeners.base import Listener
from josrc.engine.listeners.clock import RunClock
from josrc.engine.listeners.progress import SlowRunHint, TimeEstimate, create_progress
from josrc.engine.run_folder import RunFolder
from josrc.runs.start import listeners


class Notes(Listener):
    def __init__(self) -> None:
        self.told: list[str] = []

    def noticed(self, text: str) -> None:
        self.told.append(text)


class Run:
    """A run as its listeners hear of it, by a clock that it turns itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epochs: int, done: int = 0) -> None:
        self.now, self.epochs = 1000.0, epochs
        monkeypatch.setattr(clock.time, "monotonic", lambda: self.now)
        self.clock = RunClock()
        self.heard: list[Listener] = [self.clock]
        self.clock.started(epochs, done)

    def epoch(self, number: int, steps: float, step: float, test: float = 0.0) -> None:
        """Take the steps of an epoch, 20 of them if it is whole."""
        for place in range(1, int(steps) + 1):
            self.now += step
            for listener in self.heard:
                listener.progressed(number, place, 20)
        if steps == 20:
            self.now += test
            for listener in self.heard:
                listener.epoch_ended({"epoch": number + 1, "loss": 1.0, "seconds": 1.0})


def test_the_time_left_leaves_out_start_and_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, epochs=10)
    run.now += 500  # features of a frozen network
    run.epoch(0, steps=3, step=100)  # compilation
    assert run.clock.left is None
    assert run.clock.in_words() == ""
    run.epoch(0, steps=15, step=2)
    assert run.clock.left == pytest.approx((10 - 15 / 20) * 20 * 2)


def test_the_time_left_counts_tests_and_follows_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, epochs=50)
    for number in range(4):
        run.epoch(number, steps=20, step=5, test=20)
    assert run.clock.left == pytest.approx(46 * 120)
    for number in range(4, 6):
        run.epoch(number, steps=20, step=10, test=20)
    assert run.clock.left == pytest.approx(44 * 220)
    assert run.clock.in_words() == "2.7 h left"


def test_the_time_left_of_a_resumed_run_begins_where_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, epochs=10, done=8)
    run.epoch(8, steps=20, step=3)
    assert run.clock.left == pytest.approx(60)


def test_a_run_tells_once_in_its_first_epoch_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, epochs=10)
    notes = Notes()
    run.heard.append(TimeEstimate(run.clock, notes))
    run.epoch(0, steps=20, step=6)
    assert notes.told == ["About 2 min per epoch; 19 min left."]


@pytest.mark.parametrize(("step", "words"), [(0.8, []), (10, ["5.5 h left on this CPU"])])
def test_a_long_training_on_a_cpu_hears_once_what_would_make_it_shorter(
    step: float, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(monkeypatch, epochs=100)
    notes = Notes()
    run.heard.append(SlowRunHint(run.clock, notes))
    for epoch in (0, 1, 2):
        run.epoch(epoch, steps=20, step=step)
    assert [text[: len(word)] for text, word in zip(notes.told, words, strict=True)] == words
    for way in ("--epochs", "--image-size", "model.width", "GPU"):
        assert all(way in text for text in notes.told)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_time_left_is_shown(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, epochs=10)
    console = Console(force_terminal=terminal, width=120)
    shown = create_progress(console, "josrc", run.clock)
    shown.started(10, 0)
    run.heard.append(shown)
    run.epoch(0, steps=20, step=40)
    shown.ended(None)
    assert "2.0 h left" in capsys.readouterr().out


def test_only_trainings_on_a_cpu_are_advised(tmp_path: Path) -> None:
    for on_cpu in (True, False):
        heard = listeners(RunFolder(tmp_path), Terminal(), "josrc", on_cpu=on_cpu)
        assert any(isinstance(listener, SlowRunHint) for listener in heard) == on_cpu
