"""How quickly the review answers: one client on a kept connection, and two hundred at once."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator

from ..cases import ACCEPTED, CODE, Result
from ..child import measure
from ..record import LATENCY, LOAD
from ..world import World
from .server import MANY, Client, Server, large_run

REQUESTS, CLIENTS, SECONDS = 300, 200, 20


def run_latency(
    world: World, share: float, done: set[tuple[str, str]], until: float
) -> Iterator[Result]:
    """Milliseconds per request, after each kind was asked once for every sample that is asked for."""
    name = "one client, milliseconds"
    if (LATENCY, name) in done or time.monotonic() > until:
        return
    server = Server(world, large_run(world), "latency")
    server.start()
    client = Client(server)
    kinds: dict[str, Callable[[int], tuple[int, bytes]]] = {
        "thumbnail": lambda n: client.get(f"/thumbnail/{n % 60}"),
        "queue": lambda n: client.get("/api/queue?verdict=mislabelled"),
        "changes": lambda n: client.get("/api/changes?since=0"),
        "decide": lambda n: client.post("/api/decide", {"rows": [n % MANY], "action": "keep"}),
    }
    figures, bad = {}, 0
    for title, ask in kinds.items():
        for number in range(60):
            ask(number)
        times = []
        for number in range(round(REQUESTS * min(1, share * 5))):
            begun = time.perf_counter()
            status, _ = ask(number)
            times.append(1000 * (time.perf_counter() - begun))
            bad += status != 200
        figures[f"{title}_median"] = round(statistics.median(times), 2)
    server.end()
    figures["other_answers"] = bad
    yield Result(LATENCY, name, CODE if bad else ACCEPTED, figures=figures)


def run_load(
    world: World, share: float, done: set[tuple[str, str]], until: float
) -> Iterator[Result]:
    """Answers per second to 200 clients that each ask again as soon as they are answered."""
    name = "200 clients"
    if (LOAD, name) in done or time.monotonic() > until:
        return
    server = Server(world, large_run(world), "load")
    server.start()
    seconds = SECONDS * max(0.2, share)
    found = measure(lambda: asyncio.run(_crowd(server, seconds)))
    alive = server.alive()
    server.end()
    figures = {
        "answers_per_second": round(found["answers"] / seconds),
        "other_answers": found["bad"],
    }
    yield Result(LOAD, name, ACCEPTED if alive and not found["bad"] else CODE, figures=figures)


async def _crowd(server: Server, seconds: float) -> dict[str, int]:
    counts = {"answers": 0, "bad": 0}
    until = time.monotonic() + seconds
    await asyncio.gather(*(_visit(server, number, until, counts) for number in range(CLIENTS)))
    return counts


async def _visit(server: Server, number: int, until: float, counts: dict[str, int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    turn = number
    while time.monotonic() < until:
        turn += 1
        writer.write(_request(server, turn))
        status = int((await reader.readline()).split()[1])
        length = 0
        while (line := await reader.readline()).strip():
            key, _, value = line.decode("latin-1").partition(":")
            length = int(value) if key.lower() == "content-length" else length
        await reader.readexactly(length)
        counts["answers"] += time.monotonic() < until
        counts["bad"] += status != 200
    writer.close()


def _request(server: Server, turn: int) -> bytes:
    """By turns: a decision, the queue, a search, a thumbnail, and what has changed."""
    kind, body = turn % 5, b""
    paths = (
        "/api/decide?",
        "/api/queue?",
        "/api/queue?search=cat&",
        f"/thumbnail/{turn % MANY}?",
        "/api/changes?since=0&",
    )
    if kind == 0:
        body = json.dumps({"rows": [turn % MANY], "action": "keep"}).encode()
    host = f"127.0.0.1:{server.port}"
    lines = [
        f"{'POST' if body else 'GET'} {paths[kind]}token={server.token} HTTP/1.1", f"Host: {host}", f"Origin: http://{host}",
        "Content-Type: application/json", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode() + body
