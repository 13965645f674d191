"""What josrc says on a terminal, in a pipe and in a log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console

# Characters of a name and of a sentence. Whoever writes longer ones does not want them to be read.
LONGEST_NAME, LONGEST_TEXT = 200, 1000


class Terminal(Console):
    """A console whose reader may leave: a closed pipe must not end a training."""

    def on_broken_pipe(self) -> None:
        """Go on without output."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def say(console: Console, text: str) -> None:
    """A line as it is: paths and names may hold anything, nothing in them is markup."""
    console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


@cache
def say_once(text: str) -> None:
    """A line beside the output, however often, and in however many processes, there is reason."""
    others = "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK") != "0"
    say(Terminal(stderr=True, quiet=others), text)


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar while something lasts, on a terminal alone; tell it how much is done, and of what."""
    from rich.progress import Progress

    hidden = console.quiet or not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield progress


def duration(seconds: float) -> str:
    """``40 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def clipped(text: str, longest: int = LONGEST_NAME) -> str:
    """A text that is not too long to be shown."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
