"""Shared by all tests: one thread a process, and small data in place of CIFAR-100."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run in Triton's interpreter


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-100 shrunk to 200 training and 100 test images of 8x8 random pixels."""

    def read(root: object, train: bool) -> SimpleNamespace:
        generator = np.random.default_rng(int(train))
        count = 200 if train else 100
        return SimpleNamespace(
            data=generator.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8),
            targets=[i % 100 for i in range(count)],
            classes=[f"class {i}" for i in range(100)],
        )

    monkeypatch.setattr("josrc.data.cifar._read", read)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 digits as coloured PNG files of 20 x 24 pixels, in folders ``zero`` to ``three``."""
    root = tmp_path_factory.mktemp("pictures")
    data = load_digits(n_class=4)
    for number in range(120):
        grey = np.kron(data.images[number] * 15.9, np.ones((3, 3)))[:, :20]
        colour = np.stack([grey, 255 - grey, grey / 2], axis=2).astype(np.uint8)
        path = root / ("zero", "one", "two", "three")[data.target[number]] / f"{number:03}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(colour).save(path)
    return root


@pytest.fixture(scope="session")
def finished(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the pictures. Nobody may change it."""
    import josrc

    run = tmp_path_factory.mktemp("finished") / "run"
    options = {"method": "standard", "epochs": 3, "batch_size": 16, "device": "cpu", "val": 0.2}
    return josrc.train(str(pictures), out=run, **options).path
