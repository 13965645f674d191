"""Settings that nobody thought of."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from josrc.errors import UserError
from josrc.runs.resolve import in_one_line, merge, nested, parse_override, read_yaml
from properties import names, same, scalars, tried, written

keys = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8}){0,3}", fullmatch=True)


values = st.recursive(
    scalars, lambda part: st.lists(part) | st.dictionaries(names, part), max_leaves=9
)


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


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_comes_back_too(value: float) -> None:
    assert parse_override(f"a={in_one_line(value)}") == {"a": value}
