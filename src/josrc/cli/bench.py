"""Commands of ``josrc bench``: the paper's tables, and what is measured beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from josrc.cli._options import DataRoot, Device, Engine, names
from josrc.errors import UserError

app = typer.Typer(no_args_is_help=True, help="The paper's tables: run, show and render them.")

Results = Annotated[Path, typer.Option(help="Where results are kept.")]
Scratch = Annotated[Path, typer.Option(help="Where run folders go.")]
Cells = Annotated[list[str] | None, typer.Option(help="Only these: symmetric-0.2 ...")]
Epochs = Annotated[int | None, typer.Option(help="Shorter runs, kept apart in RESULTS/trial.")]


@app.command("run")
def bench_run(
    suite: Annotated[
        str, typer.Argument(help="table1 to table4, ablation, selection, others-c, -o, digits.")
    ],
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods.")] = None,
    cells: Cells = None,
    recipe: Annotated[str, typer.Option(help="augmented, or plain as in JoCoR.")] = "augmented",
    seeds: Annotated[int, typer.Option(min=1, help="Runs a cell, as in the paper.")] = 5,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Start no run past this time.")
    ] = None,
    epochs: Epochs = None,
    pretrained: Annotated[
        bool | None, typer.Option("--pretrained/--no-pretrained", help="As a recipe unless given.")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MODEL=]FILE", help="In place of timm's weights: resnet18=FILE, resnet50=FILE."
        ),
    ] = None,
    data_root: DataRoot = None,
    device: Device = None,
    engine: Engine = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Run what is missing of a table of the paper."""
    from josrc._console import Terminal
    from josrc.bench.suite import run_suite

    run_suite(
        suite,
        methods=names(methods),
        cells=names(cells),
        recipe=recipe,
        seeds=seeds,
        minutes=minutes,
        weights=weights or (),
        options={
            "epochs": epochs,
            "pretrained": pretrained,
            "data_root": data_root,
            "device": device,
            "engine": engine,
        },
        results=results,
        scratch=scratch,
        console=Terminal(),
    )


@app.command("show")
def bench_show(
    suite: Annotated[
        str,
        typer.Argument(help="table1 to table4, ablation, selection, others-c, -o, digits, audit."),
    ],
    results: Results = Path("results"),
) -> None:
    """Show a table: the paper's number, ours, and the difference; or the verdicts of an audit."""
    from josrc._console import Terminal
    from josrc.bench.render import show

    show(suite, results, Terminal())


@app.command("render")
def bench_render(
    results: Results = Path("results"),
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("RESULTS.md"),
) -> None:
    """Write RESULTS.md, the figures and their CSVs from the results alone."""
    from josrc.bench.render import write_results

    write_results(results, out)
    typer.echo(f"Wrote {out} and {results / 'figures'}.")


@app.command("speed")
def bench_speed(
    data: Annotated[
        str | None,
        typer.Option(
            help="Train on images in files: a folder of class folders, or generate:20000 to have "
            "so many JPEGs made."
        ),
    ] = None,
    data_root: DataRoot = None,
    device: Device = None,
    method: Annotated[str | None, typer.Option(help="josrc unless another is named.")] = None,
    model: Annotated[
        str | None, typer.Option(help="cnn7, resnet50 with --data, or any timm name.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=2, help="With --data: samples a step; 64 for 224 pixels.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in a timed window.")] = None,
    whole_runs: Annotated[
        bool, typer.Option(help="On a GPU with data: also time two whole runs.")
    ] = True,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Time a training step: a loop written by hand, josrc eager, josrc captured.

    With --data: images a second from files, by hand, by josrc, and without reading.
    """
    from josrc._console import Terminal

    if data is not None:
        from josrc.bench.speed_images import run_image_speed

        if data_root is not None:
            raise UserError("--data names the images: leave out --data-root.")
        run_image_speed(
            data=data,
            device_name_wanted=device,
            method=method,
            model=model,
            batch_size=batch_size,
            steps=steps,
            results=results,
            console=Terminal(),
        )
        return
    if batch_size is not None:
        raise UserError("--batch-size goes with --data: CIFAR's recipe has its own.")
    from josrc.bench.speed import run_speed

    run_speed(
        data_root=data_root,
        device_name_wanted=device,
        method=method,
        model=model,
        steps=steps,
        whole_runs=whole_runs,
        results=results,
        scratch=scratch,
        console=Terminal(),
    )


@app.command("audit")
def bench_audit(
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="cifar100n-c, cifar10n, cifar80n-o, look-alikes (these by default), digits-o."
        ),
    ] = None,
    cells: Annotated[
        list[str] | None, typer.Option(help="Only these: none-0, symmetric-0.05, worst-0 ...")
    ] = None,
    sides: Annotated[list[str] | None, typer.Option(help="josrc, cleanlab or both.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs a cell.")] = 1,
    epochs: Epochs = None,
    data_root: DataRoot = None,
    device: Device = None,
    engine: Engine = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Compare verdicts with the truth, ours beside cleanlab's.

    Ours are of one training with planted errors, cleanlab's of five plain ones of 30 epochs.
    """
    from josrc._console import Terminal
    from josrc.bench.audit import run_audits

    run_audits(
        data=names(data),
        cells=names(cells),
        sides=names(sides),
        seeds=seeds,
        options={
            "epochs": epochs,
            "data_root": data_root,
            "device": device,
            "engine": engine,
        },
        results=results,
        scratch=scratch,
        console=Terminal(),
    )


@app.command("loader")
def bench_loader(
    images: Annotated[int, typer.Option(min=2, help="JPEGs of each size, made for it.")] = 512,
    epochs: Annotated[int, typer.Option(min=1, help="Timed walks over them.")] = 5,
    batch_size: Annotated[int, typer.Option(min=2, help="Samples a step.")] = 64,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes; one a core.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the process that asks; torch's default.")
    ] = None,
    device: Device = None,
    results: Results = Path("results"),
) -> None:
    """Time reading images from files: torchvision's folder and loader, and josrc's."""
    from josrc._console import Terminal
    from josrc.bench.loader import run_loader

    run_loader(
        images=images,
        epochs=epochs,
        batch_size=batch_size,
        workers=workers,
        threads=threads,
        device_name_wanted=device,
        results=results,
        console=Terminal(),
    )
