"""Commands that train: train and resume."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from josrc.cli._options import (
    Data,
    DataRoot,
    Device,
    Engine,
    LabelColumn,
    MayBeOutside,
    MaySkip,
    MovedTo,
    Noise,
    NoiseSeed,
    PathColumn,
    Quiet,
    Rate,
    RunArgument,
    names,
)
from josrc.cli.audit import verdict_lines
from josrc.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from josrc.runs.run import Run

app = typer.Typer()

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Any configuration key: method.alpha=0.3."),
]


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
    plant: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.1,
            help="Make this share of labels wrong in training, to measure the verdicts by; own "
            "images: 0.03 or more, others: 0.",
        ),
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
    quiet: Quiet = False,
) -> None:
    """Train a classifier on noisy labels.

    josrc train FOLDER --model resnet18 --pretrained

    josrc train cifar80n-o --noise symmetric --rate 0.2 --data-root DIR --out RUN
    """
    from josrc._console import Terminal
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
        plant=plant,
        path_column=path_column,
        label_column=label_column,
        allow_outside=allow_outside or None,  # without the flag as configured
        allow_skipped=allow_skipped or None,
        workers=workers,
        log=names(log) or None,
    )
    console = Terminal(quiet=quiet or not is_main())
    run = start(settings, out, overwrite=overwrite, console=console, source=source)
    _report(run, console)


@app.command()
def resume(
    run: RunArgument,
    data_root: MovedTo = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Go on with an interrupted run, to the end it would have had."""
    from josrc._console import Terminal
    from josrc.distributed import is_main
    from josrc.runs.start import resume as resume_run

    console = Terminal(quiet=quiet or not is_main())
    _report(resume_run(run, data_root=data_root, device=device, quiet=quiet), console)


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
