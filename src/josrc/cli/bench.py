"""Commands of ``josrc bench``: the paper's tables, and what is measured beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from josrc.cli._options import DataRoot, Device, Engine, names
from josrc.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Run, show and render benchmarks.")

Results = Annotated[Path, typer.Option(help="Where results are kept.")]
Scratch = Annotated[Path, typer.Option(help="Where run folders go.")]
Cells = Annotated[list[str] | None, typer.Option(help="Only these cells, such as symmetric-0.2.")]
Epochs = Annotated[int | None, typer.Option(help="Shorter runs, kept apart in RESULTS/trial.")]


@app.command("run")
def bench_run(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE", help="A table or another suite; docs/paper/reproduce.md lists them."
        ),
    ],
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods.")] = None,
    cells: Cells = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these rows, by the folders of their results, such as short-closed."
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="augmented, or plain as in JoCoR.")] = "augmented",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs per cell: 5 as in the paper, 3 for ours.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Start no run after this many minutes.")
    ] = None,
    epochs: Epochs = None,
    pretrained: Annotated[
        bool | None,
        typer.Option("--pretrained/--no-pretrained", help="Default: as the recipe says."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MODEL=]FILE", help="Instead of timm's weights: resnet18=FILE, resnet50=FILE."
        ),
    ] = None,
    data_root: DataRoot = None,
    device: Device = None,
    engine: Annotated[
        str | None,
        typer.Option(help="auto, captured, compiled or eager; ray: several runs in parallel."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: address of a running cluster.")
    ] = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Run what is missing from a table of the paper."""
    from josrc._console import Terminal
    from josrc.bench.suite import find_runs, run_suite

    on_ray = engine == "ray"
    if on_ray and minutes is not None:
        raise UserError("--minutes does not work with --engine ray: leave it out.")
    if address is not None and not on_ray:
        raise UserError("--address needs --engine ray.")
    if on_ray:
        from josrc.engine.cluster import check_ray

        check_ray("josrc bench run --engine ray")
    console = Terminal()
    asked: dict[str, Any] = {
        "methods": names(methods),
        "cells": names(cells),
        "rows": names(rows),
        "recipe": recipe,
        "seeds": seeds,
        "weights": weights or (),
        "options": {
            "epochs": epochs,
            "pretrained": pretrained,
            "data_root": data_root,
            "device": device,
            "engine": None if on_ray else engine,
        },
        "results": results,
        "scratch": scratch,
        "console": console,
    }
    if not on_ray:
        run_suite(suite, minutes=minutes, **asked)
        return
    from josrc.bench.on_ray import run_suite_on_ray

    run_suite_on_ray(find_runs(suite, **asked), console, address)


@app.command("show")
def bench_show(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="A table, another suite or audit; docs/paper/reproduce.md lists them.",
        ),
    ],
    results: Results = Path("results"),
) -> None:
    """Show a table: the paper's numbers, ours, and the difference."""
    from josrc._console import Terminal
    from josrc.bench.render import show

    show(suite, results, Terminal())


@app.command("render")
def bench_render(
    results: Results = Path("results"),
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("RESULTS.md"),
) -> None:
    """Write RESULTS.md and all figures from the results."""
    from josrc.bench.render import write_results

    write_results(results, out)
    typer.echo(f"Wrote {out} and {results / 'figures'}.")


@app.command("speed")
def bench_speed(
    data: Annotated[
        str | None,
        typer.Option(
            help="Train on images in files: a folder of class folders, or generate:20000 to "
            "generate that many JPEGs."
        ),
    ] = None,
    data_root: DataRoot = None,
    device: Device = None,
    method: Annotated[str | None, typer.Option(help="Default: josrc.")] = None,
    model: Annotated[
        str | None, typer.Option(help="cnn7, resnet50 with --data, or any timm model.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=2, help="With --data: samples per step; 64 at 224 pixels.")
    ] = None,
    train: Annotated[
        str, typer.Option(help="With --data: 'head' for a head over features computed once.")
    ] = "all",
    precision: Annotated[
        str | None,
        typer.Option(help="float32 or bfloat16, of all loops; default bfloat16 on a GPU alone."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps per timed window.")] = None,
    whole_runs: Annotated[
        bool, typer.Option(help="On a GPU with data: also time two whole runs.")
    ] = True,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An earlier file: show what is faster or slower now."),
    ] = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Time a training step: a hand-written loop, josrc eager, captured.

    With --data: images a second from files, by hand, by josrc, and without reading.
    """
    from josrc._console import Terminal

    if data is not None:
        from josrc.bench.speed_images import run_image_speed

        if data_root is not None:
            raise UserError("--data names the images: leave out --data-root.")
        if train == "head":
            from josrc.bench.speed_head import run_head_speed

            options = {"device": device, "method": method, "model": model}
            run_head_speed(
                data=data,
                options=options | {"batch_size": batch_size},
                precision=precision,
                steps=steps,
                results=results,
                console=Terminal(),
                compare=compare,
            )
            return
        run_image_speed(
            data=data,
            device_name_wanted=device,
            method=method,
            model=model,
            batch_size=batch_size,
            precision=precision,
            steps=steps,
            compare=compare,
            results=results,
            console=Terminal(),
        )
        return
    if train != "all":
        raise UserError("--train head needs --data.")
    if batch_size is not None:
        raise UserError("--batch-size needs --data: CIFAR's recipe has its own.")
    from josrc.bench.speed import run_speed

    run_speed(
        data_root=data_root,
        device_name_wanted=device,
        method=method,
        model=model,
        precision=precision,
        steps=steps,
        whole_runs=whole_runs,
        compare=compare,
        results=results,
        scratch=scratch,
        console=Terminal(),
    )


@app.command("time")
def bench_time(
    data: Annotated[
        list[str] | None,
        typer.Option(help="cifar80n-o, cifar100n-c (the default), digits-o."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(help="Default: standard, josrc, dividemix and posterior."),
    ] = None,
    epochs: Annotated[
        list[int] | None,
        typer.Option(
            help="Length of a schedule; may be repeated. Default: 10 20 50 100 200, or that of "
            "--recipe."
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="such as fast; see 'josrc recipes'.")] = "augmented",
    seeds: Annotated[int, typer.Option(min=1, help="Runs per schedule.")] = 1,
    data_root: DataRoot = None,
    device: Device = None,
    engine: Engine = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Measure the time to accuracy, for schedules of several lengths."""
    from josrc._console import Terminal
    from josrc.bench.time_to_accuracy import run_times

    run_times(
        data=names(data),
        methods=names(methods),
        epochs=epochs or (),
        recipe=recipe,
        seeds=seeds,
        options={"data-root": data_root, "device": device, "engine": engine},
        results=results,
        scratch=scratch,
        console=Terminal(),
    )


@app.command("audit")
def bench_audit(
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="cifar100n-c, cifar10n, cifar80n-o, look-alikes (the default), digits-o."
        ),
    ] = None,
    cells: Annotated[
        list[str] | None, typer.Option(help="Only these cells, such as none-0,worst-0.")
    ] = None,
    sides: Annotated[list[str] | None, typer.Option(help="josrc, cleanlab or both.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per cell.")] = 1,
    epochs: Epochs = None,
    data_root: DataRoot = None,
    device: Device = None,
    engine: Engine = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Compare verdicts with the truth: josrc's and cleanlab's.

    Ours come from one training with planted errors, cleanlab's from five plain ones of 30 epochs.
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


@app.command("scan")
def bench_scan(
    data: Annotated[
        list[str] | None,
        typer.Option(help="cifar10n (the default), cifar100n-c, cifar80n-o, digits-o."),
    ] = None,
    cells: Annotated[
        list[str] | None, typer.Option(help="Only these cells, such as none-0,worst-0.")
    ] = None,
    sides: Annotated[list[str] | None, typer.Option(help="scan, cleanlab or both.")] = None,
    model: Annotated[str | None, typer.Option(help="Any timm model.")] = None,
    image_size: Annotated[int | None, typer.Option(help="Resize images to N x N.")] = None,
    data_root: DataRoot = None,
    device: Device = None,
    results: Results = Path("results"),
    scratch: Scratch = Path("runs/bench"),
) -> None:
    """Compare scans with the truth: josrc's and cleanlab's."""
    from josrc._console import Terminal
    from josrc.bench.scan import run_scans

    run_scans(
        data=names(data),
        cells=names(cells),
        sides=names(sides),
        options={
            "model": model,
            "image_size": image_size,
            "data_root": data_root,
            "device": device,
        },
        results=results,
        scratch=scratch,
        console=Terminal(),
    )


@app.command("loader")
def bench_loader(
    images: Annotated[int, typer.Option(min=2, help="JPEGs to generate per size.")] = 512,
    epochs: Annotated[int, typer.Option(min=1, help="Timed passes over them.")] = 5,
    batch_size: Annotated[int, typer.Option(min=2, help="Samples per step.")] = 64,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes; default one per core.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the main process; default torch's.")
    ] = None,
    device: Device = None,
    results: Results = Path("results"),
) -> None:
    """Time reading images from files: torchvision's loader and josrc's."""
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
