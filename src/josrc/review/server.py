"""``josrc review``: open a run and serve its review on this machine alone."""

from __future__ import annotations

import importlib.util
import secrets
import shlex
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from PIL import Image
from rich.console import Console

from josrc._console import say
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.review.budget import Budget, gone_rows
from josrc.review.carry_over import take_over
from josrc.review.decisions import StorageError, Store
from josrc.review.images import ReviewImages
from josrc.runs.audit import NOT_THERE
from josrc.runs.resolve import load_run_config
from josrc.runs.snapshot import OpenRun, open_run
from josrc.verdicts.table import verdicts_of

ADDRESS = "127.0.0.1"


class CtrlC:
    """Ctrl-C, which ends a review whenever it is pressed, with no error of what it falls into.

    Before a server serves, it raises ``KeyboardInterrupt``; where something swallows that, as an
    import may, it is raised again later. Then it tells the server.
    """

    def __init__(self) -> None:
        self._pressed = False
        self._server: Any = None

    def __enter__(self) -> Self:
        """Hear of it, in the main thread."""
        self._alone = threading.current_thread() is not threading.main_thread()
        if not self._alone:
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to others again."""
        if not self._alone:
            signal.signal(signal.SIGINT, self._before)

    def ends(self, server: Any) -> None:
        """End this server by it from now on."""
        self._server = server
        if self._pressed:
            raise KeyboardInterrupt

    def _press(self, *_: object) -> None:
        self._pressed = True
        if self._server is None:
            raise KeyboardInterrupt
        self._server.should_exit = True


def serve(
    path: Path,
    *,
    port: int = 0,
    budget: int | None = None,
    decisions_of: Path | None = None,
    data_root: Path | None = None,
    browser: bool = False,
    console: Console,
) -> None:
    """Serve the review of a run until Ctrl-C.

    Args:
        path: the run folder.
        port: to listen on; 0: any that is free.
        budget: how many looks there is time for; their images come first.
        decisions_of: an earlier run, whose decisions are taken over where there is none yet.
        data_root: where the data is now, if it has moved.
        browser: open the page in one.
        console: where the address is printed.
    """
    for library in ("starlette", "uvicorn"):
        if importlib.util.find_spec(library) is None:
            raise UserError(f"josrc review needs {library}: install josrc[review].")
    with CtrlC() as stop:
        _serve(path, port, budget, decisions_of, data_root, browser, console, stop)


def _serve(
    path: Path,
    port: int,
    budget: int | None,
    decisions_of: Path | None,
    data_root: Path | None,
    browser: bool,
    console: Console,
    stop: CtrlC,
) -> None:
    import uvicorn

    from josrc.review.app import Review, create_app

    folder = RunFolder(path)
    load_run_config(folder)  # says if this is not a run
    if not (folder.audit / "index.sqlite").is_file():
        say(console, f"Reading {verdicts_of(folder.audit)} ...")
    store, looks, decided = Store(folder.audit), None, 0
    try:
        opened = open_run(path, data_root=data_root)
        rows = sum(counts["samples"] for counts in store.progress().values())
        pictures = _pictures(opened, rows)
        if opened.changes:
            say(console, f"{opened.changes.describe()} {NOT_THERE}")
        if decisions_of is not None:
            say(console, take_over(decisions_of, store, opened.source.closed_names))
        looks = None if budget is None else Budget(store, budget, gone_rows(opened))
        if looks is not None:
            say(console, looks.begun())
        token = secrets.token_urlsafe(32)
        with _listening(port) as listening:
            port = listening.getsockname()[1]
            classes = opened.source.closed_names
            review = Review(folder.path, classes, store, pictures, looks)
            app = create_app(review, token, f"josrc-review-{port}")
            address = f"http://{ADDRESS}:{port}/?token={token}"
            config = uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False, lifespan="off",
                ws="none", timeout_graceful_shutdown=2,
            )  # fmt: skip
            server = uvicorn.Server(config)
            stop.ends(server)
            say(console, f"Review of {path}: {address}\nStop it with Ctrl-C.")
            if browser:
                _open(address)
            server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # this is how a review ends
    finally:
        ended: list[str] = []
        with suppress(StorageError):
            decided = sum(counts["decided"] for counts in store.progress().values())
            ended += [looks.ending()] if looks is not None else []
        store.close()
    name = shlex.quote(str(path))
    again = f"josrc review {name}" + (f" --budget {budget}" if budget else "")
    lines = [*ended, f"{decided:,} decisions are in {store.path}.", f"Continue: {again}"]
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
    # asyncio spares answers their 40 ms of waiting (TCP_NODELAY) only where TCP is named.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
