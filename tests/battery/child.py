"""Commands of josrc in forked processes that have imported everything, watched from outside."""

from __future__ import annotations

import gc
import json
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST = 2048.0  # MiB above what a process begins with
PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: its exit code; the negative number of a signal.
        seconds: how long it ran.
        mebibytes: most memory of it or of one of its children, above what it began with.
        stopped: why the battery ended it, if it did: ``time`` or ``memory``.
        out: what it printed, and ``error`` what it printed as an error.
    """

    code: int
    seconds: float
    mebibytes: float
    stopped: str | None
    out: str
    error: str


def preload() -> None:
    """Import what commands import, so that forked ones need not. No thread may be started."""
    import importlib
    import pkgutil

    import matplotlib.pyplot
    import scipy.stats
    import sklearn.mixture
    import timm
    import torch
    import torchvision
    import uvicorn

    import josrc

    torch.set_num_threads(1)
    assert all((matplotlib.pyplot, scipy.stats, sklearn.mixture, timm, torchvision, uvicorn))
    for module in pkgutil.walk_packages(josrc.__path__, "josrc."):
        if not any(part in module.name for part in ("__main__", "kernels", "bench")):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # what is never looked at again by the collector is never copied by a fork


def start(
    arguments: tuple[str, ...],
    folder: Path,
    *,
    before: Callable[[], None] | None = None,
    environment: dict[str, str] | None = None,
) -> int:
    """Start a command in ``folder`` and give its process id; what it prints goes to two files."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(printed(folder, name), flags), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ.update(environment or {})
        sys.argv = ["josrc", *arguments]
        code = call(arguments, before)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return 0  # never


def call(arguments: tuple[str, ...], before: Callable[[], None] | None = None) -> int:
    """Run a command in this process, and give its exit code."""
    import multiprocessing.util

    from josrc.cli.main import main

    if before is not None:
        before()
    try:
        main(list(arguments))
    except SystemExit as stop:
        code: Any = stop.code
        if code is None or isinstance(code, int):
            return code or 0
        print(code, file=sys.stderr)
        return 1
    finally:
        multiprocessing.util._exit_function()
    return 0


def printed(folder: Path, name: str) -> Path:
    """Where output goes: beside the folder, as it is none of the command's files."""
    return folder.parent / f"{folder.name}.{name}"


def execute(
    arguments: tuple[str, ...],
    folder: Path,
    *,
    limit: float = 60.0,
    largest: float = LARGEST,
    until: str | None = None,
    before: Callable[[], None] | None = None,
    environment: dict[str, str] | None = None,
) -> Ended:
    """Run a command to its end, or end it: past a time, with too much memory, or once it serves."""
    begun = time.monotonic()
    pid = start(arguments, folder, before=before, environment=environment)
    base = resident(pid)
    peak, stopped, looked = 0.0, None, 0.0
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        now = time.monotonic()
        if now - looked > 0.05:
            looked = now
            peak = max([peak, *(resident(one) - base for one in tree(pid))])
            if until is not None and until in read(printed(folder, "stdout")):
                until = None
                os.kill(pid, signal.SIGINT)
        if stopped is None and (peak > largest or now - begun > limit):
            stopped = "memory" if peak > largest else "time"
            end_group(pid)
        time.sleep(0.005)
    end_group(pid)  # a worker that outlives its command
    code = os.waitstatus_to_exitcode(status)
    peak = max(peak, usage.ru_maxrss / 1024 - base)
    texts = [read(printed(folder, name)) for name in ("stdout", "stderr")]
    return Ended(code, time.monotonic() - begun, peak, stopped, *texts)


def end_group(pid: int) -> None:
    """Kill a process that was started here, and all that it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def tree(pid: int) -> list[int]:
    """A process and its children, and theirs."""
    found = [pid]
    for one in found:
        try:
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
    return found


def resident(pid: int) -> float:
    """MiB of memory that a process holds now; 0 for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0.0


def read(path: Path) -> str:
    """Whatever a process printed."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def command(arguments: tuple[str, ...]) -> str:
    """As a shell has it; what is too long for a reader is cut."""
    words = [word if len(word) < 200 else f"{word[:200]}...({len(word)})" for word in arguments]
    return shlex.join(["josrc", *words])


def measure(function: Callable[[], Any]) -> Any:
    """What a function gives in a process of its own, as JSON."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as file:
                json.dump(function(), file)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("a measurement failed")
    return json.loads(text)
