"""josrc on systems without POSIX, such as Windows: what only POSIX has is hidden from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What a module of the standard library or a function of it is, on POSIX alone.
MODULES = ["fcntl", "grp", "pwd", "resource", "termios"]
FUNCTIONS = {
    "os": ["fork", "getloadavg", "getuid", "mkfifo", "sched_getaffinity", "setpgid"],
    "signal": ["pthread_sigmask", "sigwait"],
}
PROGRAM = f"""
import importlib, sys

for module, names in {FUNCTIONS}.items():
    for name in names:
        if hasattr(importlib.import_module(module), name):
            delattr(sys.modules[module], name)

# Libraries made for this system may use all of its modules.
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

out, photos = sys.argv[1:]
run = f"{{out}}/run"
for command in (
    ["methods"], ["recipes"], ["settings"], ["doctor"], ["doctor", "data", photos],
    ["train", photos, "--epochs", "1", "--workers", "0", "--method", "standard", "--out", run],
    ["resume", run], ["audit", run], ["report", run],
    ["apply", run, "--auto", "0", "--out", f"{{out}}/clean.csv"],
    ["predict", run, photos, "--workers", "0", "--out", f"{{out}}/p.csv"],
    ["eval", run, photos, "--workers", "0"],
    ["export", run, "--format", "torch"],
    ["noise", "digits-o", "--noise", "symmetric", "--rate", "0.3", "--out", f"{{out}}/n.npz"],
):
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, command
"""


@pytest.mark.slow
def test_every_command_does_without_posix(pictures: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path), str(pictures)]
    windows = os.environ | {"USERNAME": "somebody"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=windows)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "run" / "audit" / "report.html").is_file()
    assert (tmp_path / "clean.csv").is_file()
