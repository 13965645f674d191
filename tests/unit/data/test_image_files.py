"""Images in files that are pipes, links, or gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from josrc.errors import UserError
from streams import batches, loader_of, source_of


@pytest.mark.parametrize("resident", [True, False])
def test_a_pipe_among_the_images_is_left_out_and_a_link_is_not(
    folder: Path, tmp_path: Path, resident: bool
) -> None:
    (folder / "cat" / "00.png").rename(tmp_path / "elsewhere.png")
    (folder / "cat" / "00.png").symlink_to(tmp_path / "elsewhere.png")
    os.mkfifo(folder / "dog" / "pipe.png")
    (folder / "dog" / "zeros.png").symlink_to("/dev/zero")
    source = source_of(folder, resident=resident)
    reason = "not a regular file: a pipe, a socket or a device"
    assert source.skipped == (
        (str(folder / "dog" / "pipe.png"), reason),
        (str(folder / "dog" / "zeros.png"), reason),
    )
    assert "cat/00.png" in list(source.ids)


def test_a_file_that_vanishes_during_training_is_named(folder: Path) -> None:
    loader = loader_of(source_of(folder, resident=False))
    (folder / "dog" / "05.png").unlink()
    with pytest.raises(UserError, match=r"05\.png can no longer be read: .*not exist"):
        list(batches(loader))
