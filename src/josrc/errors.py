"""Errors that people see."""

import difflib
import errno
import importlib.metadata
import json
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

# This many words or fewer are all listed beside the one that was meant.
MAX_LISTED = 5
# What can be done about errors of the system.
RIGHTS = "Choose another place, or change its permissions (chmod, chown)."
ROOM = "Free some space there, or choose a place on another disk."
ADVICE = {
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EROFS: "Nothing can be written there: choose another place, or work on a copy of the "
    "run.",
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EISDIR: "Give a file inside it, or another path.",
    errno.ENOTDIR: "Choose another place: a part of this path is a file, not a folder.",
    errno.EEXIST: "Choose another name: this one is already used.",
    errno.ENOENT: "Check that it is spelled correctly and still there.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EXDEV: "Hard links don't work across disks: use --link sym or --copy.",
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
        self.advise(f"Resume with: {command('resume', folder)}")

    def advise(self, advice: str) -> None:
        """Say how to go on."""
        self.args = (f"{self.stopped}\n{advice}",)


def check_run(folder: Path) -> None:
    """Raise an error if a folder is not a run's: told before anything takes seconds to import."""
    if (folder / "config.yaml").is_file():
        return
    told = f"{folder / 'config.yaml'} does not exist: {folder} is not a josrc run folder."
    images = folder.is_dir() and any(entry.is_dir() for entry in folder.iterdir())
    if images or folder.is_file():
        told += f" To judge labels without training: {command('scan', folder)}"
    raise UserError(told)


def no_verdicts(run: Path) -> UserError:
    """The error that a run has no verdicts, with the command that makes them."""
    return UserError(f"{run} has no verdicts yet. Write them: {command('audit', run)}")


def command(name: str, run: str | Path) -> str:
    """A command of josrc on a path, as it can be pasted into a shell."""
    return f"josrc {name} {shlex.quote(str(run))}"


def install_command(extra: str) -> str:
    """The command that adds an extra to josrc, from wherever this josrc was installed."""
    return f"pip install {shlex.quote(_requirement(extra))}"


def _requirement(extra: str) -> str:
    """What pip is told: a folder, a file or a repository with the extra, or the name alone."""
    try:
        written = importlib.metadata.distribution("josrc").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return f"{Path(__file__).resolve().parents[2]}[{extra}]"  # run from its sources
    if not written:  # from an index
        return f"josrc[{extra}]"
    origin = json.loads(written)
    if "dir_info" in origin:
        return f"{url2pathname(urlsplit(origin['url']).path)}[{extra}]"
    system = origin.get("vcs_info", {}).get("vcs")
    return f"josrc[{extra}] @ {f'{system}+' if system else ''}{origin['url']}"


def reason(error: Exception) -> str:
    """Why something failed: an error of the system with what to do, and without its number."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return f"{error.strerror}. {ADVICE.get(error.errno, 'Try again, or choose another place.')}"


def sentence(error: Exception) -> str:
    """The same with the path that could not be used, if the error knows one."""
    path, why = None, reason(error).removesuffix(".")
    if isinstance(error, OSError):
        path = error.filename2 or error.filename
    return f"{path} can't be used: {why}." if path else f"{why}."


def is_out_of_memory(error: Exception) -> bool:
    """Whether there was no room for something, in main memory or on a GPU."""
    told = str(error).lower()
    return isinstance(error, MemoryError) or ("alloc" in told and "memory" in told)


def closest(word: str, known: Sequence[str], prefix: str = "") -> str:
    """`` Did you mean 'josrc'?``, and all there is where nothing is near or little is known."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    meant = f" Did you mean '{prefix}{near[0]}'?" if near else ""
    if near and len(known) > MAX_LISTED:
        return meant
    return f"{meant} Known: {', '.join(prefix + name for name in known)}."
