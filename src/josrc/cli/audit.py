"""Commands around the verdicts on a run: audit, report, review and apply."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from josrc.cli._options import MovedTo, RunArgument
from josrc.errors import UserError

app = typer.Typer()

DecisionsOf = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="Take over decisions on an earlier run, by samples' ids."),
]


@app.command()
def audit(
    run: RunArgument,
    noise_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of wrong labels, if you know it: 0.05, say."),
    ] = None,
    ood_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of images of no class, if you know it: 0 for none."),
    ] = None,
    data_root: MovedTo = None,
) -> None:
    """Write a verdict on every sample of a run, and the report, into its folder audit."""
    from josrc._console import Terminal, say
    from josrc.runs.audit import audit as audit_run

    tell = partial(say, Terminal())
    summary = audit_run(
        run, noise_rate=noise_rate, ood_rate=ood_rate, data_root=data_root, tell=tell
    )
    folder = run / "audit"
    tell("\n".join(verdict_lines(folder, summary)))


@app.command()
def report(run: RunArgument, data_root: MovedTo = None) -> None:
    """Write the report of a run again: audit/report.html, one file that opens in any browser."""
    from josrc._console import Terminal, say
    from josrc.runs.audit import report as write_report

    tell = partial(say, Terminal())
    path = write_report(run, data_root=data_root, tell=tell)
    tell(f"Report: {path} ({path.stat().st_size / 1e6:.1f} MB)")


@app.command()
def review(
    run: RunArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    decisions_of: DecisionsOf = None,
    data_root: MovedTo = None,
) -> None:
    """Look at the verdicts on a run in a browser, and decide: a page on this machine alone."""
    from josrc._console import Terminal
    from josrc.review.server import serve

    serve(
        run,
        port=port,
        decisions_of=decisions_of,
        data_root=data_root,
        browser=browser,
        console=Terminal(),
    )


@app.command("apply")
def apply_command(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="A CSV; with --copy or --link a folder.")],
    auto: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Also follow verdicts that are at least this sure."),
    ] = None,
    auto_remove: Annotated[
        bool, typer.Option(help="May --auto remove images too, or only relabel them?")
    ] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Write a folder of copied images.")] = False,
    link: Annotated[
        Literal["hard", "sym"] | None, typer.Option(help="Write a folder of links to the images.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace what apply wrote before.")] = False,
    decisions_of: DecisionsOf = None,
    data_root: MovedTo = None,
) -> None:
    """Write the corrected data set: from decisions, and with --auto from verdicts."""
    from josrc._console import Terminal
    from josrc.review.apply import apply_run

    if copy and link:
        raise UserError("Copies or links: give --copy or --link, not both.")
    apply_run(
        run,
        out,
        auto=auto,
        auto_remove=auto_remove,
        link="copy" if copy else link,
        overwrite=overwrite,
        decisions_of=decisions_of,
        data_root=data_root,
        console=Terminal(),
    )


def verdict_lines(folder: Path, summary: Mapping[str, Any] | None) -> list[str]:
    """What is told of a run's audit: its verdicts, classes that look unlearned, and the report."""
    from josrc.verdicts.judge_run import unlearned_warning, verdict_line

    report = folder / "report.html"
    lines = [verdict_line(summary, folder), unlearned_warning(summary)] if summary else []
    lines.append(f"Report: {report}" if report.is_file() else None)
    if summary and summary["counts"]["clean"] < summary["samples"]:
        lines.append(
            f"Look at the images and decide: josrc review {shlex.quote(str(folder.parent))}"
        )
    return [line for line in lines if line]
