"""Who may talk to a review."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reviewing import Client

Serving = Callable[[Path], tuple[Any, str]]


def test_the_token_opens_the_page_and_becomes_a_cookie(reviewed: Path, serving: Serving) -> None:
    address = serving(reviewed)[1]
    client = Client(address)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
    status, headers, content = client.ask("GET", f"/?token={client.token}", Cookie=None)
    assert status == 200
    assert b"<title>josrc review" in content
    assert {"HttpOnly", "SameSite=Strict"} <= set(headers["set-cookie"].split("; "))
    assert headers["set-cookie"].split("; ")[0] == client.headers["Cookie"]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "set-cookie" not in client.ask("GET", "/")[1]
    port = f":{int(client.host.split(':')[1]):04X}"
    listening = [
        line.split()[1]
        for family in ("tcp", "tcp6")
        for line in Path("/proc/net", family).read_text().splitlines()[1:]
        if line.split()[1].endswith(port) and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F{port}"], "127.0.0.1 alone"
