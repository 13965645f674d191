"""A case is run in a folder of its own, and its end is given a name."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from . import cases, watch
from .cases import Case, Result
from .child import Ended, command, execute
from .world import World

# A message is a sentence or two; a table of options is not what is meant.
LONGEST = 5000
# Where commands run: deep enough for "../../.." in a label to end where it is seen.
DEEP = ("a", "b", "c", "d")


def run_case(case: Case, world: World) -> Result:
    """Run a case and say how it ended."""
    top = world.scratch / "case"
    shutil.rmtree(top, ignore_errors=True)
    folder = top.joinpath(*DEEP)
    folder.mkdir(parents=True)
    try:
        case.prepare(folder)
        inside = os.path.relpath(folder, top)
        own = tuple(os.path.normpath(os.path.join(inside, name)) for name in case.own)
        own += tuple(f"{inside}.{name}" for name in ("stdout", "stderr"))
        before = watch.snapshot(top, own), watch.snapshot(world.data)
        ended = execute(
            case.arguments, folder, limit=case.limit, until=case.until,
            environment=world.environment(folder),
        )  # fmt: skip
        after = watch.snapshot(top, own), watch.snapshot(world.data)
    finally:
        make_removable(top)
    changed = [
        name for one, two in zip(before, after, strict=True) for name in watch.destroyed(one, two)
    ]
    new = [name for one, two in zip(before, after, strict=True) for name in watch.written(one, two)]
    outcome = name_outcome(ended, new, changed)
    message = ended.error.strip() or ended.out.strip()
    if outcome in (cases.OUTSIDE, cases.LOST, cases.EXECUTED):
        message = ", ".join([*new, *changed][:5]) + " | " + message
    shown = message if outcome not in cases.GOOD else message[-300:]
    return Result(
        case.group, case.name, outcome, round(ended.seconds, 2), round(ended.mebibytes),
        command(case.arguments), shown[-2000:].replace(str(world.root), "WORLD"),
    )  # fmt: skip


def name_outcome(ended: Ended, new: list[str], changed: list[str]) -> str:
    """How a command ended, by the worst that can be said of it."""
    if any("executed" in name for name in new):
        return cases.EXECUTED
    if changed:
        return cases.LOST
    if new:
        return cases.OUTSIDE
    if ended.stopped is not None:
        return cases.HANG if ended.stopped == "time" else cases.MEMORY
    text = ended.out + ended.error
    if "Traceback (most recent call last)" in text or ended.code == 1 or ended.code < 0:
        return cases.TRACEBACK
    if re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text):
        return cases.ESCAPE
    if ended.code not in (0, 2, 130, 143) or (ended.code == 2 and not text.strip()):
        return cases.CODE
    if ended.code == 2 and len(ended.error) > LONGEST:
        return cases.LONG
    return cases.CLEAR if ended.code == 2 else cases.ACCEPTED


def make_removable(top: Path) -> None:
    """Give back the right to delete what a case made."""
    for place, folders, _ in os.walk(top):
        for name in folders:
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(0o755)
