"""What ``josrc apply --to`` writes: one file for each sort, all of the same rows."""

from __future__ import annotations

from typing import Literal, get_args

Format = Literal["csv", "parquet", "coco", "hf", "label-studio"]
FORMATS: tuple[str, ...] = get_args(Format)
# How the names of their files end; a folder has none.
SUFFIXES = {"csv": ".csv", "parquet": ".parquet", "coco": ".json", "label-studio": ".json"}
