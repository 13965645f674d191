"""What a run says while it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc._console import Terminal
from josrc.engine.listeners import progress as events
from josrc.engine.listeners.progress import Listener, SlowRunHint
from josrc.engine.run_folder import RunFolder
from josrc.runs.start import listeners


class Notes(Listener):
    def __init__(self) -> None:
        self.told: list[str] = []

    def noticed(self, text: str) -> None:
        self.told.append(text)


@pytest.mark.parametrize(("seconds", "words"), [(17, []), (200, ["5.5 h left on this CPU"])])
def test_a_long_training_on_a_cpu_hears_once_what_would_make_it_shorter(
    seconds: int, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(events.time, "monotonic", lambda: clock[0])
    notes = Notes()
    advice = SlowRunHint(notes)
    advice.started(100, 0)
    for epoch in (1, 2, 3):
        clock[0] += seconds
        advice.epoch_ended({"epoch": epoch})
    assert [text[: len(word)] for text, word in zip(notes.told, words, strict=True)] == words
    for way in ("--epochs", "--image-size", "model.width", "GPU"):
        assert all(way in text for text in notes.told)


def test_only_trainings_on_a_cpu_are_advised(tmp_path: Path) -> None:
    for on_cpu in (True, False):
        heard = listeners(RunFolder(tmp_path), Terminal(), "josrc", on_cpu=on_cpu)
        assert any(isinstance(listener, SlowRunHint) for listener in heard) == on_cpu
