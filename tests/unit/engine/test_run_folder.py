"""What a run's folder is called unless somebody names it."""

from __future__ import annotations

import pytest

from josrc.config import DataConfig, DataKind
from josrc.engine.run_folder import run_name
from josrc.runs.start import configure


@pytest.mark.parametrize(
    ("data", "kind", "name"),
    [
        ("digits-o", DataKind.BUILTIN, "digits-o-none-0-josrc-seed0"),
        ("/home/me/photos", DataKind.FOLDER, "photos-josrc-seed0"),
        ("/home/me/photos/../birds", DataKind.FOLDER, "birds-josrc-seed0"),
        ("/home/me/all.csv", DataKind.MANIFEST, "all-josrc-seed0"),
        ("hf:somebody/flowers", DataKind.HUB, "flowers-josrc-seed0"),
        ("hf:mnist", DataKind.HUB, "hf:mnist-none-0-josrc-seed0"),
        ("arrays", DataKind.ARRAYS, "arrays-none-0-josrc-seed0"),
    ],
)
def test_a_run_is_called_by_its_data(data: str, kind: DataKind, name: str) -> None:
    config = configure("digits-o").model_copy(update={"data": DataConfig(name=data, kind=kind)})
    assert run_name(config) == name


def test_noise_is_part_of_the_name() -> None:
    data = DataConfig(name="/photos", kind=DataKind.FOLDER, noise="symmetric", rate=0.2)
    config = configure("digits-o").model_copy(update={"data": data})
    assert run_name(config) == "photos-symmetric-0.2-josrc-seed0"
