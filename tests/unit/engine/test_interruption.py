"""Ctrl-C as a request."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from trainers import trainer


def test_a_request_that_comes_too_late_is_handed_on(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", method="standard", epochs=1)
    original = made.state.end_epoch

    def end_epoch() -> Any:
        signal.raise_signal(signal.SIGINT)
        return original()

    made.state.end_epoch = end_epoch  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert made.folder.summary.is_file(), "the run itself is complete"
