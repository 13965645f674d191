"""A review that serves, in a process of its own, and a client that keeps its connection."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..child import printed, read, start, tree
from ..world import CLASSES, World

MANY = 600


def large_run(world: World) -> Path:
    """A run of 600 images, made by a scan of features."""
    run = world.base / "large"
    if not run.is_dir():
        data, features = world.base / "many", world.files / "many.npy"
        chance = np.random.default_rng(2)
        for number in range(MANY):
            path = data / CLASSES[number * 3 // MANY] / f"{number:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(chance.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(path)
        centres = np.eye(3, 8)[(np.arange(MANY) * 3 // MANY + (np.arange(MANY) % 9 == 0)) % 3]
        np.save(features, (4 * centres + chance.normal(0, 0.3, centres.shape)).astype(np.float32))
        words = ("scan", str(data), "--features", str(features), "--out", "large", "--quiet")
        world.josrc(*words)
    return run


class Server:
    """``josrc review`` on a copy of a run. It may be killed and started again."""

    def __init__(self, world: World, run: Path, name: str = "review") -> None:
        self.world, self.folder = world, world.scratch / name
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(run, self.folder / "run")
        self.pid, self.port, self.token = 0, 0, ""

    def start(self) -> None:
        """Serve, and wait for the address."""
        environment = self.world.environment(self.folder)
        self.pid = start(("review", "run"), self.folder, environment=environment)
        for _ in range(6000):
            found = re.search(
                r"127\.0\.0\.1:(\d+)/\?token=(\S+)", read(printed(self.folder, "stdout"))
            )
            if found:
                self.port, self.token = int(found[1]), found[2]
                return
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
            time.sleep(0.01)
        raise RuntimeError(f"the review did not start: {self.errors()[-3000:]}")

    def errors(self) -> str:
        """What it printed as errors."""
        return read(printed(self.folder, "stderr"))

    def alive(self) -> bool:
        """Whether the process is there."""
        return not os.waitpid(self.pid, os.WNOHANG)[0]

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal, wait, and give the exit code."""
        os.kill(self.pid, number)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def measured(self) -> dict[str, int]:
        """MiB, open files and threads of the process."""
        proc = Path(f"/proc/{self.pid}")
        resident = int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
        files = len(os.listdir(proc / "fd"))
        threads = len(os.listdir(proc / "task"))
        return {
            "mebibytes": resident,
            "files": files,
            "threads": threads,
            "processes": len(tree(self.pid)),
        }


class Client:
    """One kept connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def get(self, path: str) -> tuple[int, bytes]:
        """A page or a picture."""
        return self._ask("GET", path, None)

    def post(self, path: str, asked: dict[str, Any]) -> tuple[int, bytes]:
        """A decision."""
        return self._ask("POST", path, json.dumps(asked).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        mark = "&" if "?" in path else "?"
        headers = {
            "Origin": f"http://127.0.0.1:{self.server.port}",
            "Content-Type": "application/json",
        }
        address = f"{path}{mark}token={self.server.token}"
        self.connection.request(method, address, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()
