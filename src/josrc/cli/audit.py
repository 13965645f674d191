"""Commands around the verdicts on a run: audit, report, review and apply."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from josrc.cli._options import MovedTo, NoiseRate, OodRate, RunArgument
from josrc.errors import UserError, check_run

app = typer.Typer()

DecisionsOf = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN", help="Carry over decisions from an earlier run, matched by sample id."
    ),
]


@app.command()
def audit(
    run: RunArgument,
    noise_rate: NoiseRate = None,
    ood_rate: OodRate = None,
    new: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Judge only new images, a folder or manifest, for report, review and apply.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="--new: the run folder to write. Default: RUN-new."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="--new: replace an existing folder.")
    ] = False,
    data_root: MovedTo = None,
) -> None:
    """Write a verdict on every sample of a run, and the report, to its folder audit."""
    check_run(run)  # said before what takes seconds to import

    from josrc._console import Terminal, say
    from josrc.runs.audit import audit as audit_run
    from josrc.runs.judge_new import judge_new

    tell = partial(say, Terminal())
    if new is not None:
        if noise_rate is not None or ood_rate is not None:
            raise UserError(
                "--new judges by the rates that the run has: give rates to josrc audit without "
                "--new first."
            )
        judged = judge_new(run, new, out=out, overwrite=overwrite, data_root=data_root, tell=tell)
        tell("\n".join(verdict_lines(judged.path / "audit", judged.audit)))
        return
    if out is not None or overwrite:
        raise UserError("--out and --overwrite go with --new.")
    summary = audit_run(
        run, noise_rate=noise_rate, ood_rate=ood_rate, data_root=data_root, tell=tell
    )
    folder = run / "audit"
    tell("\n".join(verdict_lines(folder, summary)))


@app.command()
def report(
    run: RunArgument,
    map_kind: Annotated[
        Literal["pca", "umap", "none"] | None,
        typer.Option(
            "--map",
            help="Redraw the map of all images with pca or umap, or leave it out: none. Default: "
            "the one that the run has.",
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Compare with an earlier run on the same images."),
    ] = None,
    data_root: MovedTo = None,
) -> None:
    """Rewrite the report of a run: audit/report.html, one file that opens in any browser."""
    check_run(run)  # said before what takes seconds to import

    from josrc._console import Terminal, say
    from josrc.runs.audit import report as write_report

    tell = partial(say, Terminal())
    path = write_report(run, data_root=data_root, map_kind=map_kind, compare=compare, tell=tell)
    tell(f"Report: {path} ({path.stat().st_size / 1e6:.1f} MB)")


@app.command()
def compare(
    run: Annotated[Path, typer.Argument(metavar="RUN1", help="The earlier run.")],
    other: Annotated[Path, typer.Argument(metavar="RUN2", help="The later one.")],
) -> None:
    """Compare two runs on the same images: accuracy, verdicts, and what became of decisions."""
    from josrc._console import Terminal, say
    from josrc.runs.compare import compare_runs

    say(Terminal(), compare_runs(run, other).text())


@app.command()
def review(
    run: RunArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many images you have time to look at; shows those that correct most."
        ),
    ] = None,
    decisions_of: DecisionsOf = None,
    data_root: MovedTo = None,
) -> None:
    """Look at the verdicts on a run in a browser and decide; served to this machine only."""
    check_run(run)  # said before what takes seconds to import

    from josrc._launch import ended_at_once

    with ended_at_once():
        from josrc._console import Terminal
        from josrc.review.server import serve

    serve(
        run,
        port=port,
        budget=budget,
        decisions_of=decisions_of,
        data_root=data_root,
        browser=browser,
        console=Terminal(),
    )


@app.command("apply")
def apply_command(
    run: RunArgument,
    target: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The same as --out.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write: a CSV, or what --to says; a folder with --copy or --link."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="csv, parquet, coco, hf (imagefolder with metadata.csv), label-studio."),
    ] = None,
    auto: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Also apply verdicts with at least this confidence."),
    ] = None,
    auto_remove: Annotated[
        bool, typer.Option(help="Let --auto remove images too, or only relabel them.")
    ] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Write a folder of copied images.")] = False,
    link: Annotated[
        Literal["hard", "sym"] | None, typer.Option(help="Write a folder of links to the images.")
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(help="--to label-studio: URL of the images' folder; default local files."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="--to label-studio: only N images, those whose review brings most."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace what an earlier apply wrote.")] = False,
    decisions_of: DecisionsOf = None,
    data_root: MovedTo = None,
) -> None:
    """Write the corrected data set: from decisions, and with --auto from verdicts.

    josrc apply RUN --to label-studio tasks.json hands all images over to decide there.
    """
    check_run(run)  # said before what takes seconds to import

    from josrc._console import Terminal
    from josrc.review.apply import apply_run
    from josrc.review.hand_over import write_label_studio

    if copy and link:
        raise UserError("Give --copy or --link, not both.")
    if (out is None) == (target is None):
        raise UserError("Name one file or folder to write: --out cleaned.csv, say.")
    place = out or target or Path()
    common: dict[str, Any] = {
        "decisions_of": decisions_of,
        "data_root": data_root,
        "overwrite": overwrite,
        "console": Terminal(),
    }
    if to == "label-studio":
        if auto is not None or copy or link:
            raise UserError(
                "--to label-studio hands images to people who decide: leave out "
                "--auto, --copy and --link."
            )
        write_label_studio(run, place, images=images, budget=budget, **common)
        return
    for name, value in (("images", images), ("budget", budget)):
        if value is not None:
            raise UserError(f"--{name} goes with --to label-studio.")
    common |= {"auto": auto, "auto_remove": auto_remove, "link": "copy" if copy else link}
    apply_run(run, place, to=to, **common)


@app.command()
def decisions(
    run: RunArgument,
    file: Annotated[
        Path, typer.Option("--from", metavar="FILE", help="Label Studio's export, as JSON.")
    ],
    data_root: MovedTo = None,
) -> None:
    """Import decisions that people made in Label Studio; images are matched by id and file."""
    from josrc._console import Terminal
    from josrc.review.answers import import_answers

    import_answers(run, file, data_root=data_root, console=Terminal())


def verdict_lines(folder: Path, summary: Mapping[str, Any] | None) -> list[str]:
    """Lines about a run's audit: its verdicts, classes that look unlearned, and the report."""
    from josrc.verdicts.judge_run import unlearned_warning, verdict_line

    report = folder / "report.html"
    lines = [verdict_line(summary, folder), unlearned_warning(summary)] if summary else []
    annotators = folder / "annotators.csv"
    if annotators.is_file():
        lines.append(f"Annotators and their consensus: {annotators} and consensus.csv")
    lines.append(f"Report: {report}" if report.is_file() else None)
    if summary and summary["counts"]["clean"] < summary["samples"]:
        lines.append(
            f"Look at the images and decide: josrc review {shlex.quote(str(folder.parent))}"
        )
    return [line for line in lines if line]
