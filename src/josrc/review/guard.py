"""Who may talk to the review: the browser of the person who started it, and nobody else.

Every program and every web page on this machine can reach a port on loopback. So each request must
carry the token of the printed address (afterwards a cookie that only this site gets), must be meant
for loopback (a foreign name that resolves to 127.0.0.1 is refused), and must not come from another
site's page.
"""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing else: neither a user before the host, nor anything behind the port.
HOST = re.compile(r"(127\.0\.0\.1|localhost):[0-9]{1,5}")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses what does not come from the right browser, and puts safe headers on every answer."""

    def __init__(self, app: ASGIApp, token: str, cookie: str) -> None:
        self.app, self.token, self.cookie = app, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        refused = self.refusal(request)
        key = request.query_params.get("token")

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if key is not None and refused is None:
                    headers.append(
                        "Set-Cookie", f"{self.cookie}={key}; HttpOnly; SameSite=Strict; Path=/"
                    )
            await send(message)

        await (refused or self.app)(scope, receive, send_safely)

    def refusal(self, request: Request) -> Response | None:
        """What is answered to a request that is refused; none for one that is not."""
        host = request.headers.get("host", "")
        if HOST.fullmatch(host) is None:
            return PlainTextResponse("This address does not belong to this machine.", 421)
        origin = request.headers.get("origin")
        wanted = origin is not None or request.method not in ("GET", "HEAD")
        if wanted and origin != f"http://{host}":
            return PlainTextResponse("This request comes from another site.", 403)
        key = request.query_params.get("token", request.cookies.get(self.cookie, ""))
        if not secrets.compare_digest(key.encode(), self.token.encode()):
            return PlainTextResponse("Open the address that josrc review printed.", 403)
        return None
