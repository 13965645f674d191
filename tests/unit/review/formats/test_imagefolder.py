"""Folders as Hugging Face's datasets read them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import datasets
import pytest

from commands import josrc
from exports import check


# The library leaves the file of the table open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_imagefolder_is_read_by_datasets(listed: Path, monkeypatch: Any) -> None:
    out = listed.parent / "hub"
    assert josrc("apply", listed, "--to", "hf", "--out", out) == 0
    monkeypatch.setenv("HF_DATASETS_CACHE", str(listed.parent / "cache"))
    cache = str(listed.parent / "cache")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(out), cache_dir=cache)
    rows = {}
    for split, part in loaded.items():
        for row in part:
            number = int(row["id"].removeprefix("im-"))
            assert row["image"].size == (20 + number, 16)
            # The library reads digits as numbers.
            row |= {"split": {"validation": "val"}.get(split, split)}
            rows[number] = row | {"camera": f"{row['camera']:02}"}
    check(rows)
    del loaded, part
    gc.collect()  # the warning comes now, and not in a later test
