from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from josrc.config import DataKind
from josrc.data.datasets import digits
from josrc.data.images import ArrayImages
from josrc.data.registry import describe_data
from josrc.data.source import Source


@pytest.fixture
def make_source() -> Callable[..., Source]:
    """Small sources of random pixels: three classes, the last of them open."""

    def make(
        count: int = 20, height: int = 6, width: int = 5, channels: int = 3, true: object = None
    ) -> Source:
        generator = np.random.default_rng(count)

        def pixels(images: int) -> ArrayImages:
            shape = (images, height, width, channels)
            return ArrayImages(generator.integers(0, 256, shape, dtype=np.uint8))

        classes = np.arange(count) % 3 if true is None else np.asarray(true)
        return Source(
            name="random",
            data_kind=DataKind.BUILTIN,
            images=pixels(count),
            true=classes.astype(np.int64),
            given=generator.integers(0, 2, count),
            class_names=["cat", "dog", "ship"],
            closed=2,
            test_images=pixels(4),
            test_labels=np.array([0, 1, 0, 1]),
            mean=(0.485, 0.456, 0.406)[:channels],
            std=(0.229, 0.224, 0.225)[:channels],
        )

    return make


class Bomb:
    """An object that leaves a trace when it is unpickled: it makes a folder."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.mkdir, (self.trace,)

    def went_off(self) -> bool:
        return self.trace.exists()


@pytest.fixture
def bomb(tmp_path: Path) -> Bomb:
    bomb = Bomb(tmp_path / "unpickled")
    pickle.loads(pickle.dumps(bomb))
    assert bomb.went_off(), "a bomb that can't go off proves nothing"
    bomb.trace.rmdir()
    return bomb


@pytest.fixture
def memory() -> Iterator[Callable[[str, bytes], str]]:
    """Puts files behind ``memory://``, which lives in this process alone."""
    files = pytest.importorskip("fsspec").filesystem("memory")

    def put(name: str, content: bytes) -> str:
        files.pipe(f"/{name}", content)
        return f"memory://{name}"

    yield put
    files.store.clear()


@pytest.fixture(scope="module")
def digits_source() -> Source:
    return digits.open_source(describe_data("digits-o"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """47 small pictures of two classes; each holds its number."""
    for number in range(47):
        path = tmp_path / "images" / ("cat", "dog")[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (20, 26, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path / "images"


fsspec = pytest.importorskip("fsspec")
