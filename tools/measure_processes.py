"""Time the same run in one process and in two on this machine's cores, by turns.

    python tools/measure_processes.py OUT.json [--rounds 3] [--epochs 4] [--model NAME]

Every process has one thread. The file has the seconds per epoch of every run, as its summary says
them, and the load of the machine before each: on a machine that others use, too, read it first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from josrc.engine.device import device_name


def train(processes: int, epochs: int, model: str | None, out: Path) -> float:
    """Seconds per epoch of a run in so many processes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    options = ["--noise=symmetric", "--rate=0.5", f"--epochs={epochs}", "--device=cpu", "--quiet"]
    network = [f"--model={model}", "--image-size=32", "model.head=linear"] if model else []
    command = ["-m", "josrc", "train", "digits-o", *options, *network, f"--out={out}"]
    start = [sys.executable, *(launcher if processes > 1 else []), *command]
    subprocess.run(start, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    seconds: float = json.loads((out / "summary.json").read_text())["seconds_per_epoch"]
    return seconds


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--model")
    asked = parser.parse_args()
    found: dict[int, list[float]] = {1: [], 2: []}
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.rounds):
            for processes in found:
                loads.append(round(os.getloadavg()[0], 1))
                out = Path(folder) / f"{number}-{processes}"
                found[processes].append(train(processes, asked.epochs, asked.model, out))
    import torch

    written = {
        "command": " ".join(["python", *sys.argv]),
        "processor": device_name(torch.device("cpu")),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "load_before": loads,
        "seconds_per_epoch": {str(key): values for key, values in found.items()},
        "median": {str(key): statistics.median(values) for key, values in found.items()},
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(written, indent=2) + "\n")
    print(json.dumps(written["median"]))


if __name__ == "__main__":
    main()
