"""Clients decide as fast as they can while the server is killed; then its change log is replayed."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ..cases import ACCEPTED, LOST, Result
from ..record import REVIEW_KILLS
from ..world import CLASSES, World
from .server import MANY, Client, Server, large_run

KILLS, DECISIONS, CLIENTS = 50, 50_000, 8
# Some requests decide on many samples, as the page does with those that are selected.
BATCH = 20

Entry = tuple[str | None, str | None]


class Acknowledged:
    """What clients were told is on disk: of every sample, in order, what it was decided to be."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = defaultdict(list)
        self.count, self.refused = 0, 0
        self._lock = threading.Lock()

    def add(self, changes: list[dict[str, str | int | None]]) -> None:
        """Note an answer."""
        with self._lock:
            for change in changes:
                self.entries[int(change["row"] or 0)].append((change["outcome"], change["label"]))  # type: ignore[arg-type]
            self.count += len(changes)


def run(world: World, share: float, done: set[tuple[str, str]], until: float) -> Iterator[Result]:
    """50 kills, a thousand decisions between two; a share of it for a share of the battery."""
    kills = max(1, round(KILLS * share))
    name = f"{kills} kills of a server that decides"
    if (REVIEW_KILLS, name) in done:
        return
    server = Server(world, large_run(world), "deciding")
    told, chance, begun = Acknowledged(), random.Random(0), time.monotonic()
    wanted, killed = DECISIONS * kills // KILLS, 0
    while killed < kills and time.monotonic() < until:
        server.start()
        target = told.count + (wanted - told.count) // (kills - killed) + chance.randrange(40)
        decide_until_killed(server, told, target, chance.random())
        killed += 1
    lost, broken = replay(server.folder / "run" / "audit" / "decisions.sqlite", told)
    figures = {
        "kills": killed, "acknowledged": told.count, "lost": lost, "broken_links": broken,
        "other_answers": told.refused, "seconds": round(time.monotonic() - begun),
    }  # fmt: skip
    outcome = ACCEPTED if not lost + broken + told.refused and killed == kills else LOST
    shutil.rmtree(server.folder)
    yield Result(REVIEW_KILLS, name, outcome, figures["seconds"], figures=figures)


def decide_until_killed(server: Server, told: Acknowledged, target: int, pause: float) -> None:
    """Clients decide until so much is acknowledged in all; then the server dies in their middle."""
    over = threading.Event()
    threads = [
        threading.Thread(target=_decide, args=(server, told, number, over))
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    while told.count < target and any(thread.is_alive() for thread in threads):
        time.sleep(0.002)
    time.sleep(0.02 * pause)
    server.end(signal.SIGKILL)
    over.set()
    for thread in threads:
        thread.join()


def _decide(server: Server, told: Acknowledged, number: int, over: threading.Event) -> None:
    """One client, with samples of its own, so that their order is known."""
    client, chance = Client(server), random.Random(f"{number}/{told.count}")
    own = range(number, MANY, CLIENTS)
    while not over.is_set():
        action = chance.choice(["keep", "label", "remove"])
        rows = [chance.choice(own)] if chance.random() < 0.9 else chance.sample(own, BATCH)
        asked = {"rows": rows, "action": action, "label": chance.choice(CLASSES)}
        try:
            status, answer = client.post("/api/decide", asked)
        except Exception:
            return  # the server is gone: nothing was acknowledged
        if status == 200:
            told.add(json.loads(answer)["changes"])
        else:
            told.refused += 1


def replay(path: Path, told: Acknowledged) -> tuple[int, int]:
    """How many acknowledged decisions are not in the log, and how many of its links are broken."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        log = database.execute(
            "SELECT row, outcome, label, old_outcome, old_label FROM change ORDER BY number"
        ).fetchall()
        final = {
            row: (o, label)
            for row, o, label in database.execute("SELECT row, outcome, label FROM decision")
        }
    now: dict[int, Entry] = {}
    stored: dict[int, list[Entry]] = defaultdict(list)
    broken = 0
    for row, outcome, label, old_outcome, old_label in log:
        broken += now.get(row, (None, None)) != (old_outcome, old_label)
        now[row] = (outcome, label)
        stored[row].append((outcome, label))
    broken += sum(now.get(row) != final.get(row) for row in {*now, *final})
    lost = 0
    for row, entries in told.entries.items():
        rest = iter(stored[row])
        lost += sum(not any(entry == kept for kept in rest) for entry in entries)
    return lost, broken
