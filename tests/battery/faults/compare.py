"""What two runs must have in common, bit for bit: all but times and memory."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from pathlib import Path

TIMES = ("seconds", "seconds_total", "seconds_per_epoch", "peak_memory_mib")
# A checkpoint tells how long a run took; of the review's files, one is a copy and one grows.
LEFT_OUT = ("checkpoint", ".lock", "environment.json")


def contents(folder: Path) -> dict[str, str]:
    """Digests of a run folder, or of a corrected data set, by file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name.split("/")[0] not in LEFT_OUT:
            found[name] = hashlib.sha256(_timeless(path)).hexdigest()
    return found


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Names of files that are not the same, or only in one."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def _timeless(path: Path) -> bytes:
    content = path.read_bytes()
    if path.name == "metrics.csv":
        rows = csv.DictReader(io.StringIO(content.decode()))
        kept = [{key: cell for key, cell in row.items() if key not in TIMES} for row in rows]
        return json.dumps(kept).encode()
    if path.name == "summary.json" and path.parent.name != "audit":
        summary = json.loads(content)
        return json.dumps({key: summary[key] for key in summary if key not in TIMES}).encode()
    if path.suffix == ".html":  # how long the training took stands among its numbers
        return re.sub(rb"\d+(\.\d+)?( s\b|&nbsp;s\b)|\d+ MiB", b"", content)
    return content
