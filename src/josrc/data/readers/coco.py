"""COCO's JSON, as far as it tells classes of whole images: one category for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josrc._io import readable
from josrc._reading import check_json, load_json
from josrc.config import DataConfig, DataKind
from josrc.data.readers.label_studio import json_begins_with
from josrc.data.readers.manifest import Find, frame_of, read_rows
from josrc.data.readers.table import Reader, Table
from josrc.data.readers.task_schemas import Coco
from josrc.errors import UserError

if TYPE_CHECKING:
    import pandas


class CocoReader(Reader):
    """Images, annotations and categories in a JSON file."""

    kind = DataKind.COCO

    @staticmethod
    def claims(name: str) -> bool:
        """A JSON file that holds an object."""
        return json_begins_with(Path(name).expanduser(), "{")

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Images in their order, each with the category of its annotations."""
        return read_rows(Path(config.place), config, frames)


def frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    """The images as rows of a manifest: path, label, id, and whatever else is said of them."""
    with readable(path, "can't be read as COCO"):
        found = load_json(path)
        missing = {"images", "annotations", "categories"} - found.keys()
        if missing:
            raise UserError(
                f"{path} is not COCO: it has no '{min(missing)}'. It needs images, annotations and "
                "categories. Other JSON is read as JSONL, a row per line."
            )
        check_json(Coco, found, path, "is not COCO")
        names = {category["id"]: str(category["name"]) for category in found["categories"]}
        labels: dict[Any, list[str]] = {image["id"]: [] for image in found["images"]}
        for annotation in found["annotations"]:
            image, category = annotation["image_id"], annotation["category_id"]
            if image not in labels or category not in names:
                what = f"image {image}" if image not in labels else f"category {category}"
                raise UserError(f"{path}: an annotation is of {what}, which is not in the file.")
            if names[category] not in labels[image]:
                labels[image].append(names[category])
        rows = [_row(image, labels[image["id"]]) for image in found["images"]]
    yield frame_of(rows, find)


def _row(image: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    """An image; the id of a sample is what it was called before, or the name of its file."""
    left = ("id", "file_name", "width", "height", "sample_id")
    rest = {name: value for name, value in image.items() if name not in left}
    label: Any = labels if len(labels) > 1 else next(iter(labels), None)
    name = image["file_name"]
    return {**rest, "path": name, "label": label, "id": image.get("sample_id", name)}
