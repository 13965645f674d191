"""What the tests of the bench share."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from bench_results import PutResult, put


@pytest.fixture
def put_result(tmp_path: Path) -> PutResult:
    """Writes ``tmp_path/PLACE/seed-SEED.json``; keywords change what is in it."""
    return partial(put, tmp_path)
