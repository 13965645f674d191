"""Readers: what a folder, a manifest or a hub data set says of its images.

A new sort of data is one more class, with a name for it in ``DataKind``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from josrc.config import DataConfig, DataKind
from josrc.data.image_files import ImageFiles
from josrc.data.packed_images import unpacked
from josrc.data.packed_strings import PackedStrings
from josrc.data.readers.coco import CocoReader
from josrc.data.readers.folder import FolderReader, image_files
from josrc.data.readers.hub import HubReader
from josrc.data.readers.label_studio import LabelStudioReader
from josrc.data.readers.manifest import ManifestReader, is_manifest, read_manifest
from josrc.data.readers.shards import ShardsReader, names_in, shard_files
from josrc.data.readers.table import Reader, Table, checked
from josrc.errors import UserError

# Who is asked first: a saved Hugging Face data set is a folder too.
READERS: tuple[type[Reader], ...] = (
    HubReader, ShardsReader, FolderReader, LabelStudioReader, CocoReader, ManifestReader,
)  # fmt: skip


def read_table(config: DataConfig) -> Table:
    """The images of a path or of a data set on the hub."""
    if config.path is not None and not config.path.exists():
        raise UserError(f"{config.path} does not exist.")
    if config.has_annotators and config.kind is not DataKind.MANIFEST:
        raise UserError(
            f"{config.place} is not a manifest: columns of annotators (--annotator-column, "
            "--annotator-columns) are in one."
        )
    reader = next(reader for reader in READERS if reader.kind is config.kind)
    return checked(config.place, reader.read(config))


def list_images(
    paths: Sequence[Path], path_column: str | None = None, allow_outside: bool = False
) -> tuple[ImageFiles, Mapping[str, int]]:
    """Where the images of files, folders, manifests, tars and parquet files lie, in their order.

    Of a folder it is every file below it but hidden ones and those whose names say that they are no
    pictures; how many of which kinds these are comes second.

    Args:
        paths: those files, folders and manifests.
        path_column: of manifests and parquet files; none: found by its name.
        allow_outside: manifests may name files anywhere.
    """
    left_out: Counter[str] = Counter()

    def names() -> Iterator[str]:
        for path in paths:
            if not path.exists():
                raise UserError(f"{path} does not exist.")
            if ShardsReader.claims(str(path)):
                for file in shard_files(str(path)):
                    yield from names_in(file, path_column)
            elif path.is_dir():
                yield from image_files(path, left_out)
            elif is_manifest(path):
                config = DataConfig(
                    name=str(path),
                    kind=DataKind.MANIFEST,
                    path_column=path_column,
                    allow_outside=allow_outside,
                )
                images = read_manifest(path, config, needed=("path",)).images
                yield from map(images.location, range(len(images)))
            else:
                yield str(path)

    return unpacked(ImageFiles(PackedStrings.of(names()), Path.cwd())), left_out
