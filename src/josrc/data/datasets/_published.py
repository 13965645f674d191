"""What published sets of images in files have in common: text files that list them, and faults."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from josrc._reading import regular
from josrc.data.image_files import ImageFiles
from josrc.data.packed_strings import Index, PackedStrings
from josrc.errors import UserError

MAX_EXAMPLES = 3  # examples of a fault


@dataclass(frozen=True)
class Finding:
    """A line that ``josrc doctor data`` shows.

    Attributes:
        text: what was found.
        fault: whether something is wrong with it.
    """

    text: str
    fault: bool = False


@dataclass
class Fault:
    """Something that is wrong with several lines or files: how many, and the first of them."""

    what: str
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        """One more."""
        self.count += 1
        if self.count <= MAX_EXAMPLES:
            self.examples.append(example)

    def findings(self) -> list[Finding]:
        """A line if there were any."""
        if not self.count:
            return []
        more = ", ..." if self.count > MAX_EXAMPLES else ""
        return [Finding(f"{self.count:,} {self.what}: {', '.join(self.examples)}{more}", True)]


def describe_findings(findings: Iterable[Finding], advice: str) -> Iterator[str]:
    """The lines of sound findings as they come; those of faults, and what to do, as an error."""
    faults = []
    for finding in findings:
        if finding.fault:
            faults.append(finding.text)
        else:
            yield finding.text
    if faults:
        raise UserError("\n".join([*faults, advice]))


def compare_count(what: str, count: int, published: int) -> Finding:
    """A number beside the published one."""
    if count == published:
        return Finding(f"{what}: {count:,}, as published")
    return Finding(f"{what}: {count:,}, but {published:,} are published", True)


def read_lines(path: Path, advice: str) -> Iterator[tuple[int, bytes]]:
    """Number and content of every line that is not empty."""
    try:
        with regular(path).open("rb") as file:
            for number, line in enumerate(file, start=1):
                content = line.strip()
                if content:
                    yield number, content
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise UserError(f"{path}: {reason}.\n{advice}") from None


def strings_of(lines: Iterable[bytes]) -> PackedStrings:
    """Many lines as one block, in little memory."""
    block, ends = bytearray(), array("q")
    for line in lines:
        block += line
        ends.append(len(block))
    return PackedStrings(bytes(block), np.array(ends, dtype=np.int64))


def first_of_each(names: PackedStrings) -> Index:
    """Places of the strings without those that stood before, in order."""
    return np.sort(np.unique(names.hashes(), return_index=True)[1]).astype(np.int64)


def missing_images(files: ImageFiles) -> Fault:
    """Listed images that are not files."""
    fault = Fault("listed images are missing")
    for place in range(len(files)):
        if not os.path.isfile(files.location(place)):  # noqa: PTH113  (a Path costs 10 times)
            fault.add(files.names[place])
    return fault


def require_root(root: Path | None, name: str, advice: str) -> Path:
    """The folder that the user named."""
    if root is None:
        raise UserError(f"{name} can't be downloaded by josrc: pass --data-root DIR.\n{advice}")
    if not root.is_dir():
        raise UserError(f"{root} is not a folder.\n{advice}")
    return root.absolute()
