"""A Hugging Face data set: one saved to disk, or one that the library finds by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from josrc.config import HUB, DataConfig, DataKind
from josrc.data.image_files import HubImages
from josrc.data.readers._extras import library
from josrc.data.readers.manifest import columns_of, whole
from josrc.data.readers.table import SPLITS, Reader, Table, TableBuilder
from josrc.errors import UserError, sentence


class HubReader(Reader):
    """What the library ``datasets`` loads."""

    kind = DataKind.HUB

    @staticmethod
    def claims(name: str) -> bool:
        """``hf:NAME``, or a folder that ``save_to_disk`` wrote."""
        return name.startswith(HUB) or is_saved_dataset(Path(name).expanduser())

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Rows in their order, split by split."""
        return read_hub(config.place, config)


def is_saved_dataset(path: Path) -> bool:
    """Whether a folder is what ``save_to_disk`` wrote."""
    return any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def read_hub(name: str, config: DataConfig) -> Table:
    """A data set saved by ``save_to_disk``, or one that the library finds by its name."""
    datasets = library("datasets", "hf", f"{name} is a Hugging Face data set")
    try:
        if config.path is None:
            loaded = datasets.load_dataset(name.removeprefix(HUB))
        else:
            loaded = datasets.load_from_disk(name)
    except Exception as error:  # network, hub and files fail in many ways
        raise UserError(f"{name} can't be loaded: {sentence(error)}") from None
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    found, used = TableBuilder(), []
    kinds: dict[str, str] = {}
    for part, rows in parts.items():
        if part.lower() in SPLITS:
            kinds = kinds or columns_of(rows.column_names, config, name)
            _add_hub_rows(found, rows, part, kinds)
            used.append(rows)
    if not used:
        raise UserError(f"{name} has no split 'train' (it has: {', '.join(parts)}).")
    rows = datasets.concatenate_datasets(used)
    column = kinds["path"]
    if isinstance(rows.features[column], datasets.Image):
        rows = rows.cast_column(column, datasets.Image(decode=False))
    table = found.table(Path())
    index = np.arange(len(table.ids))
    images = HubImages(table.ids, Path(), rows=rows, column=column, index=index)
    return Table(images, table.labels, table.class_names, table.ids, table.split)


def _add_hub_rows(found: TableBuilder, rows: Any, part: str, columns: dict[str, str]) -> None:
    names = getattr(rows.features[columns["label"]], "names", None)
    for number, label in enumerate(map(whole, rows[columns["label"]])):
        text = None if label in (None, -1, "") else str(label)
        if names is not None and text is not None:
            text = str(names[label])
        found.add(f"{part}/{number}", text, f"{part}/{number}", SPLITS[part.lower()])
