"""Features that a scan computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import josrc as package
from drawn_digits import drawn
from josrc.data import prepare, workers
from josrc.data.feature_file import open_features
from josrc.runs import features as feature_runs
from josrc.runs.features import FeatureExtractor


def test_files_that_do_not_fit_in_memory_are_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = drawn(tmp_path / "pictures", 24)
    (folder / "red" / "3.png").write_bytes(b"no picture")
    options = {"image_size": 64, "workers": 0}
    package.scan(folder, out=tmp_path / "RESIDENT", **options)
    read: list[str] = []
    whole = workers.read_tile_and_thumbnail

    def counted(content: object, *sizes: int) -> object:
        read.append(str(content))
        return whole(content, *sizes)  # type: ignore[arg-type]

    monkeypatch.setattr(workers, "read_tile_and_thumbnail", counted)
    monkeypatch.setattr(workers, "read_tile", None)  # what a second look at a file would take
    monkeypatch.setattr(prepare, "RESIDENT_SHARE", 0)
    run = package.scan(folder, out=tmp_path / "RUN", **options)
    assert len(read) == len(set(read)) == 72
    assert len(run.verdicts()) == 71
    one, other = (
        open_features(tmp_path / name / "features.safetensors") for name in ("RESIDENT", "RUN")
    )
    assert one.shape == other.shape == (71, 1280)
    assert np.array_equal(one, other)


def test_a_scan_that_was_stopped_computes_no_features_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = drawn(tmp_path / "pictures", 24), tmp_path / "RUN"
    options = {"image_size": 64, "workers": 0, "out": out}
    monkeypatch.setattr(feature_runs, "SAVED_EVERY", 0.0)
    compute, asked = FeatureExtractor._compute, []

    def stopped(extractor: FeatureExtractor) -> None:
        asked.append(sum(len(rows) for rows, _ in extractor._waiting))
        if len(asked) == 2:
            raise KeyboardInterrupt
        compute(extractor)

    monkeypatch.setattr(FeatureExtractor, "_compute", stopped)
    with pytest.raises(KeyboardInterrupt):
        package.scan(folder, **options)
    before = sum(asked[:1])
    assert before > 0
    asked[:] = [0, 0, 0]  # no further stop
    package.scan(folder, **options)
    assert sum(asked) == 72 - before
    features = open_features(out / "features.safetensors")
    assert (features.astype(np.float32).std(axis=1) > 0).all()
