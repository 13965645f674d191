"""Commands that use a trained model: predict, eval and export; and doctor."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from josrc.cli._options import (
    DataRoot,
    Device,
    LabelColumn,
    Last,
    MayBeOutside,
    PathColumn,
    Quiet,
    RunArgument,
    WholeLabels,
    Workers,
)
from josrc.errors import UserError, check_run

app = typer.Typer()
doctor = typer.Typer(help="Check the installation, or whether a data set is complete.")
app.add_typer(doctor, name="doctor")


@app.command()
def predict(
    run: RunArgument,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Images, folders of images, manifests, tar and parquet files."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = Path("predictions.csv"),
    top_k: Annotated[int, typer.Option(min=1, help="Classes to list per image.")] = 1,
    last: Last = False,
    path_column: PathColumn = None,
    allow_outside: MayBeOutside = False,
    workers: Workers = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Predict the classes of images, and how unlike those classes each image is.

    josrc predict RUN photos --out predictions.csv --top-k 3
    """
    check_run(run)  # said before what takes seconds to import

    from josrc._console import Terminal, progress_bar, say
    from josrc.data.readers import list_images
    from josrc.data.readers.folder import describe_left_out
    from josrc.runs.predictor import check_target, write_predictions
    from josrc.runs.run import Run

    console = Terminal(quiet=quiet)
    check_target(out, map(Path, paths))
    predictor = Run.load(run).predictor(last)
    images, left_out = list_images(paths, path_column, allow_outside)
    with progress_bar(console, "Predicting") as progress:
        stream = predictor.stream(images, device, workers)
        told = write_predictions(
            out, images, stream, predictor.class_names, top_k=top_k, progress=progress
        )
    say(console, "\n".join([told, *describe_left_out(left_out), f"Predictions: {out}"]))


@app.command("eval")
def evaluate(
    run: RunArgument,
    data: Annotated[
        str,
        typer.Argument(help="A data set's name, a folder of class folders, or a manifest."),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder; default RUN/eval/NAME.")] = None,
    last: Last = False,
    data_root: DataRoot = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    whole_labels: WholeLabels = False,
    allow_outside: MayBeOutside = False,
    workers: Workers = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Measure accuracy and calibration on images whose labels are right.

    josrc eval RUN holiday-photos
    """
    check_run(run)  # said before what takes seconds to import

    from josrc._console import Terminal, progress_bar, say
    from josrc.config import HUB
    from josrc.data.readers.folder import describe_left_out
    from josrc.data.registry import describe_data
    from josrc.runs.evaluate import (
        evaluate,
        read_evaluation_data,
        warn_of_optimism,
        write_evaluation,
    )
    from josrc.runs.run import Run

    console = Terminal(quiet=quiet)
    finished = Run.load(run)
    predictor = finished.predictor(last)
    config = describe_data(
        data,
        root=data_root,
        path_column=path_column,
        label_column=label_column,
        whole_labels=whole_labels or finished.config.data.whole_labels,
        allow_outside=allow_outside,
    )
    labelled = read_evaluation_data(config, predictor.class_names)
    with progress_bar(console, "Evaluating") as progress:
        found = evaluate(predictor, labelled, device=device, workers=workers, progress=progress)
    name = Path(data.removeprefix(HUB)).resolve().stem + ("-last" if last else "")
    folder = out or run / "eval" / name
    metadata = {"run": str(run), "weights": "last" if last else "best", "epoch": predictor.epoch}
    write_evaluation(folder, found, {"data": data, **metadata})
    skipped = f", files skipped: {len(found.skipped):,}" if found.skipped else ""
    told = (
        f"{data}: accuracy {found.accuracy:.2f} % on {len(found.true):,} {labelled.part}, "
        f"calibration error {found.calibration_error():.2f} %{skipped}."
    )
    lines = [told, *describe_left_out(labelled.left_out)]
    lines += [
        *warn_of_optimism(finished.config, finished.summary, labelled, last),
        f"Results: {folder}",
    ]
    say(console, "\n".join(lines))


@app.command()
def export(
    run: RunArgument,
    format: Annotated[
        str, typer.Option(help="onnx, torch (torch.export), or hf (a folder for timm).")
    ] = "onnx",
    out: Annotated[Path | None, typer.Option(help="Default RUN/export/model.onnx.")] = None,
    last: Last = False,
) -> None:
    """Write the model as one file that needs no josrc, and a card that says how to use it.

    josrc export RUN --format onnx --out model.onnx
    """
    check_run(run)  # said before what takes seconds to import

    from josrc.runs.export import card_path, export, format_of
    from josrc.runs.run import Run

    if format == "hf":
        _export_folder(run, out or run / "export" / "hf", last)
        return
    suffix = format_of(format).suffix
    path = out or run / "export" / f"model{suffix}"
    if path.exists() and path.suffix != suffix:
        raise UserError(f"{path} exists and is not a {suffix} file. Name another --out.")
    finished = Run.load(run)
    predictor = finished.predictor(last)
    weights = {"weights": "last" if last else "best", "epoch": predictor.epoch}
    metadata = {"method": finished.summary["method"], "data": finished.summary["data"], **weights}
    checked = export(predictor, format, path, metadata)["checked"]
    typer.echo(
        f"Checked with {checked['with']} against the run's networks: probabilities differ by "
        f"{checked['largest_difference']:.1g} at most.\n"
        f"Model: {path} ({path.stat().st_size / 2**20:.1f} MiB), card: {card_path(path)}"
    )


def _export_folder(run: Path, folder: Path, last: bool) -> None:
    from josrc.errors import UserError
    from josrc.runs.hub_model import CARD, SETTINGS, WEIGHTS, write_hub_model
    from josrc.runs.run import Run

    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; --format hf writes a folder.")
    strange = sorted({path.name for path in folder.glob("*")} - {CARD, SETTINGS, WEIGHTS})
    if strange:
        raise UserError(
            f"{folder} holds {strange[0]}, which is not part of a model. Name another --out."
        )
    found = write_hub_model(Run.load(run), folder, last=last)
    typer.echo(
        f"Checked with {found['with']} against the run's network: probabilities differ by "
        f"{found['largest_difference']:.1g} at most.\n"
        f'Model: {folder}, for timm.create_model("local-dir:{folder}", pretrained=True)'
    )


@doctor.callback(invoke_without_command=True)
def examine(context: typer.Context) -> None:
    """Show what is installed, which GPU, extras, memory and caches there are.

    josrc doctor data cifar80n-o DIR looks at the files of a data set.
    """
    if context.invoked_subcommand is not None:
        return
    from josrc._console import Terminal, say
    from josrc.cli._doctor import examine

    console = Terminal()
    for name, found in examine():
        say(console, f"{name:16} {found}")


@doctor.command("data")
def doctor_data(
    name: Annotated[str, typer.Argument(help="A data set's name, or a path to own images.")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder that holds the data set.")
    ] = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    whole_labels: WholeLabels = False,
    allow_outside: MayBeOutside = False,
) -> None:
    """Check the files of a data set: published md5 sums, or every image decoded once."""
    from josrc._console import Terminal, say
    from josrc.cli._doctor import check_data

    console = Terminal()
    manifest = {
        "path_column": path_column,
        "label_column": label_column,
        "whole_labels": whole_labels or None,
        "allow_outside": allow_outside,
    }
    for line in check_data(name, folder, console, **manifest):
        say(console, line)
    words = ["josrc", "train", name] + ([] if folder is None else ["--data-root", str(folder)])
    for option, column in (("--path-column", path_column), ("--label-column", label_column)):
        words += [] if column is None else [option, column]
    words += ["--whole-labels"] * whole_labels + ["--allow-outside"] * allow_outside
    say(console, f"{name} is ready to train on: {shlex.join(words)}")
