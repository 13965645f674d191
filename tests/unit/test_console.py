"""What is said on a terminal: by one process, once, and on whichever stream is still read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from josrc._console import duration, printable, say_once


def test_durations_are_read_at_a_glance() -> None:
    assert duration(42) == "42 s"
    assert duration(720) == "12 min"
    assert duration(9000) == "2.5 h"


def test_what_is_spelled_out_and_what_is_not() -> None:
    assert printable("a\tb\nç 猫 \N{CAT FACE}") == "a\tb\nç 猫 \N{CAT FACE}"
    assert printable("\x1b[31m\r\x07") == r"\x1b[31m\r\x07"
    assert printable("\udc80") == r"\udc80"


PROGRAM = """
from josrc._console import Terminal, say

input()
beside = Terminal(stderr=True)
say(beside, "one")
say(beside, "two")
say(Terminal(), "three")
"""


@pytest.mark.parametrize(("rank", "told"), [(None, 1), ("0", 1), ("1", 0)])
def test_of_several_processes_the_first_one_speaks(
    rank: str | None,
    told: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_once.cache_clear()
    if rank is not None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "some run")
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    for _ in range(3):
        say_once("That is no longer a setting.")
    assert capsys.readouterr().err.count("no longer a setting") == told


def test_a_reader_of_one_stream_may_leave() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, **pipes) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stderr.close()
        running.stdin.write("\n")
        running.stdin.close()
        assert running.stdout.read() == "three\n"
    assert running.returncode == 0
