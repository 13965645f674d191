"""Runs as objects: start one, resume one, look at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from josrc import distributed
from josrc._console import Terminal, say
from josrc.config import SCAN, DataKind, RunConfig
from josrc.data.annotations import Annotations
from josrc.data.duplicates import tally
from josrc.data.readers.arrays import ARRAYS_NAME, normalised, source_of
from josrc.data.registry import check_root, full_name, kind_of, open_source
from josrc.data.source import Source
from josrc.engine.device import choose_device
from josrc.engine.listeners import check_loggers, create_loggers
from josrc.engine.listeners.base import Listener
from josrc.engine.listeners.clock import RunClock
from josrc.engine.listeners.progress import SlowRunHint, TimeEstimate, create_progress
from josrc.engine.run_folder import RunFolder, prepare_folder
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.runs.audit import gather_evidence, held_out_answers, out_of_fold, report
from josrc.runs.auto import sized_values
from josrc.runs.data import (
    create_checked_method,
    has_untrusted_labels,
    read_images,
    with_noise_rate,
)
from josrc.runs.inject import with_injected
from josrc.runs.intro import describe_planting, introduce
from josrc.runs.network import choose_network
from josrc.runs.options import chosen_values
from josrc.runs.pace import epochs_that_fit
from josrc.runs.plots import PlotWriter, plot_views
from josrc.runs.resolve import ask, load_run_config, nested
from josrc.runs.run import Run
from josrc.runs.snapshot import find_moved, source_of_run, write_record
from josrc.verdicts.consensus import check_crowdlab, write_consensus
from josrc.verdicts.duplicates import DUPLICATES, write_duplicates
from josrc.verdicts.feature_map import write_map
from josrc.verdicts.judge_run import write_audit
from josrc.verdicts.report.page import NoPicturesError, write_report
from josrc.verdicts.table import verdicts_of

# What a run is trained on: a name, a path, or images and labels.
Data = str | Path | Sequence[Any]


def configure(
    data: str,
    *,
    recipe: str | None = None,
    layers: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> RunConfig:
    """The configuration of a run; options that are ``None`` keep what recipe and layers say."""
    return plan(data, recipe=recipe, layers=layers, **options)[0]


def plan(
    data: Data,
    *,
    recipe: str | None = None,
    layers: Sequence[Mapping[str, Any]] = (),
    console: Console | None = None,
    **options: Any,
) -> tuple[RunConfig, Source | None]:
    """The configuration of a run, and own images already opened: their number decides settings.

    With a ``console`` the run is about to begin: some steps are timed, so that one on a CPU ends
    soon, and what was chosen is reported there.
    """
    if isinstance(data, str | Path):
        pair, test = None, None
        kind = kind_of(str(data))
        name = full_name(str(data), kind)
    else:
        pair, test = data, options.pop("test", None)
        name, kind = ARRAYS_NAME, DataKind.ARRAYS
    options = with_injected(options, kind)
    request = ask(name, kind, recipe, [*layers, chosen_values(options)])
    asked = request.config
    check_loggers(asked.log)
    check_root(asked.data)
    _check_groups(asked)
    if kind.is_named:
        _check_known(asked)
        return request.resolve(), None
    if pair is None:
        source = open_source(asked.data)
    else:
        source = source_of(pair, asked.data, asked.model.name, test)
    network = choose_network(source, asked.model, request.user["model"], asked.device)
    if pair is not None and network.name != asked.model.name:
        source = normalised(source, network.name)
    config = request.resolve(sized_values(source, network))
    if console is None:
        return config, source
    for reason in network.reasons:
        say(console, reason)
    if "epochs" not in request.user and (epochs := epochs_that_fit(config, source, console)):
        config = request.resolve(sized_values(source, network, epochs))
    return config, source


def _check_known(config: RunConfig) -> None:
    """Options for own images have no meaning for the data sets that are in memory."""
    fields = type(config.data).model_fields
    if config.data.kind is DataKind.PUBLISHED:
        return
    columns = (
        "path_column", "label_column", "annotator_column", "annotator_columns", "group_column",
    )  # fmt: skip
    for key in ("test", "val", *columns, "whole_labels", "allow_outside"):
        if getattr(config.data, key) != fields[key].default:
            raise UserError(
                f"--{key.replace('_', '-')} is for images of your own: {config.data.name} brings "
                "its own labels and test images."
            )


def _check_groups(config: RunConfig) -> None:
    """In a training, groups only say what is held out together; a scan judges by them."""
    data = config.data
    if data.group_column is not None and not data.val and config.method.name != SCAN:
        raise UserError(
            f"--group-column {data.group_column} says which images --val holds out together. "
            "Give --val too. (josrc scan judges an image by those of other groups.)"
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
    """Train on a data set and write a run folder.

    Args:
        data: name of a data set, or a path; or images and labels as a pair ``(X, y)``, X being an
            array ``(N, height, width, channels)`` of type uint8 or a list of paths.
        out: the run folder; ``runs/NAME`` unless given. An existing one is an error.
        overwrite: replace an existing run folder.
        recipe: ``plain`` or ``augmented``, where the data set has more than one recipe.
        settings: any configuration keys, ``{"method.alpha": 0.3}``.
        quiet: show no progress.
        **options: ``noise`` and ``rate`` (named data), ``inject`` (own images,
            ``symmetric:0.2``), ``method``, ``model``, ``epochs``, ``seed``, ``device``, ``train``,
            ``test``, ``val`` ...; for pairs ``test`` is another pair. ``plant``: share of labels
            that are made wrong in training alone, to measure the verdicts by; by default 0.03 or
            more of 390 own images or more, and 0 of data with a name. 0 plants none.

    Returns:
        The finished run.
    """
    layers = [nested(key, value) for key, value in (settings or {}).items()]
    folder = Path(out) if out else None
    console = Terminal(quiet=quiet or not distributed.is_main())
    config, source = plan(data, recipe=recipe, layers=layers, console=console, **options)
    return start(config, folder, overwrite=overwrite, console=console, source=source)


@distributed.joined()
def start(
    config: RunConfig,
    out: Path | None,
    *,
    overwrite: bool = False,
    console: Console,
    source: Source | None = None,
    hearing: Sequence[Listener] = (),
) -> Run:
    """Start a run.

    Args:
        config: what to run.
        out: the run folder.
        overwrite: replace an existing one.
        console: where progress is shown.
        source: its data, where that is already open.
        hearing: further listeners.
    """
    if source is None:
        source = distributed.main_first(lambda: open_source(config.data))
    if source.annotations is not None:
        check_crowdlab()
    folder = distributed.broadcast(lambda: _prepared_folder(out, config, overwrite))
    method = distributed.main_first(partial(create_checked_method, config, source))
    if not source.images.in_memory:
        source = read_images(source, config, console)
    config = with_noise_rate(config, source)
    hear = [*_listeners(folder, config, console), *hearing]
    trainer = Trainer(config, source, folder, hear, method=method)
    with _locked(folder):
        if distributed.is_main():
            folder.clear()
            if source.images.has_paths and not config.data.kind.is_named:
                write_record(folder.samples, source)
            if (annotations := source.all_annotations()) is not None:
                annotations.write(folder.annotations)
            if source.duplicates is not None:
                write_duplicates(folder.audit / DUPLICATES, source.listed_duplicates())
            folder.create(config, source, trainer.device)
        _tell_data(source, folder, console)
        if not config.data.kind.is_named:
            say(console, introduce(trainer.state, config, source))
        elif len(trainer.state.planted):
            say(console, "\n".join(describe_planting(trainer.state, source)))
        found = [] if console.quiet else tally(source.listed_duplicates()).sentences()
        if found:
            say(console, "\n".join([*found, f"All of them: {folder.audit / DUPLICATES}"]))
        return complete(trainer)


def _prepared_folder(out: Path | None, config: RunConfig, overwrite: bool) -> RunFolder:
    """A folder for a new run; one with decisions of a review is never overwritten."""
    folder = prepare_folder(out, config, overwrite)
    folder.check_undecided()
    return folder


def _listeners(folder: RunFolder, config: RunConfig, console: Console) -> list[Listener]:
    """The listeners of a run; of several processes only the first one prints."""
    if not distributed.is_main():
        return []
    on_cpu = choose_device(config.device).type == "cpu"
    return [
        *listeners(folder, console, config.method.name, on_cpu=on_cpu),
        *create_loggers(config, folder.path, partial(say, Terminal(stderr=True))),
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
    hearing: Sequence[Listener] = (),
) -> Run:
    """Resume an interrupted run; it ends as it would have without the interruption.

    Args:
        path: the run folder.
        data: the pair of images and labels that the run started with, if it was one.
        test: the pair that it is tested on, likewise.
        data_root: where the data is now, if it has moved.
        device: if not the one that the run started on.
        quiet: show no progress.
        hearing: further listeners.
    """
    console = Terminal(quiet=quiet or not distributed.is_main())
    folder = RunFolder(Path(path))
    config = find_moved(load_run_config(folder), data_root)
    if folder.summary.is_file():
        say(console, f"{path} has finished: nothing to resume.")
        judged, shown = verdicts_of(folder.audit), folder.audit / "report.html"
        if distributed.is_main() and judged.exists() and not shown.is_file():
            report(path, data=data, data_root=data_root)  # stopped before it was written
        return Run.load(path)
    if device is not None:
        config = config.model_copy(update={"device": device})
    with _locked(folder):
        source = source_of_run(folder, config, console, data, test)
        hear = [*_listeners(folder, config, console), *hearing]
        trainer = Trainer(config, source, folder, hear, resuming=True)
        if source.test_images is None and any(row.get("test_accuracy") for row in trainer.rows):
            raise UserError(
                f"{path} was tested on images that are missing now. Give them again: "
                "josrc.resume(path, data=(X, y), test=(X_test, y_test))."
            )
        say(console, f"Resuming {path} after epoch {trainer.epoch} of {config.epochs}.")
        return complete(trainer)


def complete(trainer: Trainer) -> Run:
    """Show what the network will see, train to the end, and judge every sample."""
    folder, state = trainer.folder, trainer.state
    if distributed.is_main():
        plot_views(trainer.source, trainer.config, folder.plots / "views.png")

    def finish(summary: dict[str, Any]) -> None:
        held_out = held_out_answers(state) if has_untrusted_labels(trainer.source.val) else None
        evidence, made = gather_evidence(state, trainer.source)
        annotated = folder.annotations.is_file()
        probabilities = out_of_fold(state, trainer.source, held_out) if annotated else None
        if distributed.is_main():
            evidence.write(folder.evidence)
            write_audit(folder.audit, state.ledger.arrays(), trainer.source, evidence, held_out)
            write_map(folder.audit, made)
            if probabilities is not None:
                annotations = Annotations.read(folder.annotations)
                write_consensus(folder.audit, annotations, probabilities, trainer.source)
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
    """The listeners of a run: its pictures, and its progress on a console, below that of its suite.

    Of a long one on a CPU it is also said what would make it shorter.
    """
    pictures: list[Listener] = [PlotWriter(folder)]
    if console.quiet:
        return pictures
    clock = RunClock()
    progress = create_progress(console, title, clock, above)
    # A suite tells the time by itself.
    estimate: list[Listener] = [TimeEstimate(clock, progress)] if above is None else []
    estimate += [SlowRunHint(clock, progress)] if on_cpu else []
    return [clock, progress, *estimate, *pictures]


def _tell_data(source: Source, folder: RunFolder, console: Console) -> None:
    test = "no" if source.test_images is None else f"{len(source.test_images):,}"
    held = "" if source.val is None else f"{len(source.val):,} held out, "
    say(
        console,
        f"{source.name}: {len(source):,} training images of {source.closed} classes, {held}"
        f"{test} test images; {source.noise_summary()}.\n"
        f"Run folder: {folder.path}",
    )
