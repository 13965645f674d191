"""The command line: parse, call, print.

Heavy libraries are imported by the commands that need them: ``josrc --help`` must not wait.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from josrc import __version__
from josrc.cli_bench import app as bench_commands
from josrc.cli_lists import app as list_commands
from josrc.cli_model import app as model_commands
from josrc.cli_options import (
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
from josrc.cli_usage import UsageError, usage
from josrc.errors import InterruptedRunError, UserError, sentence

if TYPE_CHECKING:
    from rich.console import Console

    from josrc.runs import Run

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
    allow_outside: MayBeOutside = None,
    allow_skipped: MaySkip = None,
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
    from josrc.engine.distributed import is_main
    from josrc.resolution import parse_override, parse_yaml
    from josrc.runs import plan, start

    layers = [parse_override(pair) for pair in overrides or []]
    if config is not None:
        if not config.is_file():
            raise UserError(f"Configuration file {config} does not exist.")
        layers.insert(0, parse_yaml(config.read_bytes(), str(config)))
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
        allow_outside=allow_outside,
        allow_skipped=allow_skipped,
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
    from josrc.engine.distributed import is_main
    from josrc.runs import resume as resume_run

    console = _console(quiet or not is_main())
    _report(resume_run(run, data_root=data_root, device=device, quiet=quiet), console)


@app.command()
def audit(
    run: RunArgument,
    noise_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of wrong labels, if you know it: 0.05, say."),
    ] = None,
    ood_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of images of no class, if you know it: 0 for none."),
    ] = None,
    data_root: MovedTo = None,
) -> None:
    """Write a verdict on every sample of a run, and the report, into its folder audit."""
    from josrc.audit.folder import odd_class, verdict_line
    from josrc.judged import audit as audit_run
    from josrc.terminal import say

    tell = partial(say, _console())
    summary = audit_run(
        run, noise_rate=noise_rate, ood_rate=ood_rate, data_root=data_root, tell=tell
    )
    folder = run / "audit"
    tell(verdict_line(summary, folder))
    odd = odd_class(summary)
    if odd:
        tell(odd)
    if (folder / "report.html").is_file():
        tell(f"Report: {folder / 'report.html'}")
    if (folder / "decisions.sqlite").is_file():
        tell("A review that is open shows the verdicts of before: start it again.")


@app.command()
def report(run: RunArgument, data_root: MovedTo = None) -> None:
    """Write the report of a run again: audit/report.html, one file that opens in any browser."""
    from josrc.judged import report as write_report
    from josrc.terminal import say

    tell = partial(say, _console())
    path = write_report(run, data_root=data_root, tell=tell)
    tell(f"Report: {path} ({path.stat().st_size / 1e6:.1f} MB)")


@app.command()
def review(
    run: RunArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    data_root: MovedTo = None,
) -> None:
    """Look at the verdicts on a run in a browser, and decide: a page on this machine alone."""
    from josrc.review.server import serve

    serve(run, port=port, data_root=data_root, browser=browser, console=_console())


@app.command("apply")
def apply_command(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="A CSV; with --copy or --link a folder.")],
    auto: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Also follow verdicts that are at least this sure."),
    ] = None,
    auto_remove: Annotated[
        bool, typer.Option(help="May --auto remove images too, or only relabel them?")
    ] = True,
    copy: Annotated[bool, typer.Option("--copy", help="Write a folder of copied images.")] = False,
    link: Annotated[
        Literal["hard", "sym"] | None, typer.Option(help="Write a folder of links to the images.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace what apply wrote before.")] = False,
    data_root: MovedTo = None,
) -> None:
    """Write the corrected data set: from decisions, and with --auto from verdicts."""
    from josrc.review.apply import apply_run

    if copy and link:
        raise UserError("Copies or links: give --copy or --link, not both.")
    apply_run(
        run,
        out,
        auto=auto,
        auto_remove=auto_remove,
        way="copy" if copy else link,
        overwrite=overwrite,
        data_root=data_root,
        console=_console(),
    )


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
    allow_outside: MayBeOutside = None,
    allow_skipped: MaySkip = None,
) -> None:
    """Write a noise file without training: arrays given, true and kind.

    josrc noise cifar80n-o --noise symmetric --rate 0.2 --out noise.npz
    """
    from josrc.data.labels import write_noise_file
    from josrc.data.source import load_source
    from josrc.run_data import in_files, prepared
    from josrc.runs import configure

    if out.suffix != ".npz":
        raise UserError(f"A noise file ends in .npz, and {out} does not.")
    settings = configure(
        data,
        noise=noise,
        rate=rate,
        noise_seed=noise_seed,
        data_root=data_root,
        path_column=path_column,
        label_column=label_column,
        allow_outside=allow_outside,
        allow_skipped=allow_skipped,
    )
    source = load_source(settings.data)
    if in_files(source):
        source = prepared(source, settings, _console())
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
    from josrc.terminal import Terminal

    return Terminal(quiet=quiet)


def _report(run: Run, console: Console) -> None:
    from josrc.audit.folder import odd_class, verdict_line
    from josrc.engine.health import ended_badly
    from josrc.terminal import say

    if console.quiet:
        return
    summary, audit = run.summary, run.audit
    warning, report = ended_badly(summary), run.path / "audit" / "report.html"
    verdicts = f"{warning}\n" if warning else ""
    if audit:
        verdicts += f"{verdict_line(audit, run.path / 'audit')}\n"
        odd = odd_class(audit)
        verdicts += f"{odd}\n" if odd else ""
    if report.is_file():
        verdicts += f"Report: {report}\n"
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
    say(
        console,
        f"{result}, {summary['seconds_total']:.0f} s.\n{verdicts}Run folder: {run.path}",
    )


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
        from josrc.engine.distributed import first_to_tell

        if not first_to_tell():
            sys.exit(code)
    if message:
        typer.echo(message, err=True)
    sys.exit(code)
