"""A Hugging Face data set: one saved to disk, or one that the library finds by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from josrc._console import clipped
from josrc._io import is_url
from josrc._reading import regular_below
from josrc.config import HUB, DataConfig, DataKind
from josrc.data.image_files import HubImages
from josrc.data.readers._extras import library
from josrc.data.readers.manifest import check_text, columns_of, whole
from josrc.data.readers.several_labels import check_single, listed_label, refuse_several
from josrc.data.readers.table import SPLITS, Reader, Table, TableBuilder
from josrc.errors import UserError, sentence


class HubReader(Reader):
    """What the library ``datasets`` loads."""

    kind = DataKind.HUB

    @staticmethod
    def claims(name: str) -> bool:
        """``hf:NAME``, or a folder that ``save_to_disk`` wrote."""
        hub = name.startswith(HUB) and not is_url(name)
        return hub or is_saved_dataset(Path(name).expanduser())

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
            loaded = datasets.load_from_disk(str(regular_below(config.path)))
    except UserError:
        raise
    except Exception as error:  # network, hub and files fail in many ways
        raise UserError(f"{name} can't be loaded: {sentence(error)}") from None
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    found, used = TableBuilder(), []
    kinds: dict[str, str] = {}
    for part, rows in parts.items():
        if part.lower() in SPLITS:
            kinds = kinds or columns_of(rows.column_names, config, name)
            _check_columns(rows.features, kinds, f"{name}, split '{part}'", datasets)
            _add_hub_rows(found, rows, part, kinds, name, whole_labels=config.whole_labels)
            used.append(rows)
    if not used:
        raise UserError(f"{name} has no split 'train' (it has: {', '.join(parts)}).")
    column = kinds["path"]
    try:
        rows = datasets.concatenate_datasets([part.select_columns([column]) for part in used])
    except ValueError as error:
        raise UserError(f"{name}: the images of its splits are not of one type: {error}") from None
    if isinstance(rows.features[column], datasets.Image):
        rows = rows.cast_column(column, datasets.Image(decode=False))
    if not config.whole_labels:
        check_single(name, found.label_counts())
    table = found.table(Path())
    index = np.arange(len(table.ids))
    images = HubImages(table.ids, Path(), rows=rows, column=column, index=index)
    return Table(images, table.labels, table.class_names, table.ids, table.split)


def _check_columns(features: Any, columns: dict[str, str], where: str, datasets: Any) -> None:
    """Raise an error unless a split has these columns, with images and labels in them."""
    for kind, wanted in (("path", "images"), ("label", "labels")):
        column = columns[kind]
        if column not in features:
            found = ", ".join(features)
            raise UserError(f"{where} has no column '{column}', but {found}.")
        feature = features[column]
        if kind == "path":
            fits = isinstance(feature, datasets.Image)
            fits = fits or (isinstance(feature, dict) and bool({"bytes", "path"} & feature.keys()))
        else:
            fits = isinstance(feature, datasets.ClassLabel | datasets.Value | datasets.List)
        if not fits:
            raise UserError(
                f"{where}: column '{column}' holds {clipped(str(feature))}, not {wanted}."
            )


def _add_hub_rows(
    found: TableBuilder,
    rows: Any,
    part: str,
    columns: dict[str, str],
    name: str,
    *,
    whole_labels: bool,
) -> None:
    names = getattr(rows.features[columns["label"]], "names", None)
    for number, cell in enumerate(map(whole, rows[columns["label"]])):
        listed = None if whole_labels else listed_label(cell)
        if listed is not None and len(listed) > 1:
            raise refuse_several(f"{name}, row {number:,} of split '{part}'", str(cell), 1)
        label = cell if listed is None else (listed or [None])[0]
        text = None if label in (None, -1, "") else str(label)
        if names is not None and text is not None:
            if not 0 <= label < len(names):
                raise UserError(
                    f"{name}: row {number:,} of split '{part}' has the label {label}, and there "
                    f"are {len(names):,} classes."
                )
            text = str(names[label])
        if text is not None:
            check_text(text, f"{name}, row {number:,} of split '{part}'", "label")
        found.add(f"{part}/{number}", text, f"{part}/{number}", SPLITS[part.lower()])
