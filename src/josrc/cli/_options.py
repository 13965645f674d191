"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        help="digits-o, cifar100n-c, cifar80n-o, cifar10n, cifar100n, clothing1m, food101n, or a "
        "path: a folder of class folders, a manifest (csv, tsv, jsonl, parquet). hf:NAME is a "
        "Hugging Face data set."
    ),
]
Noise = Annotated[
    str | None,
    typer.Option(
        help="symmetric, asymmetric, block, superclass, instance or none; people's labels: "
        "aggregate, random1, random2, random3, worst (cifar10n), human (cifar100n)."
    ),
]
Rate = Annotated[float | None, typer.Option(help="Share of wrong labels, 0 to 1.")]
NoiseSeed = Annotated[int | None, typer.Option(help="Seed of the noise draw; 0, as published.")]
DataRoot = Annotated[
    Path | None, typer.Option(help="Folder that holds the data set; downloaded without it.")
]
MovedTo = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        help="Where the data is now, if it has moved; of own images their folder or manifest.",
    ),
]
Engine = Annotated[str | None, typer.Option(help="auto, captured or eager.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1 ...")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Last = Annotated[bool, typer.Option("--last", help="The last weights in place of the best.")]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Processes that decode images; one a core.")
]
PathColumn = Annotated[str | None, typer.Option(help="Manifest: the paths' column.")]
LabelColumn = Annotated[str | None, typer.Option(help="Manifest: the labels' column.")]
MayBeOutside = Annotated[
    bool, typer.Option("--allow-outside", help="Manifest: may name files anywhere.")
]
MaySkip = Annotated[
    bool, typer.Option("--allow-skipped", help="Go on even if over 5 % can't be read.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def names(options: list[str] | None) -> list[str]:
    """Names given one an option, or several in one with commas."""
    return [name for option in options or [] for name in option.split(",") if name]
