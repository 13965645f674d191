"""The command line: parse, call, print.

Heavy libraries are imported by the commands that need them: ``josrc --help`` must not wait.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josrc._version import __version__
from josrc.cli._options import (
    DataRoot,
    Device,
    Engine,
    LabelColumn,
    MayBeOutside,
    MaySkip,
    MovedTo,
    PathColumn,
    RunArgument,
    names,
)
from josrc.cli._usage import UsageError, usage
from josrc.cli.audit import app as audit_commands
from josrc.cli.audit import verdict_lines
from josrc.cli.bench import app as bench_commands
from josrc.cli.lists import app as list_commands
from josrc.cli.model import app as model_commands
from josrc.errors import InterruptedRunError, UserError, sentence

if TYPE_CHECKING:
    from rich.console import Console

    from josrc.runs.run import Run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train image classifiers on labels you can't trust.",
)
app.add_typer(bench_commands, name="bench")
app.add_typer(model_commands)
app.add_typer(list_commands)

Data = Annotated[
    str,
    typer.Argument(
        help="digits-o, cifar100n-c, cifar80n-o, clothing1m, food101n, or a path: a folder of "
        "class folders, a manifest (csv, tsv, jsonl, parquet). hf:NAME is a Hugging Face data set."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Any configuration key: method.alpha=0.3."),
]
Noise = Annotated[
    str | None, typer.Option(help="symmetric, asymmetric, block, superclass or none.")
]
Rate = Annotated[float | None, typer.Option(help="Share of wrong labels, 0 to 1.")]
NoiseSeed = Annotated[int | None, typer.Option(help="Seed of the noise draw; 0, as published.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Options of josrc itself."""
    if version:
        typer.echo(f"josrc {__version__}")
        raise typer.Exit
    if _processes() > 1 and context.invoked_subcommand not in ("train", "resume"):
        raise UserError("torchrun starts several processes for josrc train and josrc resume only.")


@app.command()
def train(
    data: Data,
    overrides: Overrides = None,
    noise: Noise = None,
    rate: Rate = None,
    noise_seed: NoiseSeed = None,
    noise_file: Annotated[
        Path | None, typer.Option(help="Train on these labels: npz, npy or CSV.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="See 'josrc methods'.")] = None,
    model: Annotated[str | None, typer.Option(help="cnn7 or any timm name.")] = None,
    pretrained: Annotated[
        bool | None, typer.Option("--pretrained/--no-pretrained", help="Use timm's weights.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Start from these weights: safetensors or state dict.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Resize images to N x N.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Phases scale with it.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and views.")] = None,
    device: Device = None,
    engine: Engine = None,
    test: Annotated[
        Path | None, typer.Option(help="Own images: others with true labels to test on.")
    ] = None,
    val: Annotated[
        float | None, typer.Option(help="Own images: hold out this share of each class.")
    ] = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    allow_outside: MayBeOutside = False,
    allow_skipped: MaySkip = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes that decode images; one a core.")
    ] = None,
    log: Annotated[
        list[str] | None, typer.Option(help="Also log each epoch's numbers to: tensorboard.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="See 'josrc recipes'.")] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.")] = None,
    data_root: DataRoot = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing run folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train a classifier on noisy labels.

    josrc train FOLDER --model resnet18 --pretrained

    josrc train cifar80n-o --noise symmetric --rate 0.2 --data-root DIR --out RUN
    """
    from josrc.distributed import is_main
    from josrc.runs.resolve import parse_override, read_yaml
    from josrc.runs.start import plan, start

    layers = [parse_override(pair) for pair in overrides or []]
    if config is not None:
        if not config.is_file():
            raise UserError(f"Configuration file {config} does not exist.")
        layers.insert(0, read_yaml(config))
    settings, source = plan(
        data,
        recipe=recipe,
        layers=layers,
        noise=noise,
        rate=rate,
        noise_seed=noise_seed,
        noise_file=noise_file,
        method=method,
        model=model,
        pretrained=pretrained,
        weights=weights,
        image_size=image_size,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        device=device,
        engine=engine,
        data_root=data_root,
        test=test,
        val=val,
        path_column=path_column,
        label_column=label_column,
        allow_outside=allow_outside or None,  # without the flag as configured
        allow_skipped=allow_skipped or None,
        workers=workers,
        log=names(log) or None,
    )
    console = _console(quiet or not is_main())
    run = start(settings, out, overwrite=overwrite, console=console, source=source)
    _report(run, console)


@app.command()
def resume(
    run: RunArgument,
    data_root: MovedTo = None,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Go on with an interrupted run, to the end it would have had."""
    from josrc.distributed import is_main
    from josrc.runs.start import resume as resume_run

    console = _console(quiet or not is_main())
    _report(resume_run(run, data_root=data_root, device=device, quiet=quiet), console)


# Behind resume: add_typer would list them after all commands of this file.
app.registered_commands += audit_commands.registered_commands


@app.command()
def noise(
    data: Data,
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    noise: Noise = None,
    rate: Rate = None,
    noise_seed: NoiseSeed = None,
    data_root: DataRoot = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    allow_outside: MayBeOutside = False,
    allow_skipped: MaySkip = False,
) -> None:
    """Write a noise file without training: arrays given, true and kind.

    josrc noise cifar80n-o --noise symmetric --rate 0.2 --out noise.npz
    """
    from josrc.data.label_files import check_noise_target, write_noise_file
    from josrc.data.registry import open_source
    from josrc.runs.data import read_images
    from josrc.runs.start import plan

    check_noise_target(out)
    settings, opened = plan(
        data,
        noise=noise,
        rate=rate,
        noise_seed=noise_seed,
        data_root=data_root,
        path_column=path_column,
        label_column=label_column,
        allow_outside=allow_outside or None,
        allow_skipped=allow_skipped or None,
    )
    source = open_source(settings.data) if opened is None else opened
    if not source.images.in_memory:
        source = read_images(source, settings, _console())
    write_noise_file(out, source.given, source.true, source.kind, source.digest)
    typer.echo(f"{out}: {len(source):,} labels; {source.noise_summary()}.")


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the two runs.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Fewer make it shorter.")] = None,
) -> None:
    """Train Standard and Jo-SRC on noisy digits and compare them."""
    from josrc.demo import run_demo

    run_demo(out, epochs, _console())


def _console(quiet: bool = False) -> Console:
    from josrc._console import Terminal

    return Terminal(quiet=quiet)


def _report(run: Run, console: Console) -> None:
    from josrc._console import say
    from josrc.engine.health import ended_badly

    if console.quiet:
        return
    summary = run.summary
    if summary.get("val_chosen") is not None:
        result = (
            f"Test accuracy {summary['val_chosen']:.2f} % in epoch {summary['best_epoch']}, which "
            f"the validation images chose; {summary['final']:.2f} % in the last; "
            f"{summary['test_best']:.2f} % if the test images choose"
        )
    elif summary["last10_mean"] is not None:
        result = (
            f"Test accuracy {summary['last10_mean']:.2f} % (mean of the last "
            f"{min(10, summary['epochs'])} epochs), best {summary['best']:.2f} % in epoch "
            f"{summary['best_epoch']}"
        )
    elif summary.get("agreement") is not None:
        result = (
            f"The network agrees with {summary['agreement']:.2f} % of the given labels it was not "
            "trained on, right or wrong; without --test there is no accuracy"
        )
    else:
        result = "Trained. Without --test there is no accuracy to report"
    lines = [
        f"{result}, {summary['seconds_total']:.0f} s.",
        ended_badly(summary),
        *verdict_lines(run.path / "audit", run.audit),
        f"Run folder: {run.path}",
    ]
    say(console, "\n".join(filter(None, lines)))


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: a user's mistake is a message and exit code 2, never a traceback."""
    try:
        sys.exit(app(arguments, prog_name="josrc", standalone_mode=False) or 0)
    except UserError as error:
        _leave(f"josrc: {error}", 2)
    except UsageError as error:
        _leave(usage(error), 2)
    except typer.Abort:
        _leave("Stopped.", 128 + signal.SIGINT)
    except InterruptedRunError as stop:
        _leave(str(stop), 128 + stop.signal_number)
    except OSError as error:
        _leave(f"josrc: {sentence(error)} What was saved before is whole.", 2)


def _processes() -> int:
    """How many processes torchrun started; looked up without torch."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def _leave(message: str, code: int) -> None:
    if _processes() > 1:
        from josrc.distributed import first_to_tell

        if not first_to_tell():
            sys.exit(code)
    if message:
        typer.echo(message, err=True)
    sys.exit(code)
