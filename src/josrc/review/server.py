"""``josrc review``: open a run and serve its review on this machine alone."""

from __future__ import annotations

import importlib.util
import secrets
import shlex
import socket
from pathlib import Path

from PIL import Image
from rich.console import Console

from josrc._console import say
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.review.carry_over import take_over
from josrc.review.decisions import Store
from josrc.review.images import ReviewImages
from josrc.runs.audit import NOT_THERE
from josrc.runs.resolve import load_run_config
from josrc.runs.snapshot import OpenRun, open_run

ADDRESS = "127.0.0.1"


def serve(
    path: Path,
    *,
    port: int = 0,
    decisions_of: Path | None = None,
    data_root: Path | None = None,
    browser: bool = False,
    console: Console,
) -> None:
    """Serve the review of a run until Ctrl-C.

    Args:
        path: the run folder.
        port: to listen on; 0: any that is free.
        decisions_of: an earlier run, whose decisions are taken over where there is none yet.
        data_root: where the data is now, if it has moved.
        browser: open the page in one.
        console: where the address is printed.
    """
    for library in ("starlette", "uvicorn"):
        if importlib.util.find_spec(library) is None:
            raise UserError(f"josrc review needs {library}: install josrc[review].")
    import uvicorn

    from josrc.review.app import Review, create_app

    folder = RunFolder(path)
    load_run_config(folder)  # says if this is no run
    if not (folder.audit / "index.sqlite").is_file():
        say(console, f"Reading {folder.audit / 'verdicts.csv'} ...")
    store = Store(folder.audit)
    try:
        opened = open_run(path, data_root=data_root)
        rows = sum(counts["samples"] for counts in store.progress().values())
        pictures = _pictures(opened, rows)
        if opened.changes:
            say(console, f"{opened.changes.told()} {NOT_THERE}")
        if decisions_of is not None:
            say(console, take_over(decisions_of, store, opened.source.closed_names))
        token = secrets.token_urlsafe(32)
        with _listening(port) as listening:
            port = listening.getsockname()[1]
            review = Review(folder.path, opened.source.closed_names, store, pictures)
            app = create_app(review, token, f"josrc-review-{port}")
            address = f"http://{ADDRESS}:{port}/?token={token}"
            say(console, f"Review of {path}: {address}\nEnd it with Ctrl-C.")
            if browser:
                _open(address)
            config = uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False, lifespan="off",
                ws="none", timeout_graceful_shutdown=2,
            )  # fmt: skip
            uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # this is how a review ends
    finally:
        decided = sum(counts["decided"] for counts in store.progress().values())
        store.close()
    name = shlex.quote(str(path))
    lines = [f"{decided:,} decisions are in {store.path}.", f"Go on: josrc review {name}"]
    if decided:
        lines.append(f"Write the corrected data: josrc apply {name} --out FILE.csv")
    say(console, "\n".join(lines))


def _pictures(opened: OpenRun, rows: int) -> ReviewImages:
    """The pictures of a run, by row of its verdicts. One that is gone has none, that is all."""
    opened.check_verdicts(rows)
    opened.check_images()

    def find(row: int) -> Image.Image:
        part, index = opened.source.at(row)
        return part.images.picture(index)

    return ReviewImages(rows, find, opened.folder.audit / "thumbnails")


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen()  # whoever opens the address at once waits, and is not turned away
    except OSError as error:
        listening.close()
        raise UserError(
            f"Port {port} can't be used: {error.strerror}. Name another --port."
        ) from None
    return listening


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
