"""Scans against the truth: every side by the same features, which are computed once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import josrc
from josrc.data.feature_file import FeatureWriter
from josrc.data.registry import describe_data, open_source

CELL = "symmetric-0.3"
SIDES = ("scan", "cleanlab", "datalab", "datalab-features")


def test_every_side_is_measured_by_features_that_are_there(tmp_path: Path) -> None:
    source = open_source(describe_data("digits-o"))
    pixels = source.images.pixels.reshape(len(source), -1)  # type: ignore[attr-defined]
    path = tmp_path / "scratch" / "scan" / "digits-o" / "features.safetensors"
    origin = {"model": "tf_efficientnet_lite0", "weights": "None", "size": 128}
    writer = FeatureWriter(path, source.ids, pixels.shape[1], origin)
    writer.rows[:] = pixels
    writer.finish()
    places = ["--results", tmp_path / "results", "--scratch", tmp_path / "scratch"]
    command = ["bench", "scan", "--data", "digits-o", "--cells", CELL, "--device", "cpu"]
    assert josrc(*command, *places) == 0
    found = {
        side: json.loads(
            (tmp_path / "results" / "scan" / f"digits-o-{CELL}" / side / "seed-0.json").read_text()
        )
        for side in SIDES
    }
    for side, result in found.items():
        assert result["side"] == side
        assert result["image_size"] == 128
        assert result["seconds_scan"] is None  # nothing was scanned for it
        assert result["measures"]["auroc_wrong"] > 0.85, side
        assert 0.2 < result["measures"]["noise_rate"] < 0.6
    # By the same predictions Datalab's check of labels is cleanlab's filter.
    both = [found[side]["measures"]["average_precision_wrong"] for side in SIDES[1:3]]
    assert both[0] == pytest.approx(both[1], abs=1e-6)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cells", "aggregate"], "Unknown cell 'aggregate'. Known: none-0, aggregate-0"),
        (["--sides", "clean"], "Unknown side 'clean'. Known: scan, cleanlab"),
        (["--data", "look-alikes"], "is not known to josrc bench scan"),
    ],
)
def test_what_there_is_not_is_told(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("bench", "scan", *words, "--results", tmp_path) == 2
    assert told in capsys.readouterr().err
