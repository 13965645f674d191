"""``python -m battery``: run what is chosen of the battery, go on where it was stopped, and tell."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.update(
    OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="Agg"
)

from . import growth, record
from .cases import GOOD, Case, Result, chosen
from .child import preload
from .faults import disks, kills
from .hostile import GROUPS
from .judge import run_case
from .serving import load, requests, speed
from .world import World

# What runs by itself, and gives results.
OTHERS = {
    "review requests": requests.run,
    record.KILLS: kills.run,
    record.FAULTS: disks.run,
    record.REVIEW_KILLS: load.run,
    record.LATENCY: speed.run_latency,
    record.LOAD: speed.run_load,
    record.GROWTH: growth.run,
}


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser("battery", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the record and the world"
    )
    parser.add_argument("--groups", help="comma between them; all if none is named")
    parser.add_argument("--share", type=float, default=1.0, help="a fixed share: 0.1")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so many")
    parser.add_argument("--label", default="", help="what the figures are of: a commit")
    parser.add_argument(
        "--list", action="store_true", help="count the cases of hostile files, and run none"
    )
    parser.add_argument("--again", action="store_true", help="run those again that ended badly")
    parser.add_argument("--figures", action="store_true", help="only tell what is on record")
    return parser.parse_args()


def main() -> int:
    """Run, tell, and fail if a case is bad."""
    asked = arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * asked.minutes
    kept = record.Record(asked.out / "results.jsonl")
    if asked.again:
        kept.forget_bad()
    wanted = asked.groups.split(",") if asked.groups else [*GROUPS, *OTHERS]
    unknown = set(wanted) - {*GROUPS, *OTHERS}
    if unknown:
        sys.exit(
            f"no such group: {', '.join(sorted(unknown))}; there are {', '.join([*GROUPS, *OTHERS])}"
        )
    if not asked.figures:
        preload()
        world = World(asked.out.absolute() / "world")
        world.build()
        for result in _results(world, wanted, asked, kept, until):
            kept.add(result)
            if result.outcome not in GOOD:
                print(
                    f"{result.outcome}  {result.group}: {result.name}\n    {result.command}",
                    flush=True,
                )
    about = {"label": asked.label, "share": asked.share, "machine": machine()}
    print(record.write(asked.out, kept.results, about))
    return int(any(result.outcome not in GOOD for result in kept.results))


def machine() -> str:
    """What the figures were measured on."""
    import torch

    from josrc.engine.device import device_name

    return f"{os.cpu_count()} cores of {device_name(torch.device('cpu'))}"


def _results(
    world: World, wanted: list[str], asked: argparse.Namespace, kept: record.Record, until: float
) -> Iterator[Result]:
    """What has not been run yet, one after the other, as long as there is time."""
    done = kept.done
    for group in wanted:
        begun, count = time.monotonic(), 0
        if asked.list and group in OTHERS:
            continue
        if group in OTHERS:
            found: Iterator[Case | Result] = OTHERS[group](world, asked.share, done, until)
        else:
            found = GROUPS[group](world)
        for one in found:
            if isinstance(one, Case):
                if (one.group, one.name) in done or not chosen(one.group, one.name, asked.share):
                    continue
                if asked.list:
                    count += 1
                    continue
                one = run_case(one, world)
            count += 1
            yield one
            if time.monotonic() > until:
                print(f"out of time in {group}; run it again to go on", flush=True)
                return
        print(f"{group}: {count} in {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
