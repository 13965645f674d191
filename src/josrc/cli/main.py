"""The command line: parse, call, print.

Heavy libraries are imported by the commands that need them: ``josrc --help`` must not wait.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from josrc._launch import count_processes, find_place
from josrc._version import __version__
from josrc.cli._early import check_names
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
    WholeLabels,
)
from josrc.cli._usage import UsageError, usage
from josrc.cli.audit import app as audit_commands
from josrc.cli.bench import app as bench_commands
from josrc.cli.lists import app as list_commands
from josrc.cli.model import app as model_commands
from josrc.cli.scan import app as scan_commands
from josrc.cli.sweep import app as sweep_commands
from josrc.cli.train import app as train_commands
from josrc.errors import InterruptedRunError, UserError, is_out_of_memory, sentence

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find wrong labels in image data sets, correct them, and train despite them.",
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
    if find_place().world > 1 and context.invoked_subcommand not in ("train", "resume"):
        raise UserError(
            "Several processes are running, but only josrc train and josrc resume can use them. "
            "Start a single one, or set WORLD_SIZE=1 if each has its own work."
        )


# In the order of --help: add_typer would list them after all commands of this file.
for commands in (scan_commands, train_commands, sweep_commands, audit_commands):
    app.registered_commands += commands.registered_commands


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
    whole_labels: WholeLabels = False,
    allow_outside: MayBeOutside = False,
    allow_skipped: MaySkip = False,
) -> None:
    """Write a noise file (given and true labels) without training.

    josrc noise cifar80n-o --noise symmetric --rate 0.2 --out noise.npz
    """
    check_names(data, noise=noise)  # said before what takes seconds to import

    from josrc._console import Terminal, say
    from josrc.data.label_files import check_noise_target, write_noise_file
    from josrc.data.registry import open_source
    from josrc.runs.data import read_images
    from josrc.runs.start import plan

    check_noise_target(out)
    # Here wrong labels are what is asked for, whatever the data.
    drawn = {"noise": noise, "rate": rate}
    settings, opened = plan(
        data,
        layers=[{"data": {name: value for name, value in drawn.items() if value is not None}}],
        noise_seed=noise_seed,
        data_root=data_root,
        path_column=path_column,
        label_column=label_column,
        whole_labels=whole_labels or None,
        allow_outside=allow_outside or None,
        allow_skipped=allow_skipped or None,
    )
    source = open_source(settings.data) if opened is None else opened
    if not source.images.in_memory:
        source = read_images(source, settings, Terminal())
    write_noise_file(out, source.given, source.true, source.kind, source.digest)
    say(Terminal(), f"{out}: {len(source):,} labels; {source.noise_summary()}.")


@app.command()
def demo(
    digits: Annotated[
        bool, typer.Option("--digits", help="Train Standard and Jo-SRC on digits instead.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for pictures and runs.")] = None,
    epochs: Annotated[int | None, typer.Option(help="With --digits: length of the runs.")] = None,
) -> None:
    """Find wrong labels among 326 small pictures, in half a minute."""
    from josrc.models.pretrained import PACKAGED_MODEL, check_weights

    digits = digits or epochs is not None
    if not digits:
        check_weights(PACKAGED_MODEL, None)

    from josrc._console import Terminal
    from josrc.cli._demo import demo_digits, demo_pictures

    if digits:
        demo_digits(out, epochs, Terminal())
    else:
        demo_pictures(out, Terminal())


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: a user's mistake is a message and exit code 2, never a traceback."""
    try:
        _check_values(sys.argv[1:] if arguments is None else arguments)
        sys.exit(app(arguments, prog_name="josrc", standalone_mode=False) or 0)
    except UserError as error:
        _leave(f"josrc: {error}", 2)
    except UsageError as error:
        _leave(usage(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        _leave("Stopped.", 128 + signal.SIGINT)
    except InterruptedRunError as stop:
        _leave(str(stop), 128 + stop.signal_number)
    except OSError as error:
        _leave(f"josrc: {sentence(error)} Files saved earlier are intact.", 2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        told = str(error).partition("\n")[0]
        _leave(f"josrc: Not enough memory: {told} Files saved earlier are intact.", 2)


def _check_values(words: list[str]) -> None:
    """Raise an error for an option with an empty value, as an unset variable of a shell leaves it.

    Taken for a path it would be the present folder.
    """
    for option, word in zip(["", *words], words, strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("--") and equals and not value:
            raise UserError(f"{name} is empty: give it a value, or leave it out.")
        if not word and option.startswith("--"):
            raise UserError(f"{option} is empty: give it a value, or leave it out.")


def _leave(message: str, code: int) -> None:
    if count_processes() > 1:
        from josrc.distributed import is_first_to_tell

        if not is_first_to_tell():
            sys.exit(code)
    if message:
        from josrc._console import MAX_MESSAGE_LENGTH, clipped, printable

        typer.echo(clipped(printable(message), MAX_MESSAGE_LENGTH), err=True)
    sys.exit(code)
