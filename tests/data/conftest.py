import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from josrc.config import DataKind
from josrc.data.images import ArrayImages
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
