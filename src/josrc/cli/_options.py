"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        help="digits-o, cifar100n-c, cifar80n-o, cifar10n, cifar100n, clothing1m, food101n, or a "
        "path: a folder of class folders, a manifest (csv, tsv, jsonl, parquet), Label Studio or "
        "COCO JSON, tar or parquet files with images in them. hf:NAME is a Hugging Face data set, "
        "s3://bucket/list.csv an address."
    ),
]
Noise = Annotated[
    str | None,
    typer.Option(
        help="Named data: symmetric, asymmetric, block, superclass, instance or none; people's: "
        "aggregate, random1, random2, random3, worst (cifar10n), human (cifar100n)."
    ),
]
Rate = Annotated[float | None, typer.Option(help="Named data: share of labels to corrupt, 0 to 1.")]
Inject = Annotated[
    str | None,
    typer.Option(
        metavar="KIND:RATE",
        help="Own images: corrupt labels on purpose, to see what is found: symmetric:0.2.",
    ),
]
NoiseSeed = Annotated[int | None, typer.Option(help="Seed of the noise; default 0, as published.")]
NoiseRate = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Share of wrong labels, if you know it: 0.05, say."),
]
OodRate = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="Share of images that belong to no class, if you know it; 0 for none."
    ),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder that holds the data set; default: download it."),
]
MovedTo = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        help="Where the data is now, if it has moved; for own images, their folder or manifest.",
    ),
]
Engine = Annotated[str | None, typer.Option(help="auto, captured, compiled or eager.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1 ...")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Last = Annotated[bool, typer.Option("--last", help="Use the last weights instead of the best.")]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Processes that decode images; default one per core.")
]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a running Ray cluster: auto, HOST:6379 or ray://HOST:10001."),
]
Cpus = Annotated[int | None, typer.Option(min=1, help="Cores of this machine to use; default all.")]
PathColumn = Annotated[str | None, typer.Option(help="Manifest: column of paths.")]
LabelColumn = Annotated[str | None, typer.Option(help="Manifest: column of labels.")]
AnnotatorColumn = Annotated[
    str | None, typer.Option(help="Manifest with a row per label: column that says who gave it.")
]
AnnotatorColumns = Annotated[
    list[str] | None,
    typer.Option(help="Manifest with a row per image: columns of the annotators, a,b,c."),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(help="Manifest: column of what belongs together, as a patient or a video."),
]
WholeLabels = Annotated[
    bool,
    typer.Option("--whole-labels", help="Manifest: 'cat;dog' is the name of one class."),
]
MayBeOutside = Annotated[
    bool, typer.Option("--allow-outside", help="Manifest: allow files outside its folder.")
]
MaySkip = Annotated[
    bool,
    typer.Option(
        "--allow-skipped", help="Go on even if more than 5 % of the images can't be read."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def names(options: list[str] | None) -> list[str]:
    """Names given one an option, or several in one with commas."""
    return [name for option in options or [] for name in option.split(",") if name]
