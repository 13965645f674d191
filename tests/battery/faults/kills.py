"""Kills at random instants and before every file event; afterwards the same command, to the end.

A round passes if what is there in the end equals what an uninterrupted command leaves, bit for bit,
and no original image was touched.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import watch
from ..cases import ACCEPTED, DIFFERS, LOST, TRACEBACK, Result, chosen
from ..child import Ended, command, execute
from ..record import KILLS
from ..world import SHORT, World, copy
from .compare import contents, differing
from .events import EventCounter

# How many rounds of the training are killed at random instants, some of them more than once.
RANDOM = 30


@dataclass(frozen=True)
class Trial:
    """A command that is killed.

    Attributes:
        name: of the trial.
        words: the command; in a folder with a copy of a finished run, if ``on_run``.
        again: commands of which the first that succeeds brings it to its end after a kill.
        result: what is compared, below the folder.
        on_run: whether it needs a run.
        earlier: a command that has succeeded before, so that there is something to replace.
        every: only each so-many-th event is one to kill at.
    """

    name: str
    words: tuple[str, ...]
    again: tuple[tuple[str, ...], ...]
    result: str
    on_run: bool = True
    earlier: tuple[str, ...] = ()
    every: int = 1


def trials(world: World) -> list[Trial]:
    """Training, audit, report, and apply to a file and to a folder."""
    three = [word if word != "1" else "3" for word in SHORT]
    train = ("train", str(world.data), *three, "--out", "out/run")
    to_file = ("apply", "run", "--auto", "0", "--out", "out/c.csv", "--overwrite")
    to_folder = ("apply", "run", "--auto", "0", "--copy", "--out", "out/c", "--overwrite")
    other = ("apply", "run", "--auto", "0.9", "--copy", "--out", "out/c")
    josrc = (*train, "--method", "josrc")
    resume = ("resume", "out/run", "--quiet")
    audit, report = ("audit", "run", "--noise-rate", "0.2"), ("report", "run")
    return [
        Trial("audit", audit, (audit,), "run"),
        Trial("report", report, (report,), "run"),
        Trial("apply to a file", to_file, (to_file,), "out"),
        Trial("apply to a folder", to_folder, (to_folder,), "out", every=7),
        Trial("apply over a folder", to_folder, (to_folder,), "out", earlier=other, every=7),
        Trial("train", train, (resume, (*train, "--overwrite")), "out/run", on_run=False),
        Trial("train josrc", josrc, (resume, (*josrc, "--overwrite")), "out/run", False, every=4),
    ]


def run(world: World, share: float, done: set[tuple[str, str]], until: float) -> Iterator[Result]:
    """Every trial killed before each of its file events, and the training at random instants."""
    for trial in trials(world):
        reference = folder = None
        counter = EventCounter(world.scratch / "kill")
        for number in (*range(1, 1000, trial.every), *range(-RANDOM, 0)):
            name = (
                f"{trial.name}, event {number}" if number > 0 else f"{trial.name}, random {-number}"
            )
            if number < 0 and not trial.name.startswith("train"):
                continue
            if (KILLS, name) in done or not chosen(KILLS, name, share):
                continue
            if time.monotonic() > until:
                return
            if reference is None:
                folder = prepare(world, trial)
                begun = time.monotonic()
                ended = call(world, trial.words, folder, counter)
                if ended.code != 0:
                    raise RuntimeError(f"{trial.words}: {ended.error[-2000:]}")
                reference, length = contents(folder / trial.result), time.monotonic() - begun
            if number <= counter.count:
                yield one_round(world, trial, name, number, reference, length)


def prepare(world: World, trial: Trial) -> Path:
    """A folder with what the trial begins with."""
    folder = world.scratch / "kill"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    if trial.on_run:
        copy(world.run, "run")(folder)
    if trial.earlier:
        ended = call(world, trial.earlier, folder)
        if ended.code != 0:
            raise RuntimeError(f"{trial.earlier}: {ended.error[-2000:]}")
    return folder


def call(
    world: World, words: tuple[str, ...], folder: Path, counter: EventCounter | None = None,
    limit: float = 120.0,
) -> Ended:  # fmt: skip
    """Run a command in the folder, watched by a counter of events."""
    before = counter.install if counter is not None else None
    return execute(words, folder, before=before, environment=world.environment(folder), limit=limit)


def one_round(
    world: World, trial: Trial, name: str, number: int, reference: dict[str, str], length: float
) -> Result:
    """Kill a trial (a training at a random instant until it ends by itself), and compare."""
    begun, folder = time.monotonic(), prepare(world, trial)
    originals = watch.snapshot(world.data)
    kills, ended = 0, None
    if number > 0:
        killer = EventCounter(folder, kill_at=number)
        kills += call(world, trial.words, folder, killer).code == -signal.SIGKILL
    else:
        chance = random.Random(f"{trial.name}/{number}")
        words = trial.words
        for _ in range(3):
            limit = chance.uniform(0.1, 1.1) * length
            stopped = call(world, words, folder, limit=limit)
            kills += stopped.stopped is not None
            if stopped.code == 0:
                break
            words = trial.again[0] if (folder / trial.result / "config.yaml").is_file() else words
    outcome, message = ACCEPTED, ""
    for words in trial.again:
        ended = call(world, words, folder)
        if ended.code == 0 or "Traceback" in ended.error:
            break
    assert ended is not None
    different = differing(reference, contents(folder / trial.result))
    if "Traceback" in ended.error:
        outcome, message = TRACEBACK, ended.error[-1500:]
    elif ended.code != 0 or different:
        outcome = DIFFERS
        message = f"code {ended.code}; differs: {different[:9]}; {ended.error[-500:]}"
    if watch.destroyed(originals, watch.snapshot(world.data)):
        outcome, message = LOST, "an original image was changed"
    seconds = round(time.monotonic() - begun, 2)
    figures = {"kills": kills}
    return Result(
        KILLS, name, outcome, seconds, 0, command(trial.words), _short(message, world), figures
    )


def _short(message: str, world: World) -> str:
    return message.replace(str(world.root), "WORLD").replace(os.sep * 2, os.sep)
