"""Commands that train: train and resume."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from josrc.cli._options import (
    AnnotatorColumn,
    AnnotatorColumns,
    Data,
    DataRoot,
    Device,
    Engine,
    GroupColumn,
    Inject,
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
    WholeLabels,
    names,
)
from josrc.cli.audit import verdict_lines
from josrc.errors import UserError, check_run

if TYPE_CHECKING:
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
    inject: Inject = None,
    noise_seed: NoiseSeed = None,
    noise_file: Annotated[
        Path | None, typer.Option(help="Train on these labels instead: npz, npy or CSV.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="See 'josrc methods'.")] = None,
    model: Annotated[str | None, typer.Option(help="cnn7 or any timm model.")] = None,
    pretrained: Annotated[
        bool | None,
        typer.Option("--pretrained/--no-pretrained", help="Start from published weights."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Start from these weights: safetensors or state dict.")
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            help="Own images: 'head' trains a head over features computed once, 'all' the whole "
            "network, 'auto' what fits the machine."
        ),
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Resize images to N x N.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Length of the run; the method's phases scale with it.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples per step.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, order and views.")] = None,
    device: Device = None,
    engine: Engine = None,
    test: Annotated[
        Path | None, typer.Option(help="Own images: test images with true labels.")
    ] = None,
    val: Annotated[
        float | None, typer.Option(help="Own images: hold out this share of each class.")
    ] = None,
    plant: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.1,
            help="Share of labels to corrupt in training, to measure the verdicts by; default "
            "0.03 or more for 390 own images or more, else 0; 0: none.",
        ),
    ] = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    annotator_column: AnnotatorColumn = None,
    annotator_columns: AnnotatorColumns = None,
    group_column: GroupColumn = None,
    whole_labels: WholeLabels = False,
    allow_outside: MayBeOutside = False,
    allow_skipped: MaySkip = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes that decode images; default one per core.")
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Also log to: tensorboard, mlflow, wandb, trackio; several separated by commas."
        ),
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
    from josrc.models.pretrained import check_weights

    if weights is not None or (pretrained and model):  # said before what takes seconds to import
        check_weights(model or "", weights)

    from josrc.runs.options import check_early
    from josrc.runs.resolve import parse_override, read_yaml

    layers = [parse_override(pair) for pair in overrides or []]
    if config is not None:
        if not config.is_file():
            raise UserError(f"Configuration file {config} does not exist.")
        layers.insert(0, read_yaml(config))
    options = {
        "noise": noise,
        "rate": rate,
        "inject": inject,
        "noise_seed": noise_seed,
        "noise_file": noise_file,
        "method": method,
        "model": model,
        "pretrained": pretrained,
        "weights": weights,
        "train": train,
        "image_size": image_size,
        "epochs": epochs,
        "batch_size": batch_size,
        "seed": seed,
        "device": device,
        "engine": engine,
        "data_root": data_root,
        "test": test,
        "val": val,
        "plant": plant,
        "path_column": path_column,
        "label_column": label_column,
        "annotator_column": annotator_column,
        "annotator_columns": names(annotator_columns) or None,
        "group_column": group_column,
        "whole_labels": whole_labels or None,
        "allow_outside": allow_outside or None,  # without the flag as configured
        "allow_skipped": allow_skipped or None,
        "workers": workers,
        "log": names(log) or None,
    }
    check_early(data, recipe, layers, options)

    from josrc._console import Terminal
    from josrc.distributed import is_main
    from josrc.runs.start import plan, start

    console = Terminal(quiet=quiet or not is_main())
    settings, source = plan(data, recipe=recipe, layers=layers, console=console, **options)
    _report(start(settings, out, overwrite=overwrite, console=console, source=source))


@app.command()
def resume(
    run: RunArgument,
    data_root: MovedTo = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Resume an interrupted run; it ends as it would have without the interruption."""
    check_run(run)  # said before what takes seconds to import

    from josrc.runs.start import resume as resume_run

    _report(resume_run(run, data_root=data_root, device=device, quiet=quiet))


def _report(run: Run) -> None:
    """Print the result, also for those who want to see no progress."""
    from josrc._console import Terminal, say
    from josrc.distributed import is_main
    from josrc.engine.health import ended_badly

    console = Terminal(quiet=not is_main())
    summary = run.summary
    took = f"Trained in {summary['seconds_total']:.0f} s."
    if summary.get("val_chosen") is not None:
        result = (
            f"Test accuracy {summary['val_chosen']:.2f} % in epoch {summary['best_epoch']}, chosen "
            f"by the validation images; {summary['final']:.2f} % in the last epoch; "
            f"{summary['test_best']:.2f} % in the epoch that the test images would choose."
        )
    elif summary["last10_mean"] is not None:
        result = (
            f"Test accuracy {summary['last10_mean']:.2f} % (mean of the last "
            f"{min(10, summary['epochs'])} epochs), best {summary['best']:.2f} % in epoch "
            f"{summary['best_epoch']}."
        )
    elif summary.get("agreement") is not None:
        result = (
            f"The network agrees with {summary['agreement']:.2f} % of the held-out given labels, "
            "right or wrong. No accuracy: there were no --test images."
        )
    else:
        result = "No accuracy: there were no --test images."
    lines = [
        f"{took} {result}",
        ended_badly(summary),
        *verdict_lines(run.path / "audit", run.audit),
        f"Run folder: {run.path}",
    ]
    say(console, "\n".join(filter(None, lines)))
