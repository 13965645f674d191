"""Where timm's weights are published, read from its source.

timm takes seconds to import, and where no weights can be had that should be told at once. So its
files are looked at as text. What is not plain from them is left to timm itself.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What weights may be called on the hub, the likeliest first.
HUB_FILES = ("model.safetensors", "pytorch_model.bin")
# An organisation alone: the repository is called like the network.
TIMM = "timm/"


@dataclass(frozen=True)
class PublishedWeights:
    """Where the weights of a network are published.

    Attributes:
        repo: on the Hugging Face hub, or none.
        files: names that the weights may have there, the likeliest first.
        url: elsewhere, or none.
    """

    repo: str | None
    files: tuple[str, ...]
    url: str | None


def find_published_weights(name: str) -> PublishedWeights | None:
    """Where the weights of a network are on the hub; none where the source does not plainly say.

    Args:
        name: ``resnet18``, or ``resnet18.a1_in1k``.
    """
    base, _, tag = name.partition(".")
    entries = list(_entries(base))
    known = dict(entries)
    if len(known) < len(entries):  # which of them holds, the code alone decides
        return None
    # As timm does: the first one that has weights, unless another is marked with a star.
    starred = next((key for key in known if key.endswith("*")), None)
    found = tag or starred or next(iter(known), None)
    call = known.get(found) if found is not None else None
    if call is None or found is None:
        return None
    said = {word.arg: word.value for word in call.keywords}
    if None in said:  # ``**more`` may say anything
        return None
    repo, file = (_text(said.get(key)) for key in ("hf_hub_id", "hf_hub_filename"))
    if not repo:
        return None
    whole = f"{base}.{found.rstrip('*')}".rstrip(".")
    files = (file,) if file else HUB_FILES
    return PublishedWeights(f"{TIMM}{whole}" if repo == TIMM else repo, files, None)


def _entries(base: str) -> Iterator[tuple[str, ast.Call]]:
    """Tags of a network's weights in timm's source, in their order, and what is said of each."""
    spec = importlib.util.find_spec("timm")
    for place in (spec.submodule_search_locations if spec else None) or []:
        for path in sorted(Path(place, "models").glob("*.py")):
            text = path.read_text(encoding="utf-8")
            if any(f"{quote}{base}{end}" in text for quote in "'\"" for end in (".", quote)):
                yield from _of_module(ast.parse(text), base)


def _of_module(module: ast.Module, base: str) -> Iterator[tuple[str, ast.Call]]:
    for table in ast.walk(module):
        if not isinstance(table, ast.Dict):
            continue
        for key, value in zip(table.keys, table.values, strict=True):
            name, _, tag = _text(key).partition(".")
            if name == base and isinstance(value, ast.Call):
                yield tag, value


def _text(node: ast.expr | None) -> str:
    """A text that is written out; empty for anything else."""
    said = node.value if isinstance(node, ast.Constant) else None
    return said if isinstance(said, str) else ""
