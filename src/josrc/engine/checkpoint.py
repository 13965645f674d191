"""Checkpoints: one safetensors file that is always whole, with its metadata as JSON inside."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from josrc._io import UNREADABLE, atomic_write, partial_of
from josrc._reading import check_json, parse_json, regular
from josrc.errors import UserError, reason

METADATA = "josrc"


def save_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any], before: Path | None = None
) -> None:
    """Write tensors and JSON metadata to ``path``: the old file or the new one, never a part.

    Args:
        path: where to.
        tensors: by their names.
        metadata: what else there is to know.
        before: keeps what ``path`` held, once the new file has been read back.
    """
    on_cpu = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    with atomic_write(path) as partial:
        try:
            save_file(on_cpu, partial, metadata={METADATA: json.dumps(metadata)})
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise OSError(f"{path} can't be written: {error}") from None
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
        partial.chmod(0o644)  # safetensors lets nobody but its owner read
        if before is not None:
            _check_written(partial, on_cpu)
            if path.is_file():
                _keep(path, before)


def _check_written(path: Path, tensors: dict[str, Tensor]) -> None:
    """Raise an error unless a file holds these tensors, bit by bit."""
    with safe_open(regular(path), framework="pt") as file:
        for key, value in tensors.items():
            wanted, found = (_bits(tensor) for tensor in (value, file.get_tensor(key)))
            if not torch.equal(wanted, found):
                raise OSError(f"{path}: {key} could not be read back as it was written.")


def _bits(tensor: Tensor) -> Tensor:
    """A tensor's bytes: numbers that are not numbers are equal to themselves."""
    return tensor.reshape(-1).view(torch.uint8)


def _keep(path: Path, before: Path) -> None:
    """Give a file a second name, which it keeps when another takes its first."""
    partial = partial_of(before)
    partial.unlink(missing_ok=True)
    try:
        partial.hardlink_to(path)
    except OSError:  # a file system without hard links
        shutil.copyfile(regular(path), partial)
    partial.replace(before)


def load_tensors(
    path: Path, schema: type[BaseModel] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a checkpoint.

    Args:
        path: the file.
        schema: what its metadata must be.
    """
    try:
        with safe_open(regular(path), framework="pt") as file:
            metadata = parse_json((file.metadata() or {}).get(METADATA, "{}"))
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except UserError:
        raise
    except (SafetensorError, *UNREADABLE) as error:
        raise UserError(f"Checkpoint {path} can't be read: {reason(error)}") from None
    if schema is not None:
        check_json(schema, metadata, path)
    return tensors, metadata
