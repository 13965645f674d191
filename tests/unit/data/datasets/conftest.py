"""Small copies of the published data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from published_sets import FOODS, draw, write


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    """A folder with Food101N (3 classes, 30 images) and Food-101 (6 test images) side by side."""
    root = tmp_path / "Food-101N_release"
    keys = [f"{FOODS[number % 3]}/{number:032x}.jpg" for number in range(30)]
    for number, key in enumerate(keys):
        draw(root / "images" / key, number % 3)
    write(root / "meta" / "classes.txt", ["class_name", *reversed(FOODS)])
    write(root / "meta" / "imagelist.tsv", ["class_name/key", *keys])
    header, absent = "class_name/key\tverification_label", "apple_pie/absent.jpg\t1"
    checked = [f"{key}\t{int(number != 1)}" for number, key in enumerate(keys[:9])]
    write(root / "meta" / "verified_train.tsv", [header, *checked, absent])
    held = [f"{key}\t{number % 2}" for number, key in enumerate(keys[8:12])]
    write(root / "meta" / "verified_val.tsv", [header, *held])
    food101 = tmp_path / "food-101"
    tests = [f"{FOODS[number % 3]}/{number}" for number in range(6)]
    for number, key in enumerate(tests):
        draw(food101 / "images" / f"{key}.jpg", number % 3)
    write(food101 / "meta" / "test.txt", tests)
    write(food101 / "meta" / "classes.txt", FOODS)
    return tmp_path
