"""Two rounds on the same data."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import josrc as package
from commands import josrc
from reviewing import decide, read
from two_rounds import NAMES, PER_CLASS, WRONG, Rounds, features_for


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """Digits in three folders; the first four files of each lie in the folder of the next class.

    Three of the four mislabelled zeros are relabelled, the last is kept. Of right ones, a two is
    relabelled to one, and another is removed.
    """
    root = tmp_path_factory.mktemp("rounds")
    digits = load_digits(n_class=3)
    features: dict[str, np.ndarray] = {}
    for label, name in enumerate(NAMES):
        for number, index in enumerate(np.flatnonzero(digits.target == label)[:PER_CLASS]):
            folder = NAMES[(label + 1) % 3] if number < WRONG else name
            path = root / "photos" / folder / f"{name}-{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            grey = np.kron(digits.images[index] * 15.9, np.ones((4, 4))).astype(np.uint8)
            Image.fromarray(grey).convert("RGB").save(path)
            features[path.name] = digits.data[index].astype(np.float32)
    photos, first, second = root / "photos", root / "FIRST", root / "SECOND"
    order = sorted(map(str, photos.rglob("*.png")), key=lambda path: path.split("/")[-2:])
    package.scan(str(photos), features=features_for(order, features, root / "f1.npy"), out=first)
    made = Rounds(first, second, photos, features)
    rows = made.rows(first)
    decide(
        first,
        ([rows[f"zero-{number:02}.png"] for number in range(3)], "label", "zero"),
        ([rows["zero-03.png"]], "keep"),
        ([rows["two-20.png"]], "label", "one"),
        ([rows["two-21.png"]], "remove"),
    )
    cleaned = root / "cleaned.csv"
    assert josrc("apply", first, "--out", cleaned) == 0
    left = [line["path"] for line in read(cleaned)]
    package.scan(
        str(cleaned), features=features_for(left, features, root / "f2.npy"), out=second,
        allow_outside=True,
    )  # fmt: skip
    return made
