"""The real server: what it refuses, what it serves, and what a kill leaves."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from josrc.cli.main import main
from josrc.review.decisions import Store
from josrc.review.server import CtrlC
from reviewing import Client

Serving = Callable[[Path], tuple[Any, str]]


OTHER = "http://evil.example"


def decided(run: Path) -> set[int]:
    store = Store(run / "audit")
    found = set(store.decisions())
    store.close()
    return found


def test_what_is_refused(reviewed: Path, serving: Serving) -> None:
    client = Client(serving(reviewed)[1])
    keep = {"rows": [1], "action": "keep"}
    big = {"rows": [1], "action": "keep", "label": "x" * 200_000}
    refused: list[tuple[int, str, str, Any, dict[str, str | None]]] = [
        # who asks
        (403, "GET", "/", None, {"Cookie": None}),
        (403, "GET", "/?token=wrong", None, {"Cookie": None}),
        (403, "GET", "/?token=wrong", None, {}),
        (403, "GET", "/?token=%C3%A4", None, {"Cookie": None}),
        (403, "GET", "/review.js", None, {"Cookie": None}),
        (403, "GET", "/thumbnail/0", None, {"Cookie": client.headers["Cookie"][:-1]}),
        (403, "POST", "/api/decide", keep, {"Cookie": None}),
        (421, "GET", "/api/queue", None, {"Host": "evil.example"}),
        (421, "GET", "/api/queue", None, {"Host": f"evil.example:{client.host.split(':')[1]}"}),
        (421, "POST", "/api/decide", keep, {"Host": "127.0.0.1.evil.example:80"}),
        (403, "GET", "/api/queue", None, {"Origin": OTHER}),
        (403, "POST", "/api/decide", keep, {"Origin": OTHER}),
        (403, "POST", "/api/decide", keep, {"Origin": None}),
        (403, "POST", "/api/decide", keep, {"Origin": "null"}),
        (403, "POST", "/api/decide", keep, {"Origin": "http://127.0.0.1:1"}),
        (403, "POST", f"/api/decide?token={client.token}", keep, {"Origin": OTHER}),
        # where
        (404, "GET", "/../../../../etc/passwd", None, {}),
        (404, "GET", "/thumbnail/../../../etc/passwd", None, {}),
        (404, "GET", "/thumbnail/..%2f..%2f..%2fetc%2fpasswd", None, {}),
        (404, "GET", "/image//etc/passwd", None, {}),
        (404, "GET", "/thumbnail/-1", None, {}),
        (404, "GET", "/thumbnail/24", None, {}),
        (404, "GET", "/image/99999999999999999999", None, {}),
        (404, "GET", "/page/review.js", None, {}),
        (405, "GET", "/api/decide", None, {}),
        # what
        (413, "POST", "/api/decide", big, {}),
        (413, "POST", "/api/undo", b"x" * 5_000_000, {}),
        (415, "POST", "/api/decide", keep, {"Content_Type": "text/plain"}),
        (400, "POST", "/api/decide", b"{rows", {}),
        (400, "POST", "/api/decide", b"[1]", {}),
        (400, "POST", "/api/decide", {"rows": [], "action": "keep"}, {}),
        (400, "POST", "/api/decide", {"rows": list(range(3000)), "action": "keep"}, {}),
        (400, "POST", "/api/decide", {"rows": [1], "action": "burn"}, {}),
        (400, "POST", "/api/decide", {"rows": [1], "action": ["keep"]}, {}),
        (400, "POST", "/api/decide", {"rows": [1], "action": "label", "label": "emu"}, {}),
        (400, "POST", "/api/decide", {"rows": [1], "action": "label", "label": {}}, {}),
        (404, "POST", "/api/decide", {"rows": [1, 24], "action": "keep"}, {}),
        (404, "POST", "/api/decide", {"rows": [-1], "action": "keep"}, {}),
        (404, "POST", "/api/decide", {"rows": [True], "action": "keep"}, {}),
        (404, "POST", "/api/decide", {"rows": ["../1"], "action": "keep"}, {}),
        (400, "GET", "/api/queue?after=x", None, {}),
        (400, "GET", f"/api/queue?after={2**70}", None, {}),
    ]
    for status, method, path, body, changes in refused:
        found, headers, content = client.ask(method, path, body, **changes)
        assert found == status, (method, path, changes, content)
        assert b"root:" not in content
        assert "set-cookie" not in headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert decided(reviewed) == set()


def test_a_second_client_sees_decisions_and_undo(reviewed: Path, serving: Serving) -> None:
    address = serving(reviewed)[1]
    first, second = Client(address), Client(address)
    status, answer = first.decide([1, 2, 4], "accept")
    assert status == 200
    expected = {1: ("relabel", "cat"), 2: ("relabel", "cat"), 4: ("remove", None)}
    assert {e["row"]: (e["outcome"], e["label"]) for e in answer["changes"]} == expected
    seen = json.loads(second.ask("GET", "/api/changes?since=0")[2])
    assert {e["row"]: (e["outcome"], e["label"]) for e in seen["changes"]} == expected
    assert seen["progress"]["mislabelled"] == {"samples": 12, "decided": 2}
    assert second.ask("POST", "/api/undo", {})[0] == 200
    news = json.loads(first.ask("GET", f"/api/changes?since={seen['latest']}")[2])
    assert {entry["row"] for entry in news["changes"]} == {1, 2, 4}
    assert {entry["outcome"] for entry in news["changes"]} == {None}
    assert decided(reviewed) == set()


def test_a_kill_loses_no_decision(reviewed: Path, serving: Serving) -> None:
    server, address = serving(reviewed)
    client = Client(address)
    for row in range(6):
        assert client.decide([row], "keep")[0] == 200
    server.send_signal(signal.SIGKILL)
    server.wait()
    assert decided(reviewed) == set(range(6))
    again = Client(serving(reviewed)[1])
    assert again.token != client.token
    samples = json.loads(again.ask("GET", "/api/queue?state=open&limit=200")[2])["samples"]
    assert {sample["row"] for sample in samples} == set(range(6, 24))
    assert again.ask("POST", "/api/undo", {})[0] == 200
    assert decided(reviewed) == set(range(5)), "what was done before the kill can be undone"


def test_ctrl_c_ends_it_and_says_where_decisions_are(reviewed: Path, serving: Serving) -> None:
    server, address = serving(reviewed)
    assert Client(address).decide([3], "remove")[0] == 200
    server.send_signal(signal.SIGINT)
    said = server.communicate(timeout=30)[0]
    assert server.returncode == 0
    assert f"1 decisions are in {reviewed / 'audit' / 'decisions.sqlite'}" in said
    assert "josrc apply" in said


def test_mistakes_are_one_message(reviewed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = reviewed / "audit" / "verdicts.csv"
    lines = verdicts.read_text().replace(f"{reviewed.parent}/", "").splitlines()
    for path, text, message in (
        (verdicts, "\n".join(lines[:-1]), "23 samples, but the data has 24"),
        (verdicts, None, "josrc audit"),
        (reviewed / "config.yaml", None, "config.yaml"),
    ):
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        with pytest.raises(SystemExit) as end:
            main(["review", str(reviewed)])
        assert end.value.code == 2
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error


class Served:
    """What a server has that is ended by Ctrl-C."""

    should_exit = False


def test_ctrl_c_before_it_serves_is_not_forgotten_where_something_swallows_it() -> None:
    server = Served()
    with CtrlC() as stop:
        with suppress(KeyboardInterrupt):  # as some modules do while they are imported
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop.ends(server)
    assert not server.should_exit


def test_ctrl_c_ends_a_server_without_an_error() -> None:
    server, before = Served(), signal.getsignal(signal.SIGINT)
    with CtrlC() as stop:
        stop.ends(server)
        assert not server.should_exit
        signal.raise_signal(signal.SIGINT)
        assert server.should_exit
    assert signal.getsignal(signal.SIGINT) is before
