"""Files that are whole at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc._io import atomic_write, write_text


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    write_text(file, "old")
    writing = atomic_write(file)
    writing.__enter__().write_text("half")
    assert not writing.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_in_its_place_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="There is a folder where the file should go"):
        write_text(tmp_path, "text")
    assert not list(tmp_path.iterdir())
