"""What the review answers: a page, the queue, pictures, and decisions."""

from __future__ import annotations

import json
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

from josrc.data.decode import UnreadableImageError
from josrc.errors import UserError
from josrc.review.decisions import Action, Entry, Filter, RefusedError, Store
from josrc.review.guard import Guard
from josrc.review.images import ReviewImages

PAGE = Path(__file__).parent / "page"
NAMES = ("review.js", "decide.js", "keys.js", "review.css", "icon.svg")
FILES = {"/": "index.html"} | {f"/{name}": name for name in NAMES}
# Bytes of a request, samples of a page, and samples that one step decides.
LONGEST_REQUEST, LARGEST_PAGE, MOST_ROWS = 64 * 1024, 200, 2000


class Review:
    """The answers, each to one kind of request."""

    def __init__(self, run: Path, classes: list[str], store: Store, pictures: ReviewImages) -> None:
        self.run, self.classes, self.store, self.pictures = run, classes, store, pictures

    def about(self, request: Request) -> Response:
        """What does not change while the page is open."""
        flagged = dict(self.store.classes())
        classes = [{"name": name, "flagged": flagged.get(name, 0)} for name in self.classes]
        run = self.run.absolute()  # a command is copied to any terminal
        path = shlex.quote(str(run))
        audit, apply = f"josrc audit {path}", f"josrc apply {path} --out FILE.csv"
        about = {"name": run.name, "audit": audit, "apply": apply, "classes": classes}
        return JSONResponse(about)

    def queue(self, request: Request) -> Response:
        """Samples behind a place in the queue, and the number of the latest change before."""
        asked = request.query_params
        chosen = Filter(**{key: asked.get(key, "") for key in Filter.__dataclass_fields__})
        # First the number: a change in between is told twice rather than never.
        latest = self.store.latest()
        limit = min(_number(asked.get("limit", "60")), LARGEST_PAGE)
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
        found = {"latest": latest, "changes": rows, "progress": progress, "verdicts": verdicts}
        return JSONResponse(found)

    def _refreshed(self) -> int:
        """Which verdicts are looked at: josrc audit may have written new ones."""
        try:
            return self.store.refresh()
        except UserError:  # those that there are serve until new ones can be read
            return self.store.verdicts

    def thumbnail(self, request: Request) -> Response:
        """A small picture."""
        return self._picture(request, self.pictures.thumbnail)

    def image(self, request: Request) -> Response:
        """A large picture."""
        return self._picture(request, self.pictures.large)

    def _picture(self, request: Request, make: Callable[[int], bytes]) -> Response:
        row = int(request.path_params["row"])
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
        seen = asked.get("verdicts")
        if not isinstance(rows, list) or not 0 < len(rows) <= MOST_ROWS:
            raise HTTPException(400, f"rows: 1 to {MOST_ROWS} numbers are expected.")
        if any(type(row) is not int or not 0 <= row < len(self.pictures) for row in rows):
            raise HTTPException(404, "There is no such sample.")
        if action not in get_args(Action):
            raise HTTPException(400, f"action: one of {', '.join(get_args(Action))} is expected.")
        if action == "label" and label not in self.classes:
            raise HTTPException(400, "label: there is no such class.")
        if seen is not None and type(seen) is not int:
            raise HTTPException(400, "verdicts: a number is expected.")
        decide = partial(self.store.decide, rows, cast(Action, action), label, seen)
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
            Route("/api/decide", review.decide, methods=["POST"]),
            Route("/api/undo", review.undo, methods=["POST"]),
            Route("/thumbnail/{row:int}", review.thumbnail),
            Route("/image/{row:int}", review.image),
        ],
        middleware=[Middleware(Guard, token=token, cookie=cookie)],
    )


async def _asked(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries, if it is one and not too long."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LONGEST_REQUEST:
            raise HTTPException(413, "The request is too long.")
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "JSON is expected.")
    try:
        asked = json.loads(content)
    except ValueError:
        raise HTTPException(400, "This is not JSON.") from None
    if not isinstance(asked, dict):
        raise HTTPException(400, "An object is expected.")
    return asked


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise HTTPException(400, "A number is expected.") from None
    if not -1 <= number < 2**62:
        raise HTTPException(400, "This number is out of range.")
    return number
