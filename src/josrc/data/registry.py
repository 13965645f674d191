"""The data sets that josrc knows by name, and what sort of data any other name stands for.

A data set is a file in ``datasets/`` with two functions, ``open_source(config)`` and
``check(config, console)``, and a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josrc._console import clipped
from josrc._io import is_url
from josrc._plugins import load_plugin, plugin_names
from josrc.config import DataConfig, DataKind
from josrc.data.readers import READERS, read_table
from josrc.data.readers.manifest import MANIFESTS, lists_images
from josrc.data.remote import local_or_url, protocol_of
from josrc.errors import UserError, closest

if TYPE_CHECKING:
    from josrc.data.source import Source


@dataclass(frozen=True)
class Dataset:
    """A data set that josrc knows by name.

    Attributes:
        kind: ``BUILTIN`` if it is in memory as a whole, ``PUBLISHED`` if its images stay in files.
        module: its file in ``datasets/``, imported when it is asked for.
        plugin: instead of it, what another package adds.
    """

    kind: DataKind
    module: str = ""
    plugin: Any = None

    def open(self, config: DataConfig) -> Source:
        """Its samples without noise; no image in a file is decoded yet."""
        source: Source = self._imported().open_source(config)
        return source

    def check(self, config: DataConfig, console: Any) -> Iterator[str]:
        """For ``josrc doctor``: lines on what is there; what is wrong is an error."""
        lines: Iterator[str] = self._imported().check(config, console)
        return lines

    @property
    def recipe(self) -> Mapping[str, Any] | None:
        """The settings that a package brings with its data set; none of josrc's own, in files."""
        return None if self.plugin is None else dict(getattr(self.plugin, "recipe", {}))

    def _imported(self) -> Any:
        if self.plugin is not None:
            return self.plugin
        return importlib.import_module(f"josrc.data.datasets.{self.module}")


DATASETS = {
    "digits-o": Dataset(DataKind.BUILTIN, "digits"),
    "cifar100n-c": Dataset(DataKind.BUILTIN, "cifar"),
    "cifar80n-o": Dataset(DataKind.BUILTIN, "cifar"),
    "cifar10n": Dataset(DataKind.BUILTIN, "cifar_n"),
    "cifar100n": Dataset(DataKind.BUILTIN, "cifar_n"),
    "clothing1m": Dataset(DataKind.PUBLISHED, "clothing1m"),
    "food101n": Dataset(DataKind.PUBLISHED, "food101n"),
}


# The entry points by which other packages add data sets: a name, and a module or an object with
# ``open_source`` and ``check``, perhaps with ``kind`` (builtin or published) and ``recipe``.
PLUGINS = "josrc.datasets"


def find_dataset(name: str) -> Dataset | None:
    """The data set of a name, josrc's own or that of another package."""
    if name in DATASETS or name not in plugin_names(PLUGINS):
        return DATASETS.get(name)
    found = load_plugin(PLUGINS, name)
    missing = [what for what in ("open_source", "check") if not callable(getattr(found, what, 0))]
    if missing:
        raise UserError(f"The data set {name} has no function {missing[0]}: {found!r}")
    kind = str(getattr(found, "kind", DataKind.BUILTIN))
    if kind not in (DataKind.BUILTIN, DataKind.PUBLISHED):
        raise UserError(f"The data set {name} is of the kind '{kind}': builtin or published.")
    return Dataset(DataKind(kind), plugin=found)


def dataset(name: str) -> Dataset:
    """The data set of a name that is known to be one."""
    found = find_dataset(name)
    if found is None:
        raise UserError(f"There is no data set '{name}' any more. Is its package installed?")
    return found


# --- what a name stands for ----------------------------------------------------------------------


def describe_data(name: str, **settings: Any) -> DataConfig:
    """The configuration of data by its name or path, which decides what sort of data it is."""
    kind = kind_of(name)
    return DataConfig(name=full_name(name, kind), kind=kind, **settings)


def kind_of(name: str) -> DataKind:
    """What sort of data a name or a path stands for; a helpful error if for none."""
    if not name.strip():
        raise UserError("The name or path of the data is empty. Was a shell variable unset?")
    known = find_dataset(name)
    if known is not None:
        return known.kind
    name = local_or_url(name)
    if is_url(name):
        protocol_of(name)
    for reader in READERS:
        if reader.claims(name):
            return reader.kind
    if is_url(name):
        raise UserError(
            f"{name}: behind an address josrc reads manifests ({', '.join(MANIFESTS)}), tar files "
            "and parquet files, or a folder of these. List images that lie there in a manifest."
        )
    if "/" in name or Path(name).suffix:
        name = clipped(name)
        raise UserError(f"{name} does not exist: it is neither a file, a folder nor a data set.")
    names = [*DATASETS, *plugin_names(PLUGINS)]
    raise UserError(
        f"There is no file, folder or data set '{clipped(name)}'.{closest(name, names)}"
    )


def full_name(name: str, kind: DataKind) -> str:
    """A name as a run keeps it: of a path the whole, as the run may be resumed from elsewhere."""
    name = local_or_url(name)
    path = Path(name).expanduser()
    own = kind.has_place and (path.exists() or (kind is DataKind.SHARDS and not is_url(name)))
    return str(path.absolute()) if own else name


def kind_of_recorded(name: str) -> DataKind:
    """What sort of data a run was trained on whose configuration does not say so yet.

    The data may be gone by now.
    """
    from josrc.data.readers.arrays import ARRAYS_NAME

    if name == ARRAYS_NAME:
        return DataKind.ARRAYS
    if Path(name).is_absolute() and not Path(name).exists():
        return DataKind.MANIFEST if lists_images(Path(name)) else DataKind.FOLDER
    return kind_of(name)


def check_root(config: DataConfig) -> None:
    """Raise an error if somebody says where own images are, and says it twice."""
    if config.root is not None and config.kind.has_place:
        raise UserError(
            f"--data-root {config.root} is for data that josrc knows by name, and for what a run "
            f"was trained on. {config.name} says by itself where it is."
        )


# --- opening -------------------------------------------------------------------------------------


def open_source(config: DataConfig) -> Source:
    """The data of a configuration, with its label noise.

    Images in files are only opened: noise is drawn for those that turn out to be sound.
    """
    from josrc.data.source import with_noise

    source = dataset(config.name).open(config) if config.kind.is_named else open_own(config)
    return with_noise(source, config) if source.images.in_memory else source


def open_own(config: DataConfig) -> Source:
    """What a path or a hub data set holds."""
    from josrc.data.assemble import assemble

    testing = None
    if config.test is not None:
        testing = read_table(config.model_copy(update=_named(str(config.test))))
    return assemble(read_table(config), config, testing)


def _named(name: str) -> dict[str, Any]:
    # Labels to test with are right, and need no annotators; nothing of them is held out.
    alone = {"annotator_column": None, "annotator_columns": None, "group_column": None}
    return {"name": name, "kind": kind_of(name), "root": None, **alone}
