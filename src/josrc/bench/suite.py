"""Run what is missing of a suite, one run after the other, compiled code reused."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from josrc.bench.paper import CELLS, TABLES
from josrc.bench.results import ResultKey, save_result
from josrc.config import RunConfig
from josrc.data.source import Source, load_source, with_noise
from josrc.engine.runfolder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import TrainingFailedError, UserError
from josrc.methods import method_names
from josrc.runs import configure, listeners, settled
from josrc.terminal import say


def planned(
    suite: str, methods: Sequence[str] | None, cells: Sequence[str] | None, seeds: int
) -> Iterator[ResultKey]:
    """The runs of a suite: every cell with the first seed before any cell with the second."""
    if suite not in TABLES:
        raise UserError(f"Unknown suite '{suite}'. Known: {', '.join(TABLES)}.")
    table = TABLES[suite]
    keys = [cell.key for cell in CELLS]
    for wrong in set(cells or ()) - set(keys):
        raise UserError(f"Unknown cell '{wrong}'. {suite} has: {', '.join(keys)}.")
    for wrong in set(methods or ()) - set(table.scores):
        raise UserError(f"'{wrong}' is not in {suite}. It has: {', '.join(table.scores)}.")
    for seed in range(seeds):
        for method in methods or [m for m in table.scores if m in method_names()]:
            for cell in CELLS:
                if not cells or cell.key in cells:
                    yield ResultKey(suite, table.data, cell, method, "augmented", seed)


def run_suite(
    suite: str,
    *,
    methods: Sequence[str] | None,
    cells: Sequence[str] | None,
    seeds: int,
    minutes: float | None,
    options: Mapping[str, Any],
    results: Path,
    scratch: Path,
    console: Console,
) -> None:
    """Run what is missing of a suite; each result is saved when its run ends."""
    begun = time.monotonic()
    runs = list(planned(suite, methods, cells, seeds))
    if options.get("epochs") is not None:  # a trial must never pass for the paper's run
        results, scratch = results / "trial", scratch / "trial"
    missing = [key for key in runs if not (results / key.path).is_file()]
    say(console, f"{suite}: {len(runs)} runs, {len(runs) - len(missing)} of them done before.")
    trainer: Trainer | None = None
    source: Source | None = None
    for done, key in enumerate(missing):
        spent = time.monotonic() - begun
        # A run is begun only if the runs so far say that it will end in time.
        if minutes is not None and spent + spent / max(1, done) > 60 * minutes:
            say(
                console, f"Stopped after {spent / 60:.1f} minutes: {len(missing) - done} runs left."
            )
            return
        config = configure(
            key.data,
            noise=key.cell.noise,
            rate=key.cell.rate,
            method=key.method,
            seed=key.seed,
            **options,
        )
        source = with_noise(source, config.data) if source else load_source(config.data)
        config = settled(config, source)
        if trainer is not None and not trainer.fits(config, source):
            trainer = None  # its memory must be free before the next program is built
            gc.collect()
        trainer = _run(key, config, source, trainer, results, scratch, console)
        pace = (time.monotonic() - begun) / (done + 1)
        left = pace * (len(missing) - done - 1)
        say(console, f"{done + 1} of {len(missing)} runs, about {left / 60:.0f} minutes left.")


def _run(
    key: ResultKey,
    config: RunConfig,
    source: Source,
    reuse: Trainer | None,
    results: Path,
    scratch: Path,
    console: Console,
) -> Trainer:
    """One run, from its checkpoint if it was interrupted before."""
    folder = RunFolder(scratch / key.path.with_suffix(""))
    title = f"{key.method} {key.data} {key.cell.title} seed {key.seed}"
    trainer = Trainer(config, source, folder, listeners(folder, console, title), reuse)
    with folder.locked():
        if folder.config.is_file() and folder.read_config() == config:
            trainer.restore()
        else:
            folder.clear()
            folder.create(config, source, trainer.device)
        try:
            summary = trainer.run()
            say(console, f"{title}: {summary['last10_mean']:.2f} %")
        except TrainingFailedError as failure:
            summary = trainer.summary() | {"failed": str(failure)}
            say(console, f"{title} failed: {failure}")
        save_result(results, key, summary, trainer.rows)
    return trainer
