"""The command line: parse, call, print.

Heavy libraries are imported by the commands that need them: ``josrc --help`` must not wait.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from josrc._version import __version__
from josrc.cli._options import (
    Data,
    DataRoot,
    LabelColumn,
    MayBeOutside,
    MaySkip,
    Noise,
    NoiseSeed,
    PathColumn,
    Rate,
)
from josrc.cli._usage import UsageError, usage
from josrc.cli.audit import app as audit_commands
from josrc.cli.bench import app as bench_commands
from josrc.cli.lists import app as list_commands
from josrc.cli.model import app as model_commands
from josrc.cli.train import app as train_commands
from josrc.errors import InterruptedRunError, UserError, sentence

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train image classifiers on labels you can't trust.",
)
app.add_typer(bench_commands, name="bench")
app.add_typer(model_commands)
app.add_typer(list_commands)


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


# In the order of --help: add_typer would list them after all commands of this file.
app.registered_commands += train_commands.registered_commands + audit_commands.registered_commands


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
    from josrc._console import Terminal
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
        source = read_images(source, settings, Terminal())
    write_noise_file(out, source.given, source.true, source.kind, source.digest)
    typer.echo(f"{out}: {len(source):,} labels; {source.noise_summary()}.")


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the two runs.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Fewer make it shorter.")] = None,
) -> None:
    """Train Standard and Jo-SRC on noisy digits and compare them."""
    from josrc._console import Terminal
    from josrc.demo import run_demo

    run_demo(out, epochs, Terminal())


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
