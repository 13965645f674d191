"""What other tools' JSON must hold, as far as josrc relies on it: Label Studio's tasks, COCO.

Whatever else stands there is left alone.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

Text: TypeAlias = str | None
Name: TypeAlias = str | int | float
Person: TypeAlias = str | int | dict[str, Any] | None


class Schema(BaseModel):
    """Base of all: no text stands for a number."""

    model_config = ConfigDict(strict=True)


class Value(Schema):
    """What a result says; only choices are of use."""

    choices: list[Name] | None = None


class Result(Schema):
    """An answer to one question."""

    id: Name | None = None
    type: Text = None
    from_name: Text = None
    value: Value | None = None


class Annotation(Schema):
    """What one person answered."""

    result: list[Result] | None = None
    was_cancelled: bool | None = None
    completed_by: Person = None
    updated_by: Person = None
    created_at: Text = None
    updated_at: Text = None


class Task(Schema):
    """A task of Label Studio."""

    data: dict[str, Any]
    annotations: list[Annotation] | None = None


class CocoImage(Schema):
    """An image of COCO."""

    id: str | int
    file_name: str


class CocoCategory(Schema):
    """A class of COCO."""

    id: str | int
    name: Name


class CocoAnnotation(Schema):
    """Which class an image is of."""

    image_id: str | int
    category_id: str | int


class Coco(Schema):
    """A file of COCO."""

    images: list[CocoImage]
    annotations: list[CocoAnnotation]
    categories: list[CocoCategory]
