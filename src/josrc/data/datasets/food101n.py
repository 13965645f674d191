"""Food101N in its published layout, tested on the test images of Food-101."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._reading import load_json
from josrc.config import DataConfig
from josrc.data.assemble import assemble
from josrc.data.datasets._published import (
    Fault,
    Finding,
    compare_count,
    describe_findings,
    first_of_each,
    missing_images,
    read_lines,
    require_root,
    strings_of,
)
from josrc.data.image_files import ImageFiles
from josrc.data.readers.table import TEST, TRAIN, Table
from josrc.data.source import Source
from josrc.errors import UserError, closest

CLASSES, IMAGES, TEST_IMAGES = 101, 310_009, 25_250
# How many lines each list of checked labels has that name a listed image.
VERIFIED = {"verified_train.tsv": 52_867, "verified_val.tsv": 4_741}
VERIFIED_TRAIN, VERIFIED_VAL = VERIFIED
# Folders that the published archives unpack to.
UNPACKED, UNPACKED_TEST = "Food-101N_release", "food-101"
ADVICE = (
    "Food101N is laid out like this: DIR/meta/classes.txt, imagelist.tsv, verified_train.tsv and "
    "verified_val.tsv, DIR/images/CLASS/*.jpg. Its test set is Food-101 (meta/test.txt or "
    f"test.json, images/CLASS/*.jpg): name its folder with --test, or call it {UNPACKED_TEST} "
    f"and put it into DIR or beside it. DIR may also be the folder that holds {UNPACKED} and "
    f"{UNPACKED_TEST}."
)


def open_source(config: DataConfig) -> Source:
    """What is trained and tested on; no image is decoded yet."""
    layout = Layout.at(config.root, config.test)
    return assemble(layout.training(), config, layout.testing())


@dataclass(frozen=True)
class Layout:
    """Copies of Food101N and of Food-101 on disk."""

    root: Path
    test: Path

    @classmethod
    def at(cls, root: Path | None, test: Path | None = None) -> Layout:
        """Both data sets, found from the folder of the first."""
        root = require_root(root, "food101n", ADVICE)
        root = root / UNPACKED if (root / UNPACKED).is_dir() else root
        if test is None:
            places = [root / UNPACKED_TEST, root.parent / UNPACKED_TEST]
            test = next((place for place in places if place.is_dir()), places[0])
        return cls(root, test)

    def class_names(self) -> list[str]:
        """The classes in the order of their names, as Food-101 numbers them."""
        lines = read_lines(self.root / "meta" / "classes.txt", ADVICE)
        names = {line.decode("utf-8", "replace") for _, line in lines}
        return sorted(names - {"class_name"})

    def _rows(self, name: str) -> Iterator[tuple[int, bytes]]:
        """Lines of a list below ``meta``, without its header, which names no image."""
        for number, line in read_lines(self.root / "meta" / name, ADVICE):
            if number > 1 or line.split(b"\t")[0].endswith(b".jpg"):
                yield number, line

    def keys(self) -> Iterator[bytes]:
        """``CLASS/name.jpg`` of every image."""
        return (line for _, line in self._rows("imagelist.tsv"))

    def test_keys(self) -> list[bytes]:
        """``CLASS/id.jpg`` of every test image of Food-101."""
        text, form = self.test / "meta" / "test.txt", self.test / "meta" / "test.json"
        if text.is_file() or not form.is_file():
            keys = [line for _, line in read_lines(text, ADVICE)]
        else:
            try:
                found = load_json(form)
                keys = [key.encode() for name in sorted(found) for key in found[name]]
            except (ValueError, AttributeError, TypeError) as error:
                raise UserError(f"{form} does not hold the test images by class: {error}") from None
        return [key if key.endswith(b".jpg") else key + b".jpg" for key in keys]

    def verified(self, name: str, wrong: Fault | None = None) -> dict[bytes, int]:
        """What people said of labels, by image: 1 right, 0 wrong."""
        found = {}
        for number, line in self._rows(name):
            key, _, text = line.rpartition(b"\t")
            if key and text in (b"0", b"1"):
                found[key] = int(text)
                continue
            shown = line.decode("utf-8", "replace")
            if wrong is None:
                raise UserError(
                    f"{self.root / 'meta' / name}, line {number:,}: '{shown}' is not an image, a "
                    "tab and 0 or 1."
                )
            wrong.add(f"{name} line {number:,} '{shown}'")
        return found

    def training(self) -> Table:
        """All images, and what people said of their labels."""
        table = self._table(self.keys(), self.root, TRAIN, "imagelist.tsv")
        held = self.verified(VERIFIED_VAL)
        # A label that methods are scored with is none that they learn from.
        learned = {k: v for k, v in self.verified(VERIFIED_TRAIN).items() if k not in held}

        def said(labels: dict[bytes, int]) -> NDArray[np.int8]:
            names = (name.removeprefix("images/").encode() for name in table.ids)
            return np.fromiter((labels.get(name, -1) for name in names), np.int8, len(table.ids))

        return Table(
            table.images,
            table.labels,
            table.class_names,
            table.ids,
            table.split,
            said(learned),
            said(held),
        )

    def testing(self) -> Table:
        """The test images of Food-101."""
        return self._table(self.test_keys(), self.test, TEST, "Food-101's test images")

    def _table(self, keys: Any, root: Path, split: int, what: str) -> Table:
        keys = list(keys)
        if not keys:
            raise UserError(f"{what}: no image is listed in {root / 'meta'}.\n{ADVICE}")
        names = strings_of(b"images/" + key for key in keys)
        class_names = self.class_names()
        place = {name.encode(): number for number, name in enumerate(class_names)}
        folders = [key.partition(b"/")[0] for key in keys]
        for folder in set(folders) - place.keys():
            odd = folder.decode("utf-8", "replace")
            raise UserError(
                f"{what}: class '{odd}' is not in {self.root / 'meta' / 'classes.txt'}."
                f"{closest(odd, class_names)}"
            )
        labels = np.fromiter((place[folder] for folder in folders), np.int64, len(folders))
        index = first_of_each(names)
        if len(index) < len(names):
            names, labels = names.take(index), labels[index]
        splits = np.full(len(names), split, dtype=np.int64)
        return Table(ImageFiles(names, root), labels, class_names, names, splits)


# --- josrc doctor --------------------------------------------------------------------------------


def check(config: DataConfig, console: Any = None) -> Iterator[str]:
    """For ``josrc doctor``: what is there as published; what is not is an error."""
    return describe_findings(findings(config.root), ADVICE)


def findings(root: Path | None, test: Path | None = None) -> Iterator[Finding]:
    """All that can be said of a copy without decoding an image."""
    layout = Layout.at(root, test)
    lists = ("classes.txt", "imagelist.tsv", *VERIFIED)
    paths = [layout.root / "meta" / name for name in lists]
    absent = [path for path in paths if not path.is_file()]
    for path in absent:
        yield Finding(f"{path}: is missing", True)
    names = [] if paths[0] in absent else layout.class_names()
    if names:
        yield compare_count("classes.txt", len(names), CLASSES)
    if paths[1] not in absent:
        keys = list(layout.keys())
        yield from _image_findings("imagelist.tsv", keys, IMAGES, layout.root, names)
        yield from _verified_findings(layout, set(keys))
    meta = layout.test / "meta"
    if not any((meta / name).is_file() for name in ("test.txt", "test.json")):
        yield Finding(f"{meta / 'test.txt'}: is missing (the test set is Food-101's)", True)
        return
    yield from _image_findings(
        "Food-101's test images", layout.test_keys(), TEST_IMAGES, layout.test, names
    )


def _image_findings(
    what: str, keys: list[bytes], published: int, root: Path, names: list[str]
) -> Iterator[Finding]:
    yield compare_count(what, len(keys), published)
    known, odd = {name.encode() for name in names}, Fault(f"lines of {what} name no class")
    for key in keys if names else ():
        if key.partition(b"/")[0] not in known:
            odd.add(key.decode("utf-8", "replace"))
    yield from odd.findings()
    missing = missing_images(ImageFiles(strings_of(b"images/" + key for key in keys), root))
    missing.what = f"images of {what} are missing"
    yield from missing.findings()


def _verified_findings(layout: Layout, keys: set[bytes]) -> Iterator[Finding]:
    wrong, foreign = Fault("lines say neither 0 nor 1"), Fault("checked labels of no listed image")
    for name, published in VERIFIED.items():
        if not (layout.root / "meta" / name).is_file():
            continue
        found = layout.verified(name, wrong)
        yield compare_count(f"{name}, of listed images", len(found.keys() & keys), published)
        for key in found.keys() - keys:
            foreign.add(f"{name} {key.decode('utf-8', 'replace')}")
    yield from wrong.findings()
    # The published list has one such line itself.
    if foreign.count > 1:
        yield from foreign.findings()
    elif foreign.count:
        yield Finding(f"1 checked label of no listed image, as published: {foreign.examples[0]}")
