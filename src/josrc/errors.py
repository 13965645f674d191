"""Errors that people see."""

import difflib
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path


class UserError(Exception):
    """A mistake its user can mend: shown as one message, never as a traceback."""


class FolderInUseError(UserError):
    """Another process writes to a run folder."""


class TrainingFailedError(UserError):
    """Training ran into non-finite losses or lost what it had learned."""


class LostProcessError(UserError):
    """Another process of the run ended, so that this one can't go on."""


class InterruptedRunError(Exception):
    """A signal asked the run to stop."""

    def __init__(self, signal_number: int, folder: Path, saved: str) -> None:
        self.signal_number = signal_number
        super().__init__(
            f"Stopped by {signal.Signals(signal_number).name}; {saved}.\n"
            f"Go on with: josrc resume {shlex.quote(str(folder))}"
        )


def closest(word: str, known: Sequence[str], prefix: str = "") -> str:
    """`` Did you mean 'josrc'?``, or all there is where nothing is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean '{prefix}{near[0]}'?" if near else f" Known: {', '.join(known)}."
