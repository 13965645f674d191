"""Predictions and features that people bring along: files of several kinds, matched and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image

import josrc as package
from commands import josrc
from josrc.data.feature_file import open_features, read_ids, write_scaled
from josrc.errors import UserError

CLASSES = ["ant", "bee", "cat"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of 40 images each, of which every tenth is in the wrong one."""
    root = tmp_path_factory.mktemp("images")
    for number in range(120):
        path = root / CLASSES[_given(number)] / f"{number:03}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (number, 9, 200)).save(path)
    return root


def _given(number: int) -> int:
    return (number + (number % 10 == 0)) % 3


@pytest.fixture
def predictions(images: Path) -> pandas.DataFrame:
    """What a good model says of them, with the columns in another order than the classes."""
    ids = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))
    number = np.array([int(Path(name).stem) for name in ids])
    rows = np.full((120, 3), 0.05)
    rows[np.arange(120), number % 3] = 0.9
    return pandas.DataFrame(rows, columns=CLASSES).assign(id=ids)[["bee", "id", "cat", "ant"]]


def accused_numbers(run: Path) -> set[int]:
    """The numbers of the images whose labels are accused."""
    verdicts = pandas.read_csv(run / "audit" / "verdicts.csv")
    accused = verdicts["id"][verdicts["verdict"] != "clean"]
    return {int(Path(name).stem) for name in accused}


WRITERS: dict[str, Callable[[pandas.DataFrame, Path], object]] = {
    "p.parquet": lambda frame, path: frame.to_parquet(path),
    "p.csv": lambda frame, path: frame.to_csv(path, index=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_rows_and_columns_are_matched_by_their_names(
    name: str,
    images: Path,
    predictions: pandas.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, run = tmp_path / name, tmp_path / "RUN"
    # Further columns are of no use, and in the way of nobody.
    WRITERS[name](predictions.assign(note="x").sample(frac=1, random_state=0), file)
    assert josrc("scan", images, "--probs", file, "--out", run) == 0
    assert accused_numbers(run) == set(range(0, 120, 10))
    wrong = {
        "has no column for class 'cat'": predictions.rename(columns={"cat": "dog"}),
        "has no row for 1 of the images": predictions.drop(index=3),
        "has two rows for": predictions.iloc[[*range(120), 4]],
    }
    for told, frame in wrong.items():
        WRITERS[name](frame, file)
        capsys.readouterr()
        assert josrc("scan", images, "--probs", file, "--out", tmp_path / "R") == 2
        assert told in capsys.readouterr().err


def test_numbered_columns_have_the_order_of_the_classes(
    images: Path, predictions: pandas.DataFrame, tmp_path: Path
) -> None:
    file, run = tmp_path / "p.parquet", tmp_path / "RUN"
    predictions[["id", *CLASSES]].set_axis(["id", "0", "1", "2"], axis=1).to_parquet(file)
    assert josrc("scan", images, "--probs", file, "--out", run) == 0
    assert accused_numbers(run) == set(range(0, 120, 10))


def test_features_of_a_scan_serve_another_one_in_any_order(images: Path, tmp_path: Path) -> None:
    own = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float16)
    ids = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))
    own += 6 * np.eye(6)[[int(Path(name).stem) % 3 for name in ids]].astype(np.float16)
    np.save(tmp_path / "own.npy", own)
    first, second, kept = tmp_path / "A", tmp_path / "B", tmp_path / "A" / "features.safetensors"
    assert josrc("scan", images, "--features", tmp_path / "own.npy", "--out", first) == 0
    lines = [f"{images}/{name},{name.split('/')[0]},{name}" for name in reversed(ids)]
    (tmp_path / "m.csv").write_text("\n".join(["path,label,id", *lines]))
    told = ["scan", tmp_path / "m.csv", "--allow-outside", "--features", kept, "--out", second]
    assert josrc(*told) == 0
    assert list(read_ids(second / "features.safetensors")) == ids[::-1]
    assert np.array_equal(open_features(second / "features.safetensors"), own[::-1])


def test_features_of_other_images_are_refused(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.scan(["a", "b"] * 9, features=np.eye(18), out=tmp_path / "A")
    kept = tmp_path / "A" / "features.safetensors"
    assert josrc("scan", images, "--features", kept, "--out", tmp_path / "B") == 2
    assert "has no row for 120 of the images" in capsys.readouterr().err
    assert josrc("scan", images, "--probs", kept, "--out", tmp_path / "B") == 2
    assert "give it as --features" in capsys.readouterr().err
    kept.write_bytes(kept.read_bytes()[:400])
    assert josrc("scan", images, "--features", kept, "--out", tmp_path / "B") == 2
    assert f"{kept} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0), (1e-9, 0), (1, 1e5), (1e37, -3e38)])
def test_features_of_any_size_are_kept_as_float16(factor: float, shift: float) -> None:
    plain = np.random.default_rng(0).normal(size=(300, 8))
    rows = np.zeros((300, 8), dtype=np.float16)
    write_scaled(rows, plain * factor + shift)
    assert np.isfinite(rows).all()
    found = rows.astype(np.float64)
    found, plain = found - found.mean(axis=0), plain - plain.mean(axis=0)
    assert np.allclose(found / found.std(), plain / plain.std(), atol=0.01)
    write_scaled(rows, np.full((300, 8), 7.0))
    assert not rows.any()


@pytest.mark.parametrize(
    ("probs", "told"),
    [
        (np.ones((10, 3)), "has 10 rows, but the data has 12 images"),
        (np.ones((12, 2)) / 2, "has 2 columns, but there are 3 classes"),
        (np.full((12, 3), np.nan), "NaN or infinite"),
        (np.full((12, 3), -1.0), "Apply a softmax first"),
        (np.full((12, 3), 0.5), "do not add up to 1"),
        (np.ones(12), "a row for each image"),
        (np.ones((12, 0)), "a row for each image"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    probs: np.ndarray, told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=told):
        package.scan(["a", "b", "c"] * 4, probs=probs, out=tmp_path / "RUN")
    assert not (tmp_path / "RUN" / "config.yaml").exists()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.full((120, 4), np.nan), "has 120 rows with NaN or infinite numbers, the first that of"),
        (np.ones((11, 4)), "has 11 rows, but the data has 120 images"),
        (np.ones(120), "a row for each image"),
    ],
)
def test_features_that_do_not_fit_are_refused_on_the_command_line(
    rows: np.ndarray, told: str, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "features.npy"
    np.save(file, rows)
    assert josrc("scan", images, "--features", file, "--out", tmp_path / "RUN") == 2
    said = capsys.readouterr().err
    assert told in said
    assert "features.npy" in said
    assert "Traceback" not in said
