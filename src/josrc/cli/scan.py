"""The command that judges labels without training: scan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from josrc.cli._early import check_folder, check_names
from josrc.cli._options import (
    Address,
    AnnotatorColumn,
    AnnotatorColumns,
    Cpus,
    Data,
    DataRoot,
    Device,
    GroupColumn,
    Inject,
    LabelColumn,
    MayBeOutside,
    MaySkip,
    Noise,
    NoiseRate,
    NoiseSeed,
    OodRate,
    PathColumn,
    Quiet,
    Rate,
    WholeLabels,
    Workers,
    names,
)
from josrc.cli.audit import verdict_lines
from josrc.errors import UserError

app = typer.Typer()


@app.command()
def scan(
    data: Data,
    model: Annotated[
        str | None, typer.Option(help="Any timm model; default: tf_efficientnet_lite0.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights of the model, instead of the published ones.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Resize images to N x N.")] = None,
    probs: Annotated[
        Path | None,
        typer.Option(
            help="Your own out-of-sample predictions, one row per image: npy, parquet or CSV."
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Your own features, one row per image: npy, parquet, CSV, or those of a scan."
        ),
    ] = None,
    noise: Noise = None,
    rate: Rate = None,
    inject: Inject = None,
    noise_seed: NoiseSeed = None,
    noise_file: Annotated[
        Path | None, typer.Option(help="Judge these labels instead: npz, npy or CSV.")
    ] = None,
    noise_rate: NoiseRate = None,
    ood_rate: OodRate = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    annotator_column: AnnotatorColumn = None,
    annotator_columns: AnnotatorColumns = None,
    group_column: GroupColumn = None,
    whole_labels: WholeLabels = False,
    allow_outside: MayBeOutside = False,
    allow_skipped: MaySkip = False,
    workers: Workers = None,
    device: Device = None,
    engine: Annotated[
        Literal["auto", "ray"],
        typer.Option(help="auto: this process; ray: many workers, see docs/use/scale.md."),
    ] = "auto",
    address: Address = None,
    cpus: Cpus = None,
    shard_size: Annotated[
        int | None, typer.Option(help="With --engine ray: images per task and file; default 4096.")
    ] = None,
    data_root: DataRoot = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing run folder.")] = False,
    quiet: Quiet = False,
) -> None:
    """Find wrong labels in minutes, without training.

    Labels are judged by features of a pretrained network.

    josrc scan FOLDER --out RUN
    """
    from josrc.models.pretrained import PACKAGED_MODEL, check_weights

    check_folder(out)  # said before what takes seconds to import
    check_names(data, noise=noise, inject=inject)
    _check_ray_options(engine, {"address": address, "cpus": cpus, "shard-size": shard_size})
    if probs is None and features is None:
        check_weights(model or PACKAGED_MODEL, weights)

    from josrc._console import Terminal, duration, say
    from josrc.runs.scan import scan as run_scan
    from josrc.runs.scan_on_ray import OnRay
    from josrc.runs.shards import SHARD_SIZE
    from josrc.verdicts.scope import scope_sentences

    console = Terminal(quiet=quiet)
    run = run_scan(
        data,
        probs=probs,
        features=features,
        out=out,
        overwrite=overwrite,
        noise_rate=noise_rate,
        ood_rate=ood_rate,
        on_ray=OnRay(address, cpus, shard_size or SHARD_SIZE) if engine == "ray" else None,
        console=console,
        model=model,
        weights=weights,
        image_size=image_size,
        noise=noise,
        rate=rate,
        inject=inject,
        noise_seed=noise_seed,
        noise_file=noise_file,
        path_column=path_column,
        label_column=label_column,
        annotator_column=annotator_column,
        annotator_columns=names(annotator_columns) or None,
        whole_labels=whole_labels or None,
        allow_outside=allow_outside or None,
        allow_skipped=allow_skipped or None,
        workers=workers,
        device=device,
        group_column=group_column,
        data_root=data_root,
    )
    end = Terminal()  # for those who want to see no progress, too
    say(end, f"Scanned in {duration(run.summary['seconds_total'])}.")
    say(end, "\n".join(verdict_lines(run.path / "audit", run.audit)))
    if scope := scope_sentences(run.summary):
        say(end, "\n".join(scope))


def _check_ray_options(engine: str, options: dict[str, Any]) -> None:
    """Raise an error for options of Ray without Ray."""
    for name, value in options.items():
        if engine != "ray" and value is not None:
            raise UserError(f"--{name} needs --engine ray.")
