"""Images in tar files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from commands import josrc
from josrc.data.decode import UnreadableImageError
from josrc.data.readers import read_table
from josrc.data.registry import describe_data
from packed_pictures import labelled, write_tar


def test_a_tar_is_only_read(tmp_path: Path) -> None:
    """Links and devices in it lead nowhere, and names with dots stay names."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("rose/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for number, (label, content) in enumerate(labelled(4)):
            member = tarfile.TarInfo(f"../../{label}/{number}.png")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    before = sorted(tmp_path.rglob("*"))
    table = read_table(describe_data(str(path)))
    assert len(table.ids) == 4
    assert Image.open(io.BytesIO(table.files.content(0))).size == (40, 40)
    assert table.files.file_name(0) == "0.png"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_tar_that_breaks_off_costs_what_is_missing(tmp_path: Path) -> None:
    files = [(f"{label}/{n}.png", content) for n, (label, content) in enumerate(labelled(8))]
    path = write_tar(tmp_path / "a.tar", files)
    config = describe_data(str(path))
    table = read_table(config)
    path.write_bytes(path.read_bytes()[: int(table.files.start[5]) + 10])
    with pytest.raises(UnreadableImageError, match=r"a\.tar ends before it"):
        table.files.content(5)
    assert table.files.content(4) == files[4][1]


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100, b"\x1f\x8b\x08" + b"x" * 600])
def test_what_is_no_tar_is_told(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    assert josrc("doctor", "data", tmp_path / "a.tar") == 2
    assert f"{tmp_path / 'a.tar'} can't be read as a tar file" in capsys.readouterr().err
