"""Readers: what a folder, a manifest or a hub data set says of its images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from josrc.config import DataConfig
from josrc.data.image_files import ImageFiles
from josrc.data.packed_strings import Strings
from josrc.data.readers.folder import image_files, read_folder
from josrc.data.readers.hub import HUB, is_saved_dataset, read_hub
from josrc.data.readers.manifest import MANIFESTS, read_manifest
from josrc.data.readers.table import Table, checked
from josrc.errors import UserError


def read_table(name: str, config: DataConfig) -> Table:
    """The images of a path or of ``hf:NAME``."""
    path = Path(name)
    if name.startswith(HUB) or is_saved_dataset(path):
        table = read_hub(name, config)
    elif path.is_dir():
        table = read_folder(path)
    elif path.suffix.lower() in MANIFESTS:
        table = read_manifest(path, config)
    elif not path.exists():
        raise UserError(f"{path} does not exist.")
    else:
        raise UserError(
            f"{path} is neither a folder of class folders nor a manifest ({', '.join(MANIFESTS)})."
        )
    return checked(name, table)


def list_images(paths: Sequence[Path], config: DataConfig) -> tuple[ImageFiles, Mapping[str, int]]:
    """Where the images of files, of folders and of manifests lie, labelled or not, in their order.

    Of a folder it is every file below it but hidden ones and those whose names say that they are no
    pictures; how many of which kinds these are comes second.
    """
    left_out: Counter[str] = Counter()

    def names() -> Iterator[str]:
        for path in paths:
            if not path.exists():
                raise UserError(f"{path} does not exist.")
            if path.is_dir():
                yield from image_files(path, left_out)
            elif path.suffix.lower() in MANIFESTS:
                images = read_manifest(path, config, needed=("path",)).images
                assert isinstance(images, ImageFiles)
                yield from map(images.location, range(len(images)))
            else:
                yield str(path)

    return ImageFiles(Strings.of(names()), Path.cwd()), left_out
