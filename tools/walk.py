"""How far one image walks through the code: from a folder to a corrected data set.

    python tools/walk.py [--src OTHER/src] [--list]

Trains on a folder of 24 small pictures, looks at one in the review, decides on it and applies the
decision, all in this process. The walk that docs/develop/architecture.md shows is checked: every
hop was made, in its order. It is counted, and so are all functions of josrc that were entered, each
once, by their first call: how many, in how many modules, and how often the next one lies in another
room (a package of josrc, or a module beside the packages).
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import json
import re
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "develop" / "architecture.md"


class Walk:
    """Remembers the functions of a package that were entered."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.hops: dict[tuple[str, str], None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """What ``sys.setprofile`` calls."""
        code = frame.f_code
        # The body of a class is entered once, when its module is imported, and is no function.
        written = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event != "call" or not written:
            return
        with suppress(ValueError):
            module = Path(code.co_filename).relative_to(self.package).with_suffix("")
            self.hops.setdefault((".".join(module.parts), code.co_qualname))


def main() -> None:
    """Follow the walk of the page, check it, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the folder of josrc")
    parser.add_argument("--list", action="store_true", help="name every function entered")
    options = parser.parse_args()
    sys.path.insert(0, str(options.src.resolve()))
    walk = Walk(options.src.resolve() / "josrc")
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(Path(folder)):
            traced(walk, command)
    if options.list:
        print("\n".join(f"{module}: {name}" for module, name in walk.hops))
    modules = [module for module, _ in walk.hops]
    print(f"All functions that are entered: {counts(modules)}")
    if options.src.resolve() == ROOT / "src":
        hops = re.findall(r"[a-z_]+(?:\.[A-Za-z_]+)+\*?", walk_of(PAGE))
        check(hops, walk)
        print(f"The walk of {PAGE.relative_to(ROOT)}: {counts([module_of(hop) for hop in hops])}")


def counts(modules: list[str]) -> str:
    """How far it is."""
    rooms = [module.partition(".")[0] for module in modules]
    changes = sum(one != next_one for one, next_one in pairwise(rooms))
    return f"{len(modules)} hops, {len(set(modules))} modules, {changes} changes of room"


def walk_of(page: Path) -> str:
    """The first block of code of a page."""
    return page.read_text(encoding="utf-8").split("```")[1].removeprefix("text")


def module_of(hop: str) -> str:
    """``data.readers`` of ``data.readers.read_table``; there is such a file."""
    parts = hop.rstrip("*").split(".")
    for end in range(len(parts), 0, -1):
        place = ROOT / "src" / "josrc" / "/".join(parts[:end])
        if place.with_suffix(".py").is_file() or (place / "__init__.py").is_file():
            return ".".join(parts[:end])
    raise SystemExit(f"{hop}: there is no such module.")


def check(hops: list[str], walk: Walk) -> None:
    """End with an error unless each hop was made, in this order; those on a GPU must exist."""
    entered = [f"{module.removesuffix('.__init__')}.{name}" for module, name in walk.hops]
    before, seen = -1, set[str]()
    for hop in hops:
        if hop.endswith("*"):
            module = importlib.import_module(f"josrc.{module_of(hop)}")
            name = hop.rstrip("*").removeprefix(f"{module_of(hop)}.")
            if not hasattr(module, name.partition(".")[0]):
                raise SystemExit(f"{hop}: there is no such thing.")
            continue
        place = next((i for i, e in enumerate(entered) if (e + ".").startswith(hop + ".")), None)
        if place is None:
            raise SystemExit(f"{hop} is not on the way.")
        # When a dataclass is made nobody sees, and what was entered before is not noted again.
        if hop in seen or hop.rpartition(".")[2][0].isupper():
            continue
        if place < before:
            raise SystemExit(f"{hop} comes before what the page puts before it.")
        before = place
        seen.add(hop)


def commands(folder: Path) -> list[Callable[[], object]]:
    """What a person does."""
    photos, run = folder / "photos", folder / "run"
    paint(photos)
    train = ["train", photos, "--epochs", "1", "--batch-size", "8", "--workers", "0"]
    train += ["--val", "0.25", "--device", "cpu", "--out", run]
    return [
        lambda: josrc(*train),
        lambda: review(run),
        lambda: josrc("apply", run, "--out", folder / "clean.csv"),
    ]


def paint(folder: Path) -> None:
    """24 pictures of two classes."""
    from PIL import Image

    for number in range(24):
        name = ("cat", "dog")[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (10 * number, 90, 90)).save(folder / name / f"{number}.png")


def josrc(*arguments: object) -> None:
    """A command."""
    try:
        from josrc.cli.main import main as run
    except ImportError:  # as it was laid out before
        from josrc.cli import main as run  # type: ignore[assignment]
    with suppress(SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        run([str(argument) for argument in arguments])


def review(run: Path) -> None:
    """Serve a review, look at an image and decide on it, and end it."""
    import uvicorn

    serve = uvicorn.Server.run

    def served(self: Any, sockets: Any = None) -> None:
        thread = threading.Thread(target=serve, args=(self, sockets))
        thread.start()
        address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        token = self.config.app.user_middleware[0].kwargs["token"]
        for path in ("/", "/api/about", "/api/queue", "/thumbnail/0", "/api/changes"):
            urllib.request.urlopen(f"{address}{path}?token={token}").read()
        asked = {"rows": [0], "action": "keep", "label": None}
        headers = {"Content-Type": "application/json", "Origin": address}
        decide = urllib.request.Request(
            f"{address}/api/decide?token={token}", json.dumps(asked).encode(), headers
        )
        urllib.request.urlopen(decide).read()
        self.should_exit = True
        thread.join()

    uvicorn.Server.run = served  # type: ignore[method-assign]
    josrc("review", run)


def traced(walk: Walk, command: Callable[[], object]) -> None:
    """Run something and follow it, whichever thread it takes."""
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        command()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


if __name__ == "__main__":
    main()
