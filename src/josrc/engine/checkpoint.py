"""Checkpoints: one safetensors file that is always whole, with its metadata as JSON inside."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from josrc._io import atomic_write
from josrc.errors import UserError, reason

METADATA = "josrc"


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata to ``path``: the old file or the new one, never a part."""
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


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a checkpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get(METADATA, "{}"))
            return {key: file.get_tensor(key) for key in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"Checkpoint {path} can't be read: {reason(error)}") from None
