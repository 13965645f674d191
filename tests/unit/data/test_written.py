"""Manifests that josrc has written itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import josrc
from reviewing import FAST, read


def test_a_manifest_of_its_own_needs_no_leave_to_name_images_elsewhere(
    reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "else where" / "clean.csv"
    assert josrc("apply", reviewed, "--auto", "0.9", "--out", out) == 0
    assert f"josrc train '{out}' " in (said := capsys.readouterr().out)
    assert "--allow-outside" not in said
    assert all(Path(row["path"]).is_file() for row in read(out))
    assert josrc("train", out, *FAST, "--out", tmp_path / "again") == 0
    out.write_text(out.read_text().replace("cat", "dog", 1))
    assert josrc("train", out, *FAST, "--out", tmp_path / "changed") == 2
    assert "--allow-outside" in capsys.readouterr().err


def test_where_nothing_can_be_remembered_the_command_asks_for_leave(
    reviewed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    out = tmp_path / "else where" / "clean.csv"
    assert josrc("apply", reviewed, "--auto", "0.9", "--out", out) == 0
    assert f"josrc train '{out}' --allow-outside" in capsys.readouterr().out
