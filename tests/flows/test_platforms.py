"""josrc on systems without POSIX, such as Windows: what only POSIX has is hidden from it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# What a module of the standard library or a function of it is, on POSIX alone.
MODULES = ["fcntl", "grp", "pwd", "resource", "termios"]
FUNCTIONS = {
    "os": ["fork", "getloadavg", "getuid", "mkfifo", "sched_getaffinity", "setpgid"],
    "signal": ["pthread_sigmask", "sigwait"],
}
# All modules of josrc are imported here; libraries made for this system may use all of its own.
WITHOUT_POSIX = f"""
import importlib, sys

for module, names in {FUNCTIONS}.items():
    for name in names:
        if hasattr(importlib.import_module(module), name):
            delattr(sys.modules[module], name)

import matplotlib.pyplot, onnxruntime, pandas, PIL.Image, psutil, safetensors.torch
import sklearn.metrics, starlette, timm, torch._dynamo, torch.utils.tensorboard, uvicorn
import multiprocessing, pkgutil

for module in {MODULES}:
    sys.modules[module] = None
multiprocessing.set_start_method("spawn")

import josrc
from josrc.cli.main import main

for module in pkgutil.walk_packages(josrc.__path__, "josrc."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)


def run(*commands):
    for command in commands:
        try:
            main(command)
        except SystemExit as end:
            assert not end.code, command
"""
LOOK = """
run(["--help"], ["methods"])
"""
TRAIN = """
out, photos = sys.argv[1:]
made = f"{out}/run"
run(
    ["recipes"], ["settings"], ["doctor"], ["doctor", "data", photos],
    ["train", photos, "--epochs", "1", "--workers", "0", "--method", "standard", "--out", made],
    ["resume", made], ["audit", made], ["report", made],
    ["apply", made, "--auto", "0", "--out", f"{out}/clean.csv"],
    ["predict", made, photos, "--workers", "0", "--out", f"{out}/p.csv"],
    ["eval", made, photos, "--workers", "0"],
    ["export", made, "--format", "torch"],
    ["noise", "digits-o", "--noise", "symmetric", "--rate", "0.3", "--out", f"{out}/n.npz"],
)
"""
# The server is asked for one picture in place of being left to serve.
REVIEW = """
from starlette.testclient import TestClient


def ask(server, sockets):
    host, port = sockets[0].getsockname()
    token = server.config.app.user_middleware[0].kwargs["token"]
    client = TestClient(server.config.app, base_url=f"http://{host}:{port}")
    answer = client.get("/thumbnail/0", params={"token": token})
    print("The review answers", answer.status_code)


uvicorn.Server.run = ask
run(["review", made])
"""
HAS_CLIENT = find_spec("httpx") or find_spec("httpx2")


def without_posix(program: str, *arguments: Path) -> str:
    """What a program prints where all that only POSIX has is hidden."""
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX + program, *map(str, arguments)]
    windows = os.environ | {"USERNAME": "somebody"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=windows)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_every_module_is_imported_without_posix() -> None:
    assert "Jo-SRC" in without_posix(LOOK)


@pytest.mark.slow
@pytest.mark.slow
def test_every_command_does_without_posix(pictures: Path, tmp_path: Path) -> None:
    said = without_posix(TRAIN + (REVIEW if HAS_CLIENT else ""), tmp_path, pictures)
    assert (tmp_path / "run" / "audit" / "report.html").is_file()
    assert (tmp_path / "clean.csv").is_file()
    assert not HAS_CLIENT or "The review answers 200" in said
