"""The loader benchmark runs, and what it writes is what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from josrc.cli.main import main


def test_both_loaders_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--images", "4", "--epochs", "1", "--batch-size", "2", "--workers", "0"]
    with pytest.raises(SystemExit) as end:
        main(["bench", "loader", *arguments, "--device", "cpu", "--results", str(tmp_path)])
    assert not end.value.code
    found = json.loads((tmp_path / "speed" / "cpu-loader.json").read_text())
    assert list(found["sizes"]) == ["1024x768", "500x400"]
    for rates in found["sizes"].values():
        assert rates["ratio"] == rates["josrc_images_s"] / rates["torchvision_images_s"]
        assert rates["file_kib"] > 20
    assert "1024x768" in capsys.readouterr().out
