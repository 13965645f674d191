"""Runs as objects: start one, go on with one, look at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from josrc import distributed
from josrc._console import Terminal, say
from josrc.config import DataKind, RunConfig
from josrc.data.duplicates import tally
from josrc.data.readers.arrays import ARRAYS_NAME, source_of
from josrc.data.registry import check_root, full_name, kind_of, open_source
from josrc.data.source import Source
from josrc.engine.device import choose_device
from josrc.engine.listeners import check_loggers, create_loggers
from josrc.engine.listeners.base import Listener
from josrc.engine.listeners.progress import SlowRunHint, TimeEstimate, create_progress
from josrc.engine.run_folder import RunFolder, prepare_folder
from josrc.engine.trainer import Trainer
from josrc.errors import UserError, closest
from josrc.runs.audit import gather_evidence, held_out_answers, report
from josrc.runs.auto import sized_values
from josrc.runs.data import (
    create_checked_method,
    has_untrusted_labels,
    read_images,
    with_noise_rate,
)
from josrc.runs.intro import introduce
from josrc.runs.plots import PlotWriter, plot_views
from josrc.runs.resolve import Values, ask, load_run_config, merge, nested
from josrc.runs.run import Run
from josrc.runs.snapshot import moved, source_of_run, write_record
from josrc.verdicts.duplicates import DUPLICATES, write_duplicates
from josrc.verdicts.judge_run import write_audit
from josrc.verdicts.report.page import NoPicturesError, write_report

# What a run is trained on: a name, a path, or images and labels.
Data = str | Path | Sequence[Any]
# Short names of the options that scripts use, and the configuration keys they set.
OPTIONS = {
    "noise": "data.noise",
    "rate": "data.rate",
    "noise_seed": "data.noise_seed",
    "noise_file": "data.noise_file",
    "data_root": "data.root",
    "method": "method.name",
    "model": "model.name",
    "pretrained": "model.pretrained",
    "weights": "model.weights",
    "image_size": "model.image_size",
    "epochs": "epochs",
    "batch_size": "batch_size",
    "seed": "seed",
    "device": "device",
    "engine": "engine",
    "test": "data.test",
    "val": "data.val",
    "path_column": "data.path_column",
    "label_column": "data.label_column",
    "allow_outside": "data.allow_outside",
    "allow_skipped": "data.allow_skipped",
    "workers": "data.workers",
    "plant": "plant",
    "log": "log",
}


def configure(
    data: str,
    *,
    recipe: str | None = None,
    layers: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> RunConfig:
    """The configuration of a run; options that are none keep what recipe and layers say."""
    return plan(data, recipe=recipe, layers=layers, **options)[0]


def plan(
    data: Data,
    *,
    recipe: str | None = None,
    layers: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> tuple[RunConfig, Source | None]:
    """The configuration of a run, and own images already opened: their number decides settings."""
    if isinstance(data, str | Path):
        pair, test = None, None
        kind = kind_of(str(data))
        name = full_name(str(data), kind)
    else:
        pair, test = data, options.pop("test", None)
        name, kind = ARRAYS_NAME, DataKind.ARRAYS
    request = ask(name, kind, recipe, [*layers, _chosen(options)])
    asked = request.config
    check_loggers(asked.log)
    check_root(asked.data)
    if kind.is_named:
        _check_known(asked)
        return request.resolve(), None
    if pair is None:
        source = open_source(asked.data)
    else:
        source = source_of(pair, asked.data, asked.model.name, test)
    return request.resolve(sized_values(source, asked.model)), source


def _chosen(options: Mapping[str, Any]) -> Values:
    """Options as nested values; those that are none say nothing."""
    chosen: Values = {}
    for option, value in options.items():
        if option not in OPTIONS:
            raise UserError(f"Unknown option '{option}'.{closest(option, list(OPTIONS))}")
        if value is not None:
            chosen = merge(chosen, nested(OPTIONS[option], value))
    return chosen


def _check_known(config: RunConfig) -> None:
    """Options for own images have no meaning for the data sets that are in memory."""
    fields = type(config.data).model_fields
    if config.data.kind is DataKind.PUBLISHED:
        return
    for key in ("test", "val", "path_column", "label_column", "allow_outside"):
        if getattr(config.data, key) != fields[key].default:
            raise UserError(
                f"--{key.replace('_', '-')} is for images of your own: {config.data.name} brings "
                "its own labels and test images."
            )


def train(
    data: Data,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    quiet: bool = True,
    **options: Any,
) -> Run:
    """Train on a data set and leave a run folder.

    Args:
        data: name of a data set, or a path; or images and labels as a pair ``(X, y)``, X being an
            array ``(N, height, width, channels)`` of type uint8 or a list of paths.
        out: the run folder; ``runs/NAME`` unless given. An existing one is an error.
        overwrite: replace an existing run folder.
        recipe: ``plain`` or ``augmented``, where the data set has more than one recipe.
        settings: any configuration keys, ``{"method.alpha": 0.3}``.
        quiet: show no progress.
        **options: ``noise``, ``rate``, ``method``, ``model``, ``epochs``, ``seed``, ``device``,
            ``test``, ``val`` ...; for pairs ``test`` is another pair.

    Returns:
        The finished run.
    """
    layers = [nested(key, value) for key, value in (settings or {}).items()]
    folder = Path(out) if out else None
    config, source = plan(data, recipe=recipe, layers=layers, **options)
    console = Terminal(quiet=quiet or not distributed.is_main())
    return start(config, folder, overwrite=overwrite, console=console, source=source)


@distributed.joined()
def start(
    config: RunConfig,
    out: Path | None,
    *,
    overwrite: bool = False,
    console: Console,
    source: Source | None = None,
) -> Run:
    """Begin a run; ``source`` is its data, where that is already open."""
    if source is None:
        source = distributed.main_first(lambda: open_source(config.data))
    folder = distributed.broadcast(lambda: _prepared_folder(out, config, overwrite))
    method = distributed.main_first(partial(create_checked_method, config, source))
    if not source.images.in_memory:
        source = _read_once(source, config, console)
    config = with_noise_rate(config, source)
    trainer = Trainer(config, source, folder, _listeners(folder, config, console), method=method)
    with _locked(folder):
        if distributed.is_main():
            folder.clear()
            if source.images.has_paths and not config.data.kind.is_named:
                write_record(folder.samples, source)
            if source.duplicates is not None:
                write_duplicates(folder.audit / DUPLICATES, source.listed_duplicates())
            folder.create(config, source, trainer.device)
        _tell_data(source, folder, console)
        if not config.data.kind.is_named:
            say(console, introduce(trainer.state, config, source))
        found = [] if console.quiet else tally(source.listed_duplicates()).sentences()
        if found:
            say(console, "\n".join([*found, f"All of them: {folder.audit / DUPLICATES}"]))
        return complete(trainer)


def _prepared_folder(out: Path | None, config: RunConfig, overwrite: bool) -> RunFolder:
    """A folder for a new run, which never costs anybody the work of a review."""
    folder = prepare_folder(out, config, overwrite)
    folder.check_undecided()
    return folder


def _listeners(folder: RunFolder, config: RunConfig, console: Console) -> list[Listener]:
    """Who hears of a run: of several processes nobody but the first speaks."""
    if not distributed.is_main():
        return []
    on_cpu = choose_device(config.device).type == "cpu"
    return [
        *listeners(folder, console, config.method.name, on_cpu=on_cpu),
        *create_loggers(config, folder.path),
    ]


def _locked(folder: RunFolder) -> AbstractContextManager[None]:
    """The folder for this run alone; of several processes the first one holds the lock."""
    return folder.locked() if distributed.is_main() else nullcontext()


@distributed.joined()
def resume(
    path: str | Path,
    *,
    data: Sequence[Any] | None = None,
    test: Sequence[Any] | None = None,
    data_root: str | Path | None = None,
    device: str | None = None,
    quiet: bool = True,
) -> Run:
    """Go on with a run that was interrupted, to the end it would have had.

    Args:
        path: the run folder.
        data: the pair of images and labels that the run began with, if it was one.
        test: and the one that it is tested on.
        data_root: where the data is now, if it has moved.
        device: another device than the run began on.
        quiet: show no progress.
    """
    console = Terminal(quiet=quiet or not distributed.is_main())
    folder = RunFolder(Path(path))
    config = moved(load_run_config(folder), data_root)
    if folder.summary.is_file():
        say(console, f"{path} has finished: nothing to resume.")
        judged, shown = folder.audit / "verdicts.csv", folder.audit / "report.html"
        if distributed.is_main() and judged.is_file() and not shown.is_file():
            report(path, data=data, data_root=data_root)  # stopped before it was written
        return Run.load(path)
    if device is not None:
        config = config.model_copy(update={"device": device})
    with _locked(folder):
        source = source_of_run(folder, config, console, data, test)
        hear = _listeners(folder, config, console)
        trainer = Trainer(config, source, folder, hear, resuming=True)
        if source.test_images is None and any(row.get("test_accuracy") for row in trainer.rows):
            raise UserError(
                f"{path} was tested on images that are missing now. Give them again: "
                "josrc.resume(path, data=(X, y), test=(X_test, y_test))."
            )
        say(console, f"Resuming {path} after epoch {trainer.epoch} of {config.epochs}.")
        return complete(trainer)


def _read_once(source: Source, config: RunConfig, console: Console) -> Source:
    """Own images checked by the first process; the others take its word for which are sound."""
    own = read_images(source, config, console) if distributed.is_main() else None
    skipped = distributed.broadcast(lambda: [path for path, _ in own.skipped or ()] if own else [])
    return read_images(source, config, console, skipped) if own is None else own


def complete(trainer: Trainer) -> Run:
    """Show what the network will see, train to the end, and judge every sample."""
    folder, state = trainer.folder, trainer.state
    if distributed.is_main():
        plot_views(trainer.source, trainer.config, folder.plots / "views.png")

    def finish(summary: dict[str, Any]) -> None:
        held_out = held_out_answers(state) if has_untrusted_labels(trainer.source.val) else None
        evidence = gather_evidence(state, trainer.source)
        if distributed.is_main():
            evidence.write(folder.evidence)
            write_audit(folder.audit, state.ledger.arrays(), trainer.source, evidence, held_out)
            with suppress(NoPicturesError):  # they went away meanwhile: verdicts need none
                write_report(folder, trainer.config, trainer.source, summary)

    summary = trainer.run(finish)
    return Run(folder.path, trainer.config, summary)


def listeners(
    folder: RunFolder,
    console: Console,
    title: str,
    above: RenderableType | None = None,
    *,
    on_cpu: bool = False,
) -> list[Listener]:
    """Who hears of a run: its pictures, and its progress on a console, below that of its suite.

    Of a long one on a CPU it is also said what would make it shorter.
    """
    pictures: list[Listener] = [PlotWriter(folder)]
    if console.quiet:
        return pictures
    progress = create_progress(console, title, above)
    # A suite tells the time by itself.
    estimate: list[Listener] = [TimeEstimate(progress)] if above is None else []
    estimate += [SlowRunHint(progress)] if on_cpu else []
    return [progress, *estimate, *pictures]


def _tell_data(source: Source, folder: RunFolder, console: Console) -> None:
    test = "no" if source.test_images is None else f"{len(source.test_images):,}"
    held = "" if source.val is None else f"{len(source.val):,} held out, "
    say(
        console,
        f"{source.name}: {len(source):,} training images of {source.closed} classes, {held}"
        f"{test} test images; {source.noise_summary()}.\n"
        f"Run folder: {folder.path}",
    )
