"""The command that runs many trainings as one plan: sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from josrc.cli._options import Address, Cpus

app = typer.Typer()


@app.command()
def sweep(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="See docs/use/scale.md.")],
    address: Address = None,
    cpus: Cpus = None,
    out: Annotated[Path | None, typer.Option(help="Sweep folder; default: runs/PLAN.")] = None,
) -> None:
    """Train many runs with different settings and seeds, on Ray.

    Repeat the command to continue a sweep that was stopped.

    josrc sweep PLAN.yaml --out SWEEP
    """
    from josrc._console import Terminal
    from josrc.sweep.engine import sweep as run_sweep

    run_sweep(plan, out, Terminal(), address=address, cpus=cpus)
