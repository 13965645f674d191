"""What is said of a run on a console while it goes on: bars, lines, and how long it will take."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from josrc._console import duration, say
from josrc.engine.listeners.base import Listener
from josrc.engine.listeners.clock import RunClock
from josrc.engine.metrics import GROUP_TITLES, Row


def describe_row(row: Row) -> str:
    """An epoch in a few words."""
    parts = [f"loss {row['loss']:.3f}"]
    for name, column in (("test", "test_accuracy"), ("agreement", "agreement")):
        if row.get(column) is not None:
            parts.append(f"{name} {row[column]:.2f} %")
    if row.get("n_clean") is not None:
        for name, title in GROUP_TITLES.items():
            precision = row.get(f"{name}_precision")
            shown = f" ({precision:.0f} %)" if precision is not None else ""
            parts.append(f"{title} {row[f'n_{name}']:,}{shown}")
    return "  ".join(parts)


class TimeEstimate(Listener):
    """Says once how long the run will take, as soon as that can be told."""

    PATIENCE = 15  # seconds that are watched first; a short run says nothing

    def __init__(self, clock: RunClock, teller: Listener) -> None:
        self.clock, self.teller, self.said = clock, teller, False

    def progressed(self, epoch: int, position: int, samples: int) -> None:
        """Look at the clock."""
        if self.said or self.clock.watched < self.PATIENCE or self.clock.an_epoch is None:
            return
        self.said = True
        an_epoch = duration(self.clock.an_epoch)
        self.teller.noticed(f"About {an_epoch} per epoch; {self.clock.in_words()}.")


class SlowRunHint(Listener):
    """Says once, after the first epoch, what would make a long training on a CPU shorter."""

    LONG = 30 * 60  # seconds

    def __init__(self, clock: RunClock, teller: Listener) -> None:
        self.clock, self.teller, self.said = clock, teller, False

    def epoch_ended(self, row: Row) -> None:
        """Look at the first epoch that the clock can tell anything by."""
        left = self.clock.left
        if self.said or left is None:
            return
        self.said = True
        if left > self.LONG:
            self.teller.noticed(
                f"{duration(left)} left on this CPU. Fewer --epochs, a smaller --image-size, a "
                "smaller network (--model; for cnn7 model.width=0.5) or a GPU would shorten it."
            )


class LiveProgress(Listener):
    """A bar over the epochs and the numbers of the last one, for a terminal.

    Args:
        console: the terminal.
        title: what is running.
        clock: tells how long it takes; it hears of everything first.
        above: what the run is part of, shown over it; then the bars vanish when the run ends.
    """

    def __init__(
        self, console: Console, title: str, clock: RunClock, above: RenderableType | None = None
    ) -> None:
        self.clock = clock
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self.task = self.progress.add_task(title, epoch=0, epochs=0, total=None, left="")
        self.text = Text(no_wrap=True, overflow="ellipsis", style="dim")
        parts: list[RenderableType] = [self.progress, self.text]
        if above is not None:
            parts.insert(0, above)
        self.live = Live(Group(*parts), console=console, transient=above is not None)

    def started(self, epochs: int, done: int) -> None:
        """Show the bar."""
        self.progress.update(self.task, total=epochs, completed=done, epoch=done, epochs=epochs)
        self.live.start()

    def progressed(self, epoch: int, position: int, samples: int) -> None:
        """Move the bar inside an epoch."""
        left = self.clock.in_words()
        self.progress.update(self.task, completed=epoch + position / samples, left=left)

    def noticed(self, text: str) -> None:
        """Print it above the bar."""
        say(self.live.console, text)

    def epoch_ended(self, row: Row) -> None:
        """Move the bar and show the epoch's numbers."""
        done, left = row["epoch"], self.clock.in_words()
        self.progress.update(self.task, completed=done, epoch=done, left=left)
        self.text.plain = describe_row(row)

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Leave the finished bar on the screen."""
        self.live.stop()


class PlainProgress(Listener):
    """A line per epoch, for logs and pipes; a sign of life in between when epochs are long."""

    QUIET_SECONDS, LONG = 30, 90  # of a run that ends sooner no times are told

    def __init__(self, console: Console, title: str, clock: RunClock) -> None:
        self.console, self.title, self.clock = console, title, clock
        self.epochs = 0
        self.spoken = time.monotonic()

    def started(self, epochs: int, done: int) -> None:
        """Remember how many epochs there are."""
        self.epochs = epochs
        self.spoken = time.monotonic()

    def progressed(self, epoch: int, position: int, samples: int) -> None:
        """Say how far a long epoch is."""
        if time.monotonic() - self.spoken > self.QUIET_SECONDS:
            here = f"epoch {epoch + 1}/{self.epochs}  {position:,} of {samples:,} samples"
            self._say("  ".join(filter(None, [here, self.clock.in_words()])))

    def noticed(self, text: str) -> None:
        """One line."""
        self._say(text)

    def epoch_ended(self, row: Row) -> None:
        """One line."""
        epoch = int(row["epoch"] or 0)
        long = (self.clock.left or 0) > self.LONG
        rest = f"  {row['seconds']:.1f} s, {self.clock.in_words()}" if long else ""
        self._say(f"epoch {epoch}/{self.epochs}  {describe_row(row)}{rest}")

    def _say(self, text: str) -> None:
        self.spoken = time.monotonic()
        say(self.console, f"{self.title}  {text}")


def create_progress(
    console: Console, title: str, clock: RunClock, above: RenderableType | None = None
) -> Listener:
    """A live bar on a terminal, plain lines elsewhere."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console, title, clock, above)
    return PlainProgress(console, title, clock)
