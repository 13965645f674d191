"""Manifests with the labels of several annotators."""

from __future__ import annotations

from pathlib import Path

LONG = """path,label,who
a.png,cat,ann
a.png,cat,bob
a.png,dog,cid
b.png,dog,ann
b.png,dog,bob
c.png,cat,ann
c.png,cat,cid
d.png,cat,ann
d.png,dog,cid
e.png,,ann
"""


def manifest(folder: Path, text: str) -> str:
    path = folder / "labels.csv"
    path.write_text(text)
    return str(path)
