"""Near duplicates: changed copies are found, and pictures that merely look alike are not."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from sklearn.datasets import load_digits

import josrc as library
from josrc.data.duplicates import Duplicates, duplicates_in_memory, tally
from josrc.data.images import ArrayImages
from josrc.data.near.pairs import near_pairs
from josrc.runs.start import plan
from near_pictures import Pictures, pairs_of, photographs, saved


def scaled(picture: Image.Image, factor: float) -> Image.Image:
    return picture.resize([round(side * factor) for side in picture.size])


def inner(
    picture: Image.Image, left: float, top: float, right: float, bottom: float
) -> Image.Image:
    width, height = picture.size
    box = (left * width, top * height, (1 - right) * width, (1 - bottom) * height)
    return picture.crop(tuple(map(round, box)))


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "quality 30": lambda p: saved(p, 30),
    "quality 95": lambda p: saved(p, 95),
    "a quarter": lambda p: scaled(p, 0.25),
    "twice": lambda p: scaled(p, 2),
    "crop of 10 %": lambda p: inner(p, 0.1, 0.05, 0.0, 0.1),
    "crop of 20 %": lambda p: inner(p, 0.2, 0.0, 0.15, 0.2),
    "darker": lambda p: ImageEnhance.Brightness(p).enhance(0.7),
    "mirrored": lambda p: p.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "all of it": lambda p: saved(scaled(inner(p, 0.05, 0.1, 0.1, 0.0), 0.6), 50),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_changed_copies_of_photographs_are_found_and_nothing_else(change: str) -> None:
    originals = photographs()
    count = len(originals)
    assert count >= 8
    found = pairs_of(Pictures([*originals, *map(CHANGES[change], originals)]))
    right = {(n, n + count) for n in range(count)}
    assert len(found & right) >= 0.8 * count
    assert found <= right


@pytest.mark.slow
def test_handwritten_digits_are_not_copies_of_each_other() -> None:
    digits = (load_digits().images[:500] * 15.9).astype(np.uint8)
    found = duplicates_in_memory([ArrayImages(digits[..., None]), None, None])
    assert len(found.group) <= 4


def test_candidates_from_elsewhere_are_looked_at() -> None:
    originals = photographs()
    count = len(originals)
    copies = Pictures(saved(picture, 50) for picture in originals)
    # Of each picture its copy, in the second part, and another picture.
    index = np.full((2 * count, 3), -1)
    index[:count, 0] = np.arange(count, 2 * count)
    index[:, 1] = np.roll(np.arange(2 * count), 1)
    index[:, 2] = np.arange(2 * count)  # itself
    similarity = np.ones(index.shape, dtype=np.float64)
    found = near_pairs(index, similarity, [originals, copies])
    assert set(found.second - found.first) == {count}
    assert len(found.first) >= 0.9 * count
    assert len(near_pairs(index[:0], similarity[:0], []).first) == 0
    few = np.where(index == index[:, :1], 1.0, 0.5)
    assert len(near_pairs(index, few, [originals, copies], most=2).first) <= 2


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """Photographs of two classes; changed copies under another label, and among the tests."""
    root = tmp_path / "leaky"
    for number, picture in enumerate(photographs()):
        label = ("near", "far")[number % 2]
        path = root / "train" / label / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    first, second, third = photographs()[:3]
    saved(first, 60).save(root / "train" / "far" / "copy.jpg", quality=70)
    (root / "test" / "far").mkdir(parents=True)
    scaled(second, 0.5).save(root / "test" / "far" / "small.png")
    inner(third, 0.1, 0, 0, 0.1).save(root / "train" / "near" / "crop.png")
    return root


def test_a_run_lists_near_copies_with_different_labels_first(leaky: Path, tmp_path: Path) -> None:
    fast = {"epochs": 1, "device": "cpu", "method": "standard", "model": "cnn7"}
    run = library.train(leaky, out=tmp_path / "run", image_size=32, batch_size=8, **fast)
    with (run.path / "audit" / "duplicates.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [[Path(r["path"]).name for r in rows if r["group"] == group] for group in "123"]
    assert sorted(names[0]) == ["00.png", "copy.jpg"]
    assert names[1:] == [["01.png", "small.png"], ["02.png", "crop.png"]]
    assert {row["kind"] for row in rows} == {"near"}
    assert all(0.8 <= float(row["similarity"]) < 1 for row in rows)
    page = (run.path / "audit" / "report.html").read_text()
    assert "training and test" in page
    assert "different labels" in page
    assert page.count('src="data:image/webp') == 6


def test_near_copies_are_looked_for_unless_nobody_wants_it(leaky: Path) -> None:
    pictures = photographs()
    pixels = np.stack([np.asarray(p.resize((64, 64))) for p in [*pictures, *pictures]])
    pixels[len(pictures) :] = pixels[len(pictures) :] // 4 * 3 + 20
    labels = np.arange(len(pixels)) % 2
    _, source = plan((pixels, labels))
    assert source is not None
    found = tally(source.listed_duplicates())
    assert found.near.pictures >= 0.9 * len(pictures)
    assert found.exact.pictures == 0
    assert found.sentences()[0].startswith("Near copies (re-encoded")
    _, source = plan((pixels, labels), layers=[{"data": {"near_duplicates": False}}])
    assert source is not None
    assert list(source.listed_duplicates()) == []


def test_candidates_of_a_network_join_what_is_known() -> None:
    pictures = photographs()
    pixels = np.stack([np.asarray(p.resize((64, 64))) for p in [*pictures, pictures[0]]])
    _, source = plan(
        (pixels, np.arange(len(pixels)) % 2), layers=[{"data": {"near_duplicates": False}}]
    )
    assert source is not None
    mirrored = ArrayImages(pixels[1:2, :, ::-1].copy())
    from dataclasses import replace

    source = replace(source, test_images=mirrored, test_labels=np.array([1]))
    index = np.full((len(pixels) + 1, 1), -1)
    index[-1] = 1
    joined = source.with_near_duplicates(index, np.ones(index.shape))
    rows = [(r.part, r.row, r.kind) for r in joined.listed_duplicates()]
    assert sorted(rows) == [
        ("test", 0, "near"),
        ("training", 0, "exact"),
        ("training", 1, "near"),
        ("training", len(pixels) - 1, "exact"),
    ]
    assert isinstance(joined.duplicates, Duplicates)
