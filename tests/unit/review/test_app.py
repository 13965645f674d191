"""Requests and files that a review must not stumble over: a sentence, and nothing acknowledged."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from josrc.review import index
from josrc.review.decisions import StorageError, Store
from josrc.review.server import _listening
from reviewing import Client, decide

Serving = Callable[[Path], tuple[Any, str]]
DIGITS = "9" * 5000


def test_numbers_hosts_and_bodies_beyond_all_measure(reviewed: Path, serving: Serving) -> None:
    client = Client(serving(reviewed)[1])
    for host in (
        f"{client.host}@evil.example", f"{client.host}, evil.example", f"me@{client.host}",
        "127.0.0.1", "127.0.0.1:", f"{client.host}/", "127.0.0.1:1x",
    ):  # fmt: skip
        assert client.ask("GET", "/api/queue", Host=host)[0] == 421, host
    for path, status in (
        (f"/thumbnail/{DIGITS}", 404),
        (f"/image/{DIGITS}", 404),
        ("/image/%D9%A3", 404),
        (f"/api/queue?limit={DIGITS}", 400),
        (f"/api/changes?since={DIGITS}", 400),
    ):
        found, _, content = client.ask("GET", path)
        assert (found, len(content) < 100) == (status, True), path
    for limit, count in (("-1", 0), ("0", 0), ("5", 5), ("99999", 24)):
        content = client.ask("GET", f"/api/queue?limit={limit}")[2]
        assert len(json.loads(content)["samples"]) == count
    for body in (b"[" * 60_000, b'{"rows":' * 8_000):
        assert client.ask("POST", "/api/decide", body)[::2] == (400, b"This is not JSON.")
    assert client.decide([0], "keep")[0] == 200


def test_a_file_of_decisions_that_is_gone_is_noticed(reviewed: Path, serving: Serving) -> None:
    client = Client(serving(reviewed)[1])
    assert client.decide([0], "keep")[0] == 200
    path = reviewed / "audit" / "decisions.sqlite"
    path.rename(path.with_name("elsewhere"))
    status, told = client.decide([1], "keep")
    assert status == 503
    assert f"{path} was moved or deleted while the review was running: nothing is saved" in told
    assert client.ask("POST", "/api/undo", {})[0] == 503
    path.touch()
    assert client.decide([1], "keep")[0] == 503, "another file of its name"
    path.with_name("elsewhere").replace(path)
    assert client.decide([1], "keep")[0] == 200


def test_what_can_not_be_stored_is_not_acknowledged(
    reviewed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("josrc.review.store_schema.LOCK_TIMEOUT_SECONDS", 0.1)
    store = Store(reviewed / "audit")
    store.decide([0], "keep")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="is locked"):
            store.decide([1], "keep")
        other.execute("ROLLBACK")
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StorageError, match=r"is full\. Nothing was saved"):
        store.decide([1], "label", "x" * 100_000)
    kept = len(store.decisions())
    store._writer.execute("PRAGMA max_page_count=100000")
    store.decide([23], "keep")
    assert len(store.decisions()) == kept + 1
    store.close()


def test_an_index_that_is_no_index_is_made_again(reviewed: Path) -> None:
    decide(reviewed, ([0], "keep"))
    path = reviewed / "audit" / "index.sqlite"
    whole = path.read_bytes()
    for spoil in (
        lambda: path.write_bytes(b"junk"),
        lambda: path.write_bytes(whole[:5000]),
        lambda: path.write_bytes(b""),
        lambda: change(path, "ALTER TABLE sample RENAME COLUMN given TO taken"),
        lambda: change(path, "DROP TABLE census"),
    ):
        spoil()
        store = Store(reviewed / "audit")
        assert len(store.page(index_filter(), limit=99)) == 24
        assert len(store.decisions()) == 1
        store.close()


def index_filter() -> Any:
    from josrc.review.queues import Filter

    return Filter()


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(sql)


def test_of_reviews_that_start_at_once_one_builds_the_index(
    reviewed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, errors = [], []
    build, together = index._build, threading.Barrier(4)

    def counted(*values: Any) -> None:
        built.append(values)
        build(*values)

    def start() -> None:
        together.wait()
        try:
            Store(reviewed / "audit").close()
        except Exception as error:
            errors.append(error)

    monkeypatch.setattr(index, "_build", counted)
    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(built) == 1


def test_answers_on_a_kept_connection_do_not_wait_for_more_to_send() -> None:
    """Nagle's algorithm would hold each back for 40 ms."""

    async def option_of_a_connection() -> int:
        accepted = asyncio.get_running_loop().create_future()
        listening = _listening(0)

        def hear(_: Any, writer: asyncio.StreamWriter) -> None:
            found = writer.get_extra_info("socket")
            accepted.set_result(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        address = listening.getsockname()
        async with await asyncio.start_server(hear, sock=listening):
            _, writer = await asyncio.open_connection(*address)
            value: int = await accepted
            writer.close()
            await writer.wait_closed()
            return value

    assert asyncio.run(option_of_a_connection()) != 0
