"""A real Label Studio on this machine alone, in an environment and with data of its own.

It pins old versions of what josrc needs, so it never comes into josrc's environment.
``JOSRC_LABEL_STUDIO`` names its command and insists on it; without it the one on the path is taken.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOKEN = "0123456789abcdef0123456789abcdef01234567"
# On two busy cores its database takes a minute and a half to be made.
PATIENCE = 300


@dataclass
class LabelStudio:
    """Its API.

    Attributes:
        address: where it listens.
        root: the folder of which it may show files.
    """

    address: str
    root: Path

    def ask(self, method: str, path: str, content: Any = None) -> bytes:
        """One request, as a person who is logged in."""
        request = urllib.request.Request(
            f"{self.address}{path}",
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
            return found

    def json(self, method: str, path: str, content: Any = None) -> Any:
        """The same, of an answer in JSON."""
        return json.loads(self.ask(method, path, content))


def find_label_studio() -> str | None:
    """Its command, if there is one."""
    wanted = os.environ.get("JOSRC_LABEL_STUDIO")
    if wanted:
        assert Path(wanted).is_file(), f"JOSRC_LABEL_STUDIO names {wanted}, which is not there"
        return wanted
    return shutil.which("label-studio")


@pytest.fixture(scope="session")
def label_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudio]:
    """Started once, with an empty database."""
    command = find_label_studio()
    if command is None:
        pytest.skip("no Label Studio")  # tests/conftest.py says so in one loud line
    home = tmp_path_factory.mktemp("label-studio")
    (home / "files").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "LABEL_STUDIO_BASE_DATA_DIR": str(home / "data"),
        "LOCAL_FILES_SERVING_ENABLED": "true",
        "LOCAL_FILES_DOCUMENT_ROOT": str(home / "files"),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    user = ["--username", "a@example.org", "--password", "not-a-secret", "--user-token", TOKEN]
    place = ["--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    log = (home / "log.txt").open("w")
    server = subprocess.Popen(
        [command, "start", *place, *user], env=environment, stdout=log, stderr=log
    )
    found = LabelStudio(f"http://127.0.0.1:{port}", home / "files")
    try:
        _wait(found, server, home / "log.txt")
        yield found
    finally:
        server.terminate()
        server.wait()
        log.close()


def _wait(found: LabelStudio, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert server.poll() is None, f"Label Studio ended:\n{log.read_text()[-3000:]}"
        try:
            found.ask("GET", "/health")
            return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"Label Studio does not answer:\n{log.read_text()[-3000:]}")
