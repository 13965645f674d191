"""Requests that nobody's page sends: foreign hosts and sites, no token, bodies that are none."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator

from ..cases import ACCEPTED, CLEAR, HANG, TRACEBACK, Result, chosen
from ..world import World
from .server import Server

GROUP = "review requests"
LET_IN = "LET-IN"
HOSTS = (
    "evil.example", "evil.example:PORT", "127.0.0.1.evil.example:PORT", "[::1]:PORT", "0.0.0.0:PORT", "127.1:PORT",
    "evil@127.0.0.1:PORT", "127.0.0.1:PORT@evil", "127.0.0.1:PORT, evil", "", "2130706433:PORT", "localhost.evil:PORT",
)  # fmt: skip
ORIGINS = (
    None,
    "null",
    "http://evil.example",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:1",
    "http://127.0.0.1:PORT.evil",
)
PATHS = (
    "/thumbnail/9999", "/thumbnail/-1", "/thumbnail/" + "9" * 5000, "/thumbnail/0x1", "/thumbnail/1e1", "/thumbnail/%D9%A3",
    "/thumbnail/../../../../etc/passwd", "/thumbnail/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/thumbnail/0%00", "/image/9999", "/image/" + "9" * 30,
    "//etc/passwd", "/../decisions.py", "/page/index.html", "/static/../app.py", "/api/queue?limit=-1", "/api/queue?limit=0",
    "/api/queue?limit=99999999", "/api/queue?limit=abc", "/api/queue?limit=" + "9" * 5000, "/api/queue?after=-5", "/api/queue?after=1e3",
    "/api/queue?after=" + "9" * 40, "/api/queue?verdict='%20OR%201=1--", "/api/queue?verdict=nothing", "/api/queue?search=%25%5F%5C",
    "/api/queue?search=" + "x" * 60_000, "/api/queue?search=%00", "/api/queue?search=%ff", "/api/queue?state=%22", "/api/queue?given=%27;DROP%20TABLE%20sample",
    "/api/changes?since=-1", "/api/changes?since=" + "9" * 30, "/api/changes?given=%00", "/api/nothing", "/api/about?x=" + "y" * 30_000,
)  # fmt: skip
BODIES: dict[str, bytes] = {
    "empty": b"", "text": b"hello", "null": b"null", "list": b"[]", "deep": b"[" * 30_000, "deep object": b'{"a":' * 10_000, "utf-16": "{}".encode("utf-16"),
    "bad utf-8": b'{"rows": "\xff"}', "rows text": b'{"rows":"1","action":"keep"}', "rows bool": b'{"rows":[true],"action":"keep"}', "rows float": b'{"rows":[1.5],"action":"keep"}',
    "rows negative": b'{"rows":[-1],"action":"keep"}', "rows huge": b'{"rows":[1e400],"action":"keep"}', "rows digits": b'{"rows":[' + b"9" * 5000 + b'],"action":"keep"}',
    "rows nested": b'{"rows":[[0]],"action":"keep"}', "rows many": json.dumps({"rows": [0] * 2001, "action": "keep"}).encode(), "no action": b'{"rows":[0]}',
    "action list": b'{"rows":[0],"action":["keep"]}', "action other": b'{"rows":[0],"action":"burn"}', "label unknown": b'{"rows":[0],"action":"label","label":"wolf"}',
    "label up": b'{"rows":[0],"action":"label","label":"../../x"}', "label list": b'{"rows":[0],"action":"label","label":["cat"]}', "label object": b'{"rows":[0],"action":"label","label":{}}',
    "label surrogate": b'{"rows":[0],"action":"label","label":"\\ud800"}', "label NUL": b'{"rows":[0],"action":"label","label":"cat\\u0000"}', "verdicts text": b'{"rows":[0],"action":"keep","verdicts":"1"}',
    "verdicts old": b'{"rows":[0],"action":"keep","verdicts":-7}', "verdicts huge": b'{"rows":[0],"action":"keep","verdicts":1e999}', "doubled": b'{"rows":[0],"rows":[9999],"action":"keep"}', "70 kB": b'{"rows":[0],"action":"' + b"x" * 70_000 + b'"}',
}  # fmt: skip
# By title: the request (method, path, headers, body), and which answers are right.
Requests = dict[str, tuple[str, str, dict[str, str | None], bytes, set[int]]]
REFUSED = set(range(400, 500))


def run(world: World, share: float, done: set[tuple[str, str]], until: float) -> Iterator[Result]:
    """Each request to one server, which answers a good one afterwards."""
    wanted = {
        title: one for title, one in _requests().items()
        if (GROUP, title) not in done and chosen(GROUP, title, share)
    }  # fmt: skip
    if not wanted or time.monotonic() > until:
        return
    server = Server(world, world.run, "requests")
    server.start()
    for title, (method, path, headers, body, right) in wanted.items():
        begun = time.monotonic()
        status = ask(server, method, path, headers, body)
        outcome = CLEAR if status >= 400 else ACCEPTED
        if status >= 500 or status == 0 or ask(server, "GET", "/api/about", {}, b"") != 200:
            outcome = TRACEBACK if status else HANG
        elif status not in right:
            outcome = LET_IN
        seconds = round(time.monotonic() - begun, 2)
        yield Result(
            GROUP, title, outcome, seconds, 0, f"{method} {path[:100]}", f"answer {status}"
        )
    raw = server.errors()
    server.end()
    shutil.rmtree(server.folder)
    outcome = TRACEBACK if "Traceback" in raw else ACCEPTED
    if (GROUP, "errors of the server") not in done:
        yield Result(GROUP, "errors of the server", outcome, message=raw[-1500:])


def _requests() -> Requests:
    made: Requests = {}
    for host in HOSTS:
        made[f"host {host!r}"] = ("GET", "/api/about", {"Host": host}, b"", REFUSED)
    for origin in ORIGINS:
        made[f"decide from {origin}"] = (
            "POST",
            "/api/decide",
            {"Origin": origin},
            b'{"rows":[0],"action":"keep"}',
            REFUSED,
        )
        if origin is not None:
            made[f"look from {origin}"] = ("GET", "/api/queue", {"Origin": origin}, b"", REFUSED)
    for token in ("", "x", "%ff", "TOKE", "%00"):
        made[f"token {token!r}"] = ("GET", "/api/about", {"token": token}, b"", {403, 400})
        made[f"decide with token {token!r}"] = (
            "POST",
            "/api/decide",
            {"token": token},
            b'{"rows":[0],"action":"keep"}',
            {403, 400},
        )
    for path in PATHS:
        made[f"path {path[:60]}"] = ("GET", path, {}, b"", {200, 307} | REFUSED)
    for title, body in BODIES.items():
        right = {200, *REFUSED} if title in ("doubled", "utf-16") else REFUSED
        made[f"body {title}"] = ("POST", "/api/decide", {}, body, right)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        made[f"decide as {kind}"] = (
            "POST",
            "/api/decide",
            {"Content-Type": kind},
            b'{"rows":[0],"action":"keep"}',
            REFUSED,
        )
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "X" * 200):
        made[f"method {method[:20]}"] = (method, "/api/decide", {}, b"", REFUSED)
    made["decide by GET"] = ("GET", "/api/decide", {}, b"", REFUSED)
    made["a header of 500 kB"] = ("GET", "/api/about", {"X": "y" * 500_000}, b"", REFUSED)
    made["two lengths"] = (
        "POST",
        "/api/decide",
        {"Transfer-Encoding": "chunked"},
        b"0\r\n\r\n",
        REFUSED,
    )
    return made


def ask(server: Server, method: str, path: str, headers: dict[str, str | None], body: bytes) -> int:
    """The status of an answer to a request of exactly these bytes; 0 for none within 10 s."""
    here = f"127.0.0.1:{server.port}"
    token = headers.get("token", server.token)
    sent = {
        "Host": here,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    if method not in ("GET", "HEAD"):
        sent["Origin"] = f"http://{here}"
    for name, value in headers.items():
        sent.pop(name, None)
        if value is not None and name != "token":
            sent[name] = value.replace("PORT", str(server.port))
    mark = "&" if "?" in path else "?"
    lines = [
        f"{method} {path}{mark}token={token} HTTP/1.1",
        *(f"{k}: {v}" for k, v in sent.items()),
        "",
        "",
    ]
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        try:
            connection.sendall("\r\n".join(lines).encode("latin-1") + body)
            answer = connection.recv(65536)
            return int(answer.split(b" ", 2)[1])
        except (OSError, IndexError, ValueError):
            return 0
