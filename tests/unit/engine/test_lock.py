"""One process writes to a run folder, and a killed one leaves no lock behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from josrc.engine.lock import check_free, locked
from josrc.errors import FolderInUseError

HOLD = "import sys, pathlib; from josrc.engine.lock import locked\n" + (
    "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()\n"
)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderInUseError, match="in use by another josrc process"):
            check_free(folder)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with locked(folder):
            pass
