"""Errors that people see."""

import shlex
import signal
from pathlib import Path


class UserError(Exception):
    """A mistake its user can mend: shown as one message, never as a traceback."""


class TrainingFailedError(UserError):
    """Training ran into non-finite losses or lost what it had learned."""


class InterruptedRunError(Exception):
    """A signal asked the run to stop; its state is saved."""

    def __init__(self, signal_number: int, folder: Path) -> None:
        self.signal_number = signal_number
        self.folder = folder
        super().__init__(
            f"Stopped by {signal.Signals(signal_number).name}; the state is saved.\n"
            f"Go on with: josrc resume {shlex.quote(str(folder))}"
        )
