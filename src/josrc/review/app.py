"""What the review answers: a page, the queue, pictures, and decisions."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from josrc._reading import parse_json
from josrc.data.decode import UnreadableImageError
from josrc.errors import UserError
from josrc.review.budget import Budget
from josrc.review.decisions import Action, RefusedError, StorageError, Store
from josrc.review.guard import Guard
from josrc.review.images import ReviewImages
from josrc.review.queues import Entry, Filter

PAGE = Path(__file__).parent / "page"
NAMES = ("review.js", "decide.js", "keys.js", "review.css", "icon.svg")
FILES = {"/": "index.html"} | {f"/{name}": name for name in NAMES}
# Bytes of a request, samples of a page, and samples that one step decides.
MAX_REQUEST_BYTES, MAX_PAGE_SAMPLES, MAX_ROWS = 64 * 1024, 200, 2000
# Digits of a number that is looked at.
MAX_DIGITS = 20


class Review:
    """The answers, each to one kind of request."""

    def __init__(
        self,
        run: Path,
        classes: list[str],
        store: Store,
        pictures: ReviewImages,
        budget: Budget | None = None,
    ) -> None:
        self.run, self.classes, self.store, self.pictures = run, classes, store, pictures
        self.budget = budget

    def about(self, request: Request) -> Response:
        """What does not change while the page is open."""
        flagged = dict(self.store.classes())
        classes = [{"name": name, "flagged": flagged.get(name, 0)} for name in self.classes]
        run = self.run.absolute()  # a command is copied to any terminal
        path = shlex.quote(str(run))
        audit, apply = f"josrc audit {path}", f"josrc apply {path} --out FILE.csv"
        about: dict[str, Any] = {
            "name": run.name,
            "audit": audit,
            "apply": apply,
            "classes": classes,
        }
        about["disagreements"] = self.store.disagreements()
        if self.budget is not None:
            more = f"josrc review {path} --budget {self.budget.looks}"
            about["budget"] = {"copies": self.budget.copies(), "more": more}
        return JSONResponse(about)

    def budget_end(self, request: Request) -> Response:
        """What the looks of a budget have brought, and what is left after them."""
        if self.budget is None:
            return PlainTextResponse("This review has no budget.", 404)
        return JSONResponse({"text": self.budget.ending()})

    def queue(self, request: Request) -> Response:
        """Samples behind a place in the queue, and the number of the latest change before."""
        asked = request.query_params
        chosen = Filter(**{key: asked.get(key, "") for key in Filter.__dataclass_fields__})
        # First the number: a change in between is reported twice rather than never.
        latest = self.store.latest()
        limit = min(max(_number(asked.get("limit", "60")), 0), MAX_PAGE_SAMPLES)
        samples = self.store.page(chosen, _number(asked.get("after", "-1")), limit)
        return JSONResponse({"latest": latest, "samples": samples})

    def changes(self, request: Request) -> Response:
        """What was decided since, in this tab or another, and how much is left."""
        verdicts = self._refreshed()
        since = _number(request.query_params.get("since", "0"))
        changes = self.store.changes(since)
        latest = changes[-1][0] if changes else since
        rows = [{"row": row, "outcome": o, "label": label} for _, row, o, label in changes]
        counts = self.store.progress(request.query_params.get("given", ""))
        progress = {**counts, "spot_check": self.store.spot_check()}
        if self.budget is not None:
            progress["budget"] = self.budget.progress()
        found = {"latest": latest, "changes": rows, "progress": progress, "verdicts": verdicts}
        return JSONResponse(found)

    def _refreshed(self) -> int:
        """Which verdicts are looked at: josrc audit may have written new ones."""
        try:
            before, verdicts = self.store.verdicts, self.store.refresh()
            if self.budget is not None and verdicts != before:
                self.budget.plan()
            return verdicts
        except UserError:  # those that there are serve until new ones can be read
            return self.store.verdicts

    def thumbnail(self, request: Request) -> Response:
        """A small picture."""
        return self._picture(request, self.pictures.thumbnail)

    def image(self, request: Request) -> Response:
        """A large picture."""
        return self._picture(request, self.pictures.large)

    def _picture(self, request: Request, make: Callable[[int], bytes]) -> Response:
        text = request.path_params["row"]
        # Python converts no number of thousands of digits.
        number = text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS
        row = int(text) if number else len(self.pictures)
        if row >= len(self.pictures):
            return PlainTextResponse("There is no such sample.", 404)
        try:
            return Response(make(row), media_type="image/webp")
        except UnreadableImageError as error:
            return PlainTextResponse(f"No picture: {error}", 404)

    async def decide(self, request: Request) -> Response:
        """Decide on some samples. The answer comes when it is on disk."""
        asked = await _asked(request)
        rows, action, label = (asked.get(key) for key in ("rows", "action", "label"))
        seen, copies = asked.get("verdicts"), asked.get("copies", [])
        if not isinstance(rows, list) or not 0 < len(rows) <= MAX_ROWS:
            raise HTTPException(400, f"rows: 1 to {MAX_ROWS} numbers are expected.")
        if not isinstance(copies, list) or len(copies) > MAX_ROWS or (copies and len(rows) > 1):
            raise HTTPException(400, "copies: numbers are expected, for a single row.")
        if any(type(n) is not int or not 0 <= n < len(self.pictures) for n in rows + copies):
            raise HTTPException(404, "There is no such sample.")
        if action not in get_args(Action):
            raise HTTPException(400, f"action: one of {', '.join(get_args(Action))} is expected.")
        if action == "label" and label not in self.classes:
            raise HTTPException(400, "label: there is no such class.")
        if seen is not None and type(seen) is not int:
            raise HTTPException(400, "verdicts: a number is expected.")
        decide = partial(self.store.decide, rows, cast(Action, action), label, seen, copies)
        return await self._stored(decide)

    async def undo(self, request: Request) -> Response:
        """Take the latest step back."""
        await _asked(request)
        return await self._stored(self.store.undo)

    async def _stored(self, change: Callable[[], list[Entry]]) -> Response:
        try:
            return JSONResponse({"changes": await run_in_threadpool(change)})
        except RefusedError as error:
            raise HTTPException(409, str(error)) from None


def create_app(review: Review, token: str, cookie: str) -> Starlette:
    """The whole of it, behind its guard."""

    def file(request: Request) -> Response:
        return FileResponse(PAGE / FILES[request.url.path])

    return Starlette(
        routes=[
            *(Route(path, file) for path in FILES),
            Route("/api/about", review.about),
            Route("/api/queue", review.queue),
            Route("/api/changes", review.changes),
            Route("/api/budget", review.budget_end),
            Route("/api/decide", review.decide, methods=["POST"]),
            Route("/api/undo", review.undo, methods=["POST"]),
            Route("/thumbnail/{row}", review.thumbnail),
            Route("/image/{row}", review.image),
        ],
        exception_handlers={StorageError: _not_stored},
        middleware=[Middleware(Guard, token=token, cookie=cookie)],
    )


def _not_stored(request: Request, error: Exception) -> Response:
    """The files of the review fail: a full disk, a lock, a file that is gone."""
    return PlainTextResponse(str(error), 503)


async def _asked(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries, if it is one and not too long."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_REQUEST_BYTES:
            raise HTTPException(413, "The request is too long.")
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "JSON is expected.")
    try:
        asked = parse_json(bytes(content))
    except ValueError:
        raise HTTPException(400, "This is not JSON.") from None
    if not isinstance(asked, dict):
        raise HTTPException(400, "An object is expected.")
    return asked


def _number(text: str) -> int:
    try:
        number = int(text)  # not of thousands of digits either
    except ValueError:
        raise HTTPException(400, "A number is expected.") from None
    if not -1 <= number < 2**62:
        raise HTTPException(400, "This number is out of range.")
    return number
