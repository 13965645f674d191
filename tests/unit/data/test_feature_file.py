"""The file that features are kept in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import safe_open

from josrc.data.feature_file import FeatureWriter, open_features


def test_the_features_of_a_scan_that_was_stopped_are_gone_on_with(tmp_path: Path) -> None:
    path, ids = tmp_path / "features.safetensors", [f"image {i}" for i in range(6)]
    begun = FeatureWriter(path, ids, 3, {"model": "a"})
    begun.rows[:4] = 7
    begun.save(4)
    again = FeatureWriter(path, ids, 3, {"model": "a"})
    assert again.done == 4
    assert (again.rows[:4] == 7).all()
    assert FeatureWriter(path, ids, 3, {"model": "b"}).done == 0
    assert FeatureWriter(path, [*ids, "more"], 3, {"model": "a"}).done == 0
    last = FeatureWriter(path, ids, 3, {"model": "a"})
    assert last.done == 0  # what was known of the first file is not there any more
    last.rows[:] = np.arange(6)[:, None]
    last.finish()
    last = FeatureWriter(path, ids, 3, {"model": "a"})  # stopped while labels were judged
    assert last.done == 6
    last.finish(np.array([0, 2, 5]))
    assert open_features(path)[:, 0].tolist() == [0, 2, 5]
    with safe_open(path, framework="np") as file:
        assert bytes(file.get_tensor("ids")).decode() == "image 0image 2image 5"
    assert [file.name for file in tmp_path.iterdir()] == ["features.safetensors"]
