"""Run what is missing of a suite, one run after the other, compiled code reused."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from josrc._console import duration, say
from josrc.bench.paper import BACKBONE_TABLES
from josrc.bench.plan import DEVELOPMENT, choose_methods, find_suite, plan_runs, request
from josrc.bench.progress import SuiteProgress
from josrc.bench.provenance import record
from josrc.bench.results import ResultKey, is_made, save_result
from josrc.config import DataKind, RunConfig
from josrc.data.registry import open_source
from josrc.data.source import Source, with_noise
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import (
    FolderInUseError,
    InterruptedRunError,
    TrainingFailedError,
    UserError,
)
from josrc.methods import Method, method_names
from josrc.models.factory import expected_images
from josrc.runs.data import create_checked_method, read_images, with_noise_rate
from josrc.runs.resolve import load_run_config
from josrc.runs.start import configure, listeners


@dataclass(frozen=True)
class SuiteRuns:
    """What is missing of a suite, and where it goes.

    Attributes:
        title: of the suite.
        missing: the results without a file.
        configs: what to run for each of them.
        results: root of the results.
        scratch: root of the run folders.
        epochs: of a trial; a result of another length does not count.
    """

    title: str
    missing: Sequence[ResultKey]
    configs: Sequence[RunConfig]
    results: Path
    scratch: Path
    epochs: int | None


def find_runs(
    suite: str,
    *,
    methods: Sequence[str] | None,
    cells: Sequence[str] | None,
    seeds: int | None,
    options: Mapping[str, Any],
    results: Path,
    scratch: Path,
    console: Console,
    recipe: str = "augmented",
    rows: Sequence[str] | None = None,
    weights: Sequence[str] = (),
) -> SuiteRuns:
    """What is missing of a suite; a mistake in the options is reported before anything runs."""
    seeds = seeds or find_suite(suite).seeds
    runs = plan_runs(suite, methods, cells, seeds, recipe, rows)
    files = _weights_files(weights, [configure(k.data, **request(k)) for k in runs if weights])
    absent = [m for m in choose_methods(suite, methods, recipe) if m not in method_names()]
    if absent:
        say(console, f"Left out, since josrc does not have them yet: {', '.join(absent)}.")
    if _is_trial(suite, options, weights):  # which must never pass for the paper's run
        results, scratch = results / "trial", scratch / "trial"
    epochs = options.get("epochs")
    missing = find_missing(results, runs, epochs, console, f"{suite}: {len(runs)} runs")
    configs = [configure(key.data, **request(key), **options) for key in missing]
    if files:
        configs = [_with_weights(files, config) for config in configs]
    return SuiteRuns(suite, missing, configs, results, scratch, epochs)


def run_suite(suite: str, *, console: Console, minutes: float | None = None, **asked: Any) -> None:
    """Run what is missing of a suite; each result is saved when its run ends.

    Several processes can share a suite: each leaves out what another has begun.

    Args:
        suite: its name.
        console: where progress is reported.
        minutes: no run is begun that would end later.
        **asked: what ``find_runs`` takes.
    """
    runs = find_runs(suite, console=console, **asked)
    progress = SuiteProgress(runs.title, len(runs.missing))
    work = SuiteWork(runs.results, runs.scratch, console, progress, runs.epochs)
    elsewhere = 0
    for done, (key, config) in enumerate(zip(runs.missing, runs.configs, strict=True)):
        spent = progress.spent
        # A run is begun only if the runs so far say that it will end in time.
        if minutes is not None and spent + (progress.pace or 0) > 60 * minutes:
            left = len(runs.missing) - done
            say(console, f"Stopped after {duration(spent)}: {left} runs left.")
            break
        try:
            work.run(key, config)
        except FolderInUseError:
            elsewhere += 1
            progress.run_left_out()
        except InterruptedRunError as stop:
            stop.advise("Run the same command again to continue.")
            raise
    if elsewhere:
        say(console, f"Being made by other processes: {elsewhere} of the runs.")


def find_missing(
    results: Path, keys: Sequence[ResultKey], epochs: int | None, console: Console, planned: str
) -> list[ResultKey]:
    """The keys without a result, and a line on the others.

    Args:
        results: their root.
        keys: all that were asked for.
        epochs: of a trial: a result of another length does not count.
        console: where the line goes.
        planned: what the line begins with.
    """
    missing, problems = [], []
    for key in keys:
        try:
            if not is_made(results, key, epochs):
                missing.append(key)
        except UserError as error:
            problems.append(f"Left out: {error}. Delete it to make it again.")
    done = len(keys) - len(missing) - len(problems)
    say(console, f"{planned}, {done} of them already done.")
    for problem in problems:
        say(console, problem)
    return missing


def _is_trial(suite: str, options: Mapping[str, Any], weights: Sequence[str]) -> bool:
    """Whether runs are shorter than the paper's, or begin where the paper's do not."""
    learned = suite in BACKBONE_TABLES
    pretrained = options.get("pretrained")
    begun_learned = bool(weights) or (learned if pretrained is None else pretrained)
    return options.get("epochs") is not None or begun_learned != learned


def _weights_files(given: Sequence[str], configs: Sequence[RunConfig]) -> dict[str, Path]:
    """Files of weights by the network that begins with them; under "" the one for any other.

    A table has networks of several sizes, and a file fits one of them.
    """
    known = {_network(config) for config in configs}
    files: dict[str, Path] = {}
    for text in given:
        name, _, file = text.partition("=")
        if "=" not in text or Path(text).is_file():
            name, file = "", text
        elif name not in known:
            raise UserError(f"--weights {text}: the runs train {' and '.join(sorted(known))}.")
        if not Path(file).is_file():
            raise UserError(f"--weights {text}: the file {file} does not exist.")
        files[name] = Path(file).absolute()
    return files


def _with_weights(files: Mapping[str, Path], config: RunConfig) -> RunConfig:
    """The configuration with the file of its network, if there is one."""
    file = files.get(_network(config), files.get(""))
    model = config.model.model_copy(update={"weights": file})
    return config.model_copy(update={"model": model})


def _network(config: RunConfig) -> str:
    """``resnet18``, whichever of timm's weights the recipe names."""
    return config.model.name.partition(".")[0]


class SuiteWork:
    """Runs one after the other, with the data and the compiled code of the run before."""

    def __init__(
        self,
        results: Path,
        scratch: Path,
        console: Console,
        progress: SuiteProgress,
        epochs: int | None,
    ) -> None:
        self.results, self.scratch = results, scratch
        self.console, self.progress, self.epochs = console, progress, epochs
        self.trainer: Trainer | None = None
        self.source: Source | None = None
        self.shown_as: tuple[object, ...] = ()

    def run(self, key: ResultKey, config: RunConfig) -> None:
        """Make one result, unless another process does or has done so."""
        folder = RunFolder(self.scratch / key.path.with_suffix(""))
        with folder.locked():
            if is_made(self.results, key, self.epochs):
                self.progress.run_left_out()
            else:
                self._make(key, config, folder)

    def _make(self, key: ResultKey, config: RunConfig, folder: RunFolder) -> None:
        source, method = self._source(config)
        self.source = source
        config = with_noise_rate(config, source)
        if self.trainer is not None and not self.trainer.fits(config, source):
            self.trainer = None  # its memory must be free before the next state is built
            gc.collect()
        recipe = "" if key.recipe == "augmented" else f" {key.recipe}"
        noise = "" if key.cell.noise == "none" else f" {key.cell.title}"
        title = f"{key.method}{recipe} {key.data}{noise} seed {key.seed}"
        hear = [self.progress, *listeners(folder, self.console, title, self.progress.bar)]
        self.trainer = Trainer(config, source, folder, hear, self.trainer, method=method)
        outcome = self._train(key, self.trainer)
        say(self.console, f"{title}{outcome} ({self.progress.run_ended()})")

    def _source(self, config: RunConfig) -> tuple[Source, Method | None]:
        """The data of a run: that of the run before, if it is the same and seen the same way.

        With data in files comes the method, which was made before they were read.
        """
        model, data = config.model, config.data
        shown_as: tuple[object, ...] = (data.name, data.protocol)
        if data.kind is not DataKind.BUILTIN:
            # Networks of one suite may differ in what they expect of images in files.
            shown_as += (expected_images(model.name), model.image_size)
        before = self.source
        if before is not None and shown_as == self.shown_as:
            return with_noise(before, data), None
        source, same = open_source(data), self.shown_as[:2] == shown_as[:2]
        self.source, self.trainer, self.shown_as = None, None, shown_as
        if source.images.in_memory:
            return source, None
        # Files that were read once are not looked at again.
        known = [path for path, _ in before.skipped or ()] if before and same else None
        method = create_checked_method(config, source)
        return read_images(source, config, self.console, known), method

    def _train(self, key: ResultKey, trainer: Trainer) -> str:
        """Train from the checkpoint if the run was interrupted before, and keep the result."""
        start_or_resume(trainer, self.console)
        try:
            summary = trainer.run()
            outcome = f": {summary['last10_mean']:.2f} % in {summary['seconds_total']:.0f} s"
        except TrainingFailedError as failure:
            summary = trainer.summary() | {"failed": str(failure)}
            outcome = f" failed: {failure}"
        keep(self.results, key, summary, trainer)
        return outcome


def keep(results: Path, key: ResultKey, summary: dict[str, Any], trainer: Trainer) -> None:
    """Save the result of a run, with its settings and the commit it was made from."""
    config = trainer.config
    summary = summary | record(config)
    if key.suite == DEVELOPMENT:
        summary["variant"] = key.recipe.partition("-")[2] or None
    if config.model.weights is not None:
        summary["weights"] = config.model.weights.name
    save_result(results, key, summary, trainer.rows)


def start_or_resume(trainer: Trainer, console: Console) -> None:
    """Make the folder of a run, or go back to the checkpoint of the same run in it."""
    folder, config = trainer.folder, trainer.config
    try:
        if folder.config.is_file() and load_run_config(folder).identity() == config.identity():
            trainer.restore()
            return
    except UserError as error:
        say(console, f"{folder.path} can't be resumed and starts over: {error}")
    folder.clear()
    folder.create(config, trainer.source, trainer.device)
