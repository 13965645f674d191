"""``josrc doctor``: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from getpass import getuser
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console

from josrc.data.class_checks import warn_of_odd_classes
from josrc.data.duplicates import tally
from josrc.data.image_files import ImageFiles
from josrc.data.prepare import available_memory
from josrc.data.readers.folder import describe_left_out
from josrc.data.registry import dataset, describe_data, kind_of
from josrc.data.source import Source
from josrc.data.workers import default_workers
from josrc.engine.device import device_name
from josrc.engine.run_folder import versions
from josrc.errors import UserError, command, install_command
from josrc.runs.data import read_images
from josrc.runs.intro import describe_classes
from josrc.runs.start import plan

# Pixels of an image that is named.
VERY_LARGE = 2**26
# What is found, by name, in the order in which it is shown.
Lines = Iterator[tuple[str, str]]
# Collections of other extras, and tools for those who work on josrc itself.
NOT_EXTRAS = ("all", "dev")


def examine() -> Lines:
    """Everything about this machine that decides whether josrc runs, and how fast."""
    for name, version in versions().items():
        yield name, version
    yield "platform", f"{platform.platform()}, {device_name(torch.device('cpu'))}"
    yield from _devices()
    yield from _extras()
    yield from _space()
    for name, folder in compile_caches().items():
        yield name, f"{folder} ({_holds(folder)})"


def _devices() -> Lines:
    yield "CUDA", torch.version.cuda or "none: this build of torch is for CPUs only"
    try:
        yield "Triton", importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        yield "Triton", "missing: steps are not compiled (it comes with torch for Linux and CUDA)"
    if dist.is_available():  # not in every build of torch
        backends = [name for name in ("nccl", "gloo") if dist.is_backend_available(name)]
        yield "torchrun", f"processes talk by {' and '.join(backends)}"
    if not torch.cuda.is_available():
        yield "GPU", "none that torch can use: training is slow except on small images"
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        major, minor = torch.cuda.get_device_capability(number)
        name = torch.cuda.get_device_name(number)
        told = f"{name}, compute capability {major}.{minor}"
        yield f"GPU {number}", f"{told}, {_size(free)} of {_size(total)} free"


def _extras() -> Lines:
    try:
        required = importlib.metadata.requires("josrc") or []
    except importlib.metadata.PackageNotFoundError:
        yield "extras", "unknown: josrc is not installed, it runs from its sources"
        return
    for extra, missing in missing_packages(required).items():
        lacking = f"missing {', '.join(missing)}: {install_command(extra)}"
        yield f"extra {extra}", lacking if missing else "installed"


def missing_packages(required: Iterable[str]) -> dict[str, list[str]]:
    """Which packages of each extra are not installed, from a package's list of requirements."""
    found: dict[str, list[str]] = {}
    for line in required:
        extra = re.search(r"""extra\s*==\s*["']([^"']+)["']""", line)
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if extra is None or name is None or extra[1] in NOT_EXTRAS:
            continue
        missing = found.setdefault(extra[1], [])
        try:
            importlib.metadata.version(name[0])
        except importlib.metadata.PackageNotFoundError:
            missing.append(name[0])
    return dict(sorted(found.items()))


def _space() -> Lines:
    yield "memory", f"{_size(available_memory())} free, {default_workers(10**6)} cores for decoding"
    shared = Path("/dev/shm")
    if shared.is_dir():
        yield "shared memory", f"{_size(shutil.disk_usage(shared).free)} free for decoded images"
    yield "disk", f"{_size(shutil.disk_usage(Path.cwd()).free)} free in {Path.cwd()}"


def compile_caches() -> dict[str, Path]:
    """Where torch and Triton keep what they compiled: a second run of its kind starts sooner."""
    try:
        user = getuser()
    except (KeyError, OSError, ImportError):  # a container may have a number and no name
        user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    inductor = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    triton = Path.home() / ".triton" / "cache"
    return {
        "compile cache": Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or inductor),
        "Triton cache": Path(os.environ.get("TRITON_CACHE_DIR") or triton),
    }


def _holds(folder: Path) -> str:
    if not folder.is_dir():
        return "empty"
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{len(files):,} files, {_size(sum(files))}"


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


# --- data sets -----------------------------------------------------------------------------------


def check_data(name: str, folder: Path | None, console: Console, **manifest: Any) -> Iterator[str]:
    """Look at all files of a data set; what is wrong raises a UserError.

    Args:
        name: of the data set; or a path, for own images.
        folder: where it lies; none: where a download would put it.
        console: shows how far a long check is.
        manifest: how to read one of own images, as options of training.
    """
    if kind_of(name).is_named:
        yield from dataset(name).check(describe_data(name, root=folder), console)
        return
    if folder is not None:
        raise UserError(f"{name} is a path itself: {command('doctor data', name)}")
    yield from check_own(name, console, **manifest)


def _very_large(source: Source) -> Iterator[str]:
    """Images that take a worker hundreds of megabytes, and training longer than all others."""
    held = None if source.val is None else source.val.images
    for images in (source.images, held, source.test_images):
        if not isinstance(images, ImageFiles) or images.is_remote:  # each would be fetched again
            continue
        for index in range(len(images)):
            width, height = images.stored_size(index)
            if width * height > VERY_LARGE:
                yield (
                    f"Very large: {images.location(index)}: {width:,} x {height:,} pixels, and a "
                    f"worker needs {_size(4 * width * height)} or more to decode it. Make it "
                    "smaller."
                )


def check_own(name: str, console: Console, **manifest: Any) -> Iterator[str]:
    """Own images, read as training would read them: every file is decoded once."""
    config, source = plan(name, **manifest)
    assert source is not None
    data = config.data.model_copy(update={"resident": False})
    source = read_images(source, config.model_copy(update={"data": data}), console)
    held = 0 if source.val is None else len(source.val)
    tested = 0 if source.test_images is None else len(source.test_images)
    yield f"{len(source):,} images to train on, {held:,} held out, {tested:,} to test on."
    yield describe_classes(source)
    yield from warn_of_odd_classes(source)
    yield from describe_left_out(source.left_out)
    copies = tally(source.listed_duplicates())
    yield from copies.sentences() or ["No file is an exact copy of another."]
    for group in copies.named:
        names = ", ".join(f"{copy.name} ('{copy.given_label}')" for copy in group)
        yield f"One picture, different labels: {names}"
    if copies.conflicts > len(copies.named):
        yield f"And {copies.conflicts - len(copies.named):,} more pictures with different labels."
    yield from _very_large(source)
    for path, reason in source.skipped or ():
        yield f"Not an image: {path}: {reason}"
