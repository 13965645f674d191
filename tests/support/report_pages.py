"""Reports, as their tests look at them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and the content of its scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self.policy = ""
        self.feed(path.read_text())
        self.data: dict[str, Any] = json.loads(self.inside["script"][0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in self.inside:
            self.inside[tag].append("")
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = str(dict(attrs)["content"])

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in self.inside and not self.inside[self.tags[-1]][-1]:
            self.inside[self.tags[-1]][-1] = data
        else:
            self.text += data
