"""Every setting of a run with its default and its meaning, read from where it is defined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from josrc.config import RunConfig, Section, pace_of, phase_of
from josrc.methods import get_method
from josrc.runs.resolve import in_one_line

# Every method has a name of its own and says no more about it.
ELSEWHERE = {"method.name": "the method; josrc methods lists them"}


@dataclass(frozen=True)
class Setting:
    """A key that ``KEY=VALUE`` and a YAML file may set.

    Attributes:
        key: its whole name, as ``optimizer.lr``.
        default: what it is where nobody says otherwise, as YAML writes it; empty if it must be
            given.
        meaning: what it does, with the values it may have where they are few.
    """

    key: str
    default: str
    meaning: str


def settings_of(method: str) -> list[Setting]:
    """All settings of a run with ``method``."""
    return list(_settings(RunConfig, "", {"method": get_method(method).Settings}))


def _settings(
    section: type[Section], prefix: str, kinds: dict[str, type[Section]]
) -> Iterator[Setting]:
    for name, field in section.model_fields.items():
        kind = kinds.get(name, field.annotation)
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _settings(kind, f"{prefix}{name}.", {})
        else:
            key = prefix + name
            default = "" if field.is_required() else in_one_line(field.default)
            yield Setting(key, default, ELSEWHERE.get(key) or _meaning(field))


def _meaning(field: FieldInfo) -> str:
    scaled = phase_of(field)
    pace = pace_of(field)
    choices = ", ".join(in_one_line(value) for value in _choices(field.annotation))
    notes = [
        field.description,
        choices and f"one of {choices}",
        scaled and f"scales with epochs: given for a run of {scaled}",
        pace and f"grows as a run has fewer epochs: given for one of {pace}",
    ]
    return "; ".join(str(note) for note in notes if note)


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values of a ``Literal``, also of one that may be null."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for part in get_args(annotation) for value in _choices(part))
