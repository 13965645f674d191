"""Errors that people see."""

import difflib
import errno
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path

# So many words or fewer are all told beside the one that was meant.
FEW = 5
# What can be done about errors of the system.
RIGHTS = "Take another place, or change who may use it (chmod, chown)."
ROOM = "Make room there, or take a place on another disk."
ADVICE = {
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EROFS: "Nothing can be written there: take another place, or a copy of the run.",
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EISDIR: "Name a file in it, or another one.",
    errno.ENOTDIR: "Take another place: a part of this path is a file, and no folder.",
    errno.EEXIST: "Take another name: this one is taken by something else.",
    errno.ENOENT: "Look whether it is spelled right, and still there.",
    errno.ENAMETOOLONG: "Take a shorter name.",
    errno.EXDEV: "Hard links don't reach another disk: --link sym or --copy does.",
    errno.EMFILE: "Allow more open files (ulimit -n), or use fewer --workers.",
}


class UserError(ValueError):
    """A mistake its user can mend: shown as one message, never as a traceback.

    It is a ValueError for those who use josrc as they use scikit-learn.
    """


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
        self.stopped = f"Stopped by {signal.Signals(signal_number).name}; {saved}."
        self.advise(f"Go on with: josrc resume {shlex.quote(str(folder))}")

    def advise(self, advice: str) -> None:
        """Say how to go on."""
        self.args = (f"{self.stopped}\n{advice}",)


def reason(error: Exception) -> str:
    """Why something failed: an error of the system with what to do, and without its number."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return f"{error.strerror}. {ADVICE.get(error.errno, 'Try again, or take another place.')}"


def sentence(error: Exception) -> str:
    """The same with the path that could not be used, if the error knows one."""
    path, why = None, reason(error).removesuffix(".")
    if isinstance(error, OSError):
        path = error.filename2 or error.filename
    return f"{path} can't be used: {why}." if path else f"{why}."


def closest(word: str, known: Sequence[str], prefix: str = "") -> str:
    """`` Did you mean 'josrc'?``, and all there is where nothing is near or little is known."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    meant = f" Did you mean '{prefix}{near[0]}'?" if near else ""
    if near and len(known) > FEW:
        return meant
    return f"{meant} Known: {', '.join(prefix + name for name in known)}."
