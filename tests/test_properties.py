"""The small parsers, on whatever hypothesis thinks of: a value that makes sense, or a UserError."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from josrc.config import DataConfig, DataKind
from josrc.data.label_files import read_label_file
from josrc.data.packed_strings import PackedStrings
from josrc.data.readers.manifest import read_manifest
from josrc.errors import UserError
from josrc.runs.resolve import in_one_line, merge, nested, parse_override, read_yaml

# The same examples in every run, and none kept in a folder.
same = settings(derandomize=True, database=None, deadline=None, max_examples=60)
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)
keys = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8}){0,3}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names
values = st.recursive(
    scalars, lambda part: st.lists(part) | st.dictionaries(names, part), max_leaves=9
)
CLASSES = ["cat", "dog", "2"]


def written(name: str, content: bytes | str, folder: str) -> Path:
    path = Path(folder, name)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def tried(parse: Callable[[], Any]) -> Any:
    """What a parser gives, or the mistake that it finds. Any other error fails the test."""
    try:
        return parse()
    except UserError as error:
        return error


@same
@given(st.text())
@example("epochs=" + "[" * 500)
@example("epochs=&a [*a]")
@example("a=!!python/object/apply:os.system ['exit 1']")
def test_any_pair_is_a_setting_or_a_mistake(pair: str) -> None:
    found = tried(lambda: parse_override(pair))
    if isinstance(found, UserError):
        assert len(str(found)) < 5000
    else:
        assert isinstance(found, dict)
        assert len(found) == 1


@same
@given(keys, values)
def test_a_value_comes_back_from_the_pair_it_is_written_as(key: str, value: Any) -> None:
    assert parse_override(f"{key}={in_one_line(value)}") == nested(key, value)


@same
@given(st.dictionaries(keys, scalars, max_size=5), st.dictionaries(keys, scalars, max_size=5))
def test_of_two_layers_the_upper_one_holds(below: dict[str, Any], above: dict[str, Any]) -> None:
    flat = {key.replace(".", "_"): value for key, value in below.items()}
    over = {key.replace(".", "_"): value for key, value in above.items()}
    assert merge({"a": flat}, {"a": over}) == {"a": flat | over}


@same
@given(st.binary() | st.text(st.characters(codec="utf-8")).map(str.encode))
@example(b"a: " * 3000)
@example(yaml.safe_dump({"method": {"name": "../../x"}}).encode())
def test_any_file_is_settings_or_a_mistake(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written("c.yaml", content, folder)
        found = tried(lambda: read_yaml(path))
    if isinstance(found, UserError):
        assert "c.yaml" in str(found) or "method" in str(found)
    else:
        assert isinstance(found, dict)


@same
@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
        )
    )
)
def test_strings_come_back_from_their_block(strings: list[str]) -> None:
    raw = [string.encode("utf-8", "surrogateescape") for string in strings]
    packed = PackedStrings.of(strings)
    assert [one.encode("utf-8", "surrogateescape") for one in packed] == raw
    order = np.arange(len(strings))[::-1]
    assert list(packed.take(order)) == list(packed)[::-1]


@same
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=6) | st.binary())
@example(["label", "0", "1", "2"])
@example(["label", "cat", "dog", "2"])
@example(["label", "1_0", "\u0661", "+1"])
def test_a_label_file_gives_a_class_for_each_sample_or_a_mistake(
    content: list[str] | bytes,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = content if isinstance(content, bytes) else "\n".join(content)
        path = written("n.csv", text, folder)
        labels = tried(lambda: read_label_file(path, None, CLASSES, samples=3))
    if isinstance(labels, UserError):
        assert "n.csv" in str(labels)
    else:
        assert len(labels) == 3
        assert set(labels.tolist()) <= {0, 1, 2}


cells = scalars | st.lists(scalars, max_size=2) | st.dictionaries(names, scalars, max_size=2)


@same
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=4))
@example([("a.png", "\ud800"), ("../../a.png", "cat")])
@example([("a\0.png", "cat")])
@example([("x" * 300, "cat")])
def test_a_manifest_gives_paths_below_its_folder_or_a_mistake(rows: list[tuple[Any, Any]]) -> None:
    lines = [json.dumps({"path": path, "label": label}) for path, label in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = written("m.jsonl", "\n".join(lines), folder)
        config = DataConfig(name=str(path), kind=DataKind.MANIFEST)
        table = tried(lambda: read_manifest(path, config))
        if isinstance(table, UserError):
            assert "m.jsonl" in str(table)
        else:
            assert len(table.ids) == len(rows)
            for place in map(table.images.location, range(len(rows))):
                assert Path(os.path.abspath(place)).is_relative_to(folder)  # noqa: PTH100


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_comes_back_too(value: float) -> None:
    assert parse_override(f"a={in_one_line(value)}") == {"a": value}
