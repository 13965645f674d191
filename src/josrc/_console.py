"""What josrc says on a terminal, in a pipe and in a log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console

from josrc._launch import find_place

# Control characters but tabs and ends of lines, what turns the direction of writing, and halves of
# characters, which no terminal can be sent.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# Characters of a name and of a sentence. Longer ones are not meant to be read.
MAX_NAME_LENGTH, MAX_TEXT_LENGTH = 200, 1000
# And of all that is said at the end of a command.
MAX_MESSAGE_LENGTH = 20_000


class Terminal(Console):
    """A console whose reader may leave: a closed pipe must not end a training."""

    def on_broken_pipe(self) -> None:
        """Go on without output."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def printable(text: str) -> str:
    """A text that moves no cursor and sets no colour: what would is spelled out.

    Names of classes and files may hold anything, and a terminal obeys what it is shown.
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(console: Console, text: str) -> None:
    """A line as it is: paths and names may hold anything, nothing in them is markup."""
    console.print(printable(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


@cache
def say_once(text: str) -> None:
    """A line beside the output, however often, and in however many processes, there is reason."""
    say(Terminal(stderr=True, quiet=find_place().rank > 0), text)


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


def clipped(text: str, longest: int = MAX_NAME_LENGTH) -> str:
    """A text that is not too long to be shown."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 image`` or ``1,200 images``."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
