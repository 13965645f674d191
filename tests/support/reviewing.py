"""Decisions on a run and CSV files, as tests of the review use them."""

from __future__ import annotations

import csv
import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from josrc.review.decisions import Store

# A training that is soon over.
FAST = ["--epochs", "1", "--device", "cpu", "--method", "standard", "--batch-size", "8", "--quiet"]


class Client:
    """Speaks to a server as a browser would that has opened the printed address."""

    def __init__(self, address: str) -> None:
        found = urlsplit(address)
        self.host = found.netloc
        self.token = parse_qs(found.query)["token"][0]
        port = int(self.host.split(":")[1])
        self.headers = {
            "Host": self.host,
            "Cookie": f"josrc-review-{port}={self.token}",
            "Origin": f"http://{self.host}",
            "Content-Type": "application/json",
        }

    def ask(
        self, method: str, path: str, body: Any = None, **changes: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content; ``changes`` to headers, none leaves one out."""
        headers = self.headers | {k.replace("_", "-"): v for k, v in changes.items()}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        if content is not None:
            connection.putheader("Content-Length", str(len(content)))
        connection.endheaders()
        try:
            if content is not None:
                connection.send(content)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was said
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def decide(self, rows: list[int], action: str, **more: Any) -> tuple[int, Any]:
        """A decision."""
        asked = {"rows": rows, "action": action, **more}
        status, _, content = self.ask("POST", "/api/decide", asked)
        return status, json.loads(content) if status == 200 else content.decode()


def decide(run: Path, *steps: tuple[Any, ...]) -> None:
    """Take some steps, each with the arguments of ``Store.decide``."""
    store = Store(run / "audit")
    for step in steps:
        store.decide(*step)
    store.close()


def read(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def audit_summary(**changes: Any) -> dict[str, Any]:
    """A summary as an audit writes it, of 24 samples, but for some changes."""
    counts = {"clean": 12, "mislabelled": 12, "out_of_distribution": 0}
    return {"samples": 24, "counts": counts, "noise_rate": 0.5, "classes": []} | changes


def planted_summary(count: int) -> dict[str, Any]:
    """What planted errors say in it."""
    found = {"count": count, "found": count // 2}
    rates = {"noise_rate_low": 0.4, "noise_rate_high": 0.6}
    return {"planted": {**found, "any": found, "look_alike": found}, **rates}
