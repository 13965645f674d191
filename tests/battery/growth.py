"""What one process keeps as it goes on: memory, open files and threads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from .cases import ACCEPTED, CODE, Result
from .child import measure, resident
from .record import GROWTH
from .serving.server import MANY, Client, Server, large_run
from .world import World

RUNS, REQUESTS = 50, 1000
# MiB that a process may gain between its fifth run and its last, or its 100th request and its last.
MOST = 64


def run(world: World, share: float, done: set[tuple[str, str]], until: float) -> Iterator[Result]:
    """50 trainings in one process, and 1,000 requests to one server; fewer for a share."""
    runs, requests = max(8, round(RUNS * share)), max(300, round(REQUESTS * share))
    for name, look in (
        (f"{runs} runs", lambda: measure(lambda: _train(world, runs))),
        (f"{requests} requests", lambda: _serve(world, requests)),
    ):
        if (GROWTH, name) in done or time.monotonic() > until:
            continue
        early, late = look()
        gained = {key: late[key] - early[key] for key in late}
        good = gained["mebibytes"] <= MOST and gained["files"] <= 0 and gained["threads"] <= 1
        figures = {f"{key}_gained": value for key, value in gained.items()}
        yield Result(GROWTH, name, ACCEPTED if good else CODE, figures=figures)


def _now() -> dict[str, int]:
    fds, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    return {"mebibytes": round(resident(os.getpid())), "files": fds, "threads": threads}


def _train(world: World, runs: int) -> list[dict[str, int]]:
    import josrc

    folder, found = world.scratch / "growth", []
    settings: dict[str, Any] = {"model.width": 0.05, "data.near_duplicates": False}
    for number in range(runs):
        josrc.train(
            str(world.data), out=folder, overwrite=number > 0, quiet=True, method="standard", model="cnn7",
            image_size=16, epochs=1, workers=0, settings=settings,
        )  # fmt: skip
        if number == 4:
            found.append(_now())
    return [*found, _now()]


def _serve(world: World, requests: int) -> list[dict[str, int]]:
    server = Server(world, large_run(world), "serving")
    server.start()
    client, found = Client(server), []
    for number in range(requests):
        client.get(f"/thumbnail/{number % MANY}")
        client.get("/api/queue?verdict=mislabelled")
        if number == 100:
            found.append(server.measured())
    found.append(server.measured())
    server.end()
    return found
