"""Files of labels, and those that hold something else."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from josrc.config import DataConfig, DataKind
from josrc.data.label_files import read_label_file, write_noise_file
from josrc.data.source import with_noise
from josrc.errors import UserError
from properties import same, tried, written

CLASSES = ["cat", "dog", "2"]


@same
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=6) | st.binary())
@example(["label", "0", "1", "2"])
@example(["label", "cat", "dog", "2"])
@example(["label", "1_0", "\u0661", "+1"])
def test_a_label_file_gives_a_class_for_each_sample_or_a_mistake(
    content: list[str] | bytes,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = content if isinstance(content, bytes) else "\n".join(content)
        path = written("n.csv", text, folder)
        labels = tried(lambda: read_label_file(path, None, CLASSES, samples=3))
    if isinstance(labels, UserError):
        assert "n.csv" in str(labels)
    else:
        assert len(labels) == 3
        assert set(labels.tolist()) <= {0, 1, 2}


NAMES = ["cat", "dog", "ship"]


GIVEN = [2, 0, 1, 1]


TRUE = np.array([2, 1, 1, 3])  # class 3 is open


def read(path: Path) -> np.ndarray:
    return read_label_file(path, TRUE, NAMES)


@pytest.fixture
def noise_file(tmp_path: Path) -> Path:
    path = tmp_path / "new folder" / "noise.npz"
    write_noise_file(path, np.array(GIVEN), TRUE, np.array([0, 1, 0, 2], dtype=np.int8))
    return path


def test_a_noise_file_holds_what_was_written(noise_file):
    with np.load(noise_file, allow_pickle=False) as arrays:
        assert sorted(arrays.files) == ["given", "kind", "true"]
        np.testing.assert_array_equal(arrays["given"], GIVEN)
        np.testing.assert_array_equal(arrays["true"], TRUE)
        np.testing.assert_array_equal(arrays["kind"], [0, 1, 0, 2])
    given = read(noise_file)
    np.testing.assert_array_equal(given, GIVEN)
    assert given.dtype == np.int64


def test_labels_of_a_noise_file_replace_the_drawn_ones(tmp_path, make_source):
    source = make_source(count=9)
    given = np.array([1, 0, 0, 1, 1, 0, 1, 0, 1])
    path = tmp_path / "noise.npz"
    write_noise_file(path, given, source.true, source.kind)
    np.testing.assert_array_equal(
        with_noise(source, DataConfig(name="x", kind=DataKind.BUILTIN, noise_file=path)).given,
        given,
    )


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.uint64, np.float32])
@pytest.mark.parametrize("suffix", ["npy", "npz", "NPY"])
def test_whole_numbers_of_any_type_are_labels(tmp_path, dtype, suffix):
    path = tmp_path / f"labels.{suffix}"
    values = np.array(GIVEN, dtype=dtype)
    with path.open("wb") as file:
        np.savez(file, given=values) if suffix == "npz" else np.save(file, values)
    given = read(path)
    np.testing.assert_array_equal(given, GIVEN)
    assert given.dtype == np.int64


@pytest.mark.parametrize(
    "text",
    [
        "2\n0\n1\n1\n",
        "2\n0\n1\n1",
        "2\r\n0\r\n1\r\n1\r\n",
        "given\n2\n0\n1\n1\n",
        "\ufeffgiven\n2\n0\n1\n1\n",
        "\ufeff2\n0\n1\n1\n",
        "label\nship\ncat\ndog\ndog\n",
        "ship\ncat\ndog\ndog\n",
        "path,Label\na.png,2\nb.png,0\nc.png,dog\nd.png,1\n",
        "target,path\n 2 ,a\n0,b\n1,c\n1,d\n",
        "label,given\n0,2\n0,0\n0,1\n0,1\n",
        'given\n"ship"\n"cat"\n"dog"\n"dog"\n',
    ],
)
def test_csv_labels_are_names_or_numbers_with_or_without_a_header(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode())
    np.testing.assert_array_equal(read(path), GIVEN)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([2, 0, 1], "3 labels.*4 samples"),
        ([], "0 labels.*4 samples"),
        ([2, 0, -1, 1], "label -1 of sample 2.*0 to 2"),
        ([2, 0, 1, 3], "label 3 of sample 3.*0 to 2"),
        (np.uint64([2, 0, 2**64 - 1, 1]), f"label {2**64 - 1} of sample 2"),
        ([[2], [0], [1], [1]], r"must be a vector.*\(4, 1\)"),
        (2, r"must be a vector.*\(\)"),
        ([2, 0, 0.5, 1], "whole numbers.*float64"),
        ([2, 0, np.nan, 1], "whole numbers.*float64"),
        ([2.0, 0.0, np.inf, 1.0], "label inf of sample 2"),
        (["ship", "cat", "dog", "dog"], "whole numbers"),
        ([True, False, True, True], "whole numbers.*bool"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_that_are_not_labels_of_this_data_are_refused(tmp_path, values, problem, suffix):
    path = tmp_path / f"labels.{suffix}"
    with path.open("wb") as file:
        np.savez(file, given=values) if suffix == "npz" else np.save(file, values)
    with pytest.raises(UserError, match=f"labels.{suffix}.*{problem}"):
        read(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("given\n", "0 labels.*4 samples"),
        ("given\n2\n0\n1\n", "3 labels.*4 samples"),
        ("given\n2\n0\n-1\n1\n", "label -1 of sample 2"),
        ("given\n2\n0\n3\n1\n", "label 3 of sample 2"),
        ("given\n2\nhorse\n1\n1\n", "line 3 holds 'horse'"),
        ("2\nhorse\n1\n1\n", "line 2 holds 'horse'"),
        ("given\n2\n0.5\n1\n1\n", "line 3 holds '0.5'"),
        ("given\n2\n--1\n1\n1\n", "--1"),
        ("path,given\na,2\nb\nc,1\nd,1\n", "line 3 holds ''"),
        ("path,class\na,2\nb,0\nc,1\nd,1\n", "no column is named given.*found: path, class"),
        ("given\n2\n0\n\x00\n1\n", r"\\x00"),
        (b"given\n2\n\xff\n1\n1\n", "utf-8"),
    ],
)
def test_csv_files_that_hold_something_else_are_refused(tmp_path, text, problem):
    path = tmp_path / "labels.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=f"labels.csv.*{problem}"):
        read(path)


def test_a_noise_file_of_other_data_is_refused(noise_file):
    with pytest.raises(UserError, match=r"noise\.npz was made for different data"):
        read_label_file(noise_file, TRUE[::-1], NAMES)


def test_an_archive_without_given_labels_is_refused_and_says_what_it_holds(tmp_path):
    path = tmp_path / "labels.npz"
    np.savez(path, y=GIVEN, x=GIVEN)
    with pytest.raises(UserError, match=r"labels\.npz.*y, x.*'given'"):
        read(path)


@pytest.mark.parametrize("kept", [0, 1, 10, 0.5, -1])
def test_a_truncated_noise_file_is_refused(noise_file, kept):
    whole = noise_file.read_bytes()
    noise_file.write_bytes(whole[: int(len(whole) * kept) if kept == 0.5 else kept])
    with pytest.raises(UserError, match=r"noise\.npz"):
        read(noise_file)


def test_a_noise_file_with_a_damaged_byte_is_refused(noise_file):
    content = bytearray(noise_file.read_bytes())
    # The compressed bytes of the first array follow its name and numpy's zip64 extra field.
    content[content.index(b"given.npy") + 40] ^= 0xFF
    noise_file.write_bytes(content)
    with pytest.raises(UserError, match=r"noise\.npz"):
        read(noise_file)


def test_a_truncated_vector_is_refused(tmp_path):
    path = tmp_path / "labels.npy"
    np.save(path, GIVEN)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"labels\.npy"):
        read(path)


@pytest.mark.parametrize(("content", "name"), [("npy", "labels.npz"), ("npz", "labels.npy")])
def test_a_file_with_the_suffix_of_another_format_is_refused(tmp_path, content, name):
    path = tmp_path / name
    with path.open("wb") as file:
        np.savez(file, given=GIVEN) if content == "npz" else np.save(file, GIVEN)
    with pytest.raises(UserError, match=name):
        read(path)


@pytest.mark.parametrize("name", ["given", "true", "labels.npy", "pickle.npy"])
def test_pickled_labels_are_refused_and_never_unpickled(tmp_path, bomb, name):
    bombs = np.array([bomb] * 4, dtype=object)
    path = tmp_path / (name if name.endswith(".npy") else "labels.npz")
    with path.open("wb") as file:
        if name == "pickle.npy":
            pickle.dump(bomb, file)
        elif name == "labels.npy":
            np.save(file, bombs)
        else:
            np.savez(file, **{"given": GIVEN, "true": TRUE, name: bombs})
    with pytest.raises(UserError, match=path.name):
        read(path)
    assert not bomb.went_off()


@pytest.mark.parametrize(
    ("name", "problem"),
    [("absent.npz", "does not exist"), ("labels.txt", r"\.npz, \.npy and \.csv"),
     ("labels", r"\.npz, \.npy and \.csv"), ("folder.npz", "does not exist|folder")],
)  # fmt: skip
def test_files_that_can_not_be_label_files_are_refused(tmp_path, name, problem):
    (tmp_path / "labels.txt").write_text("2\n0\n1\n1\n")
    (tmp_path / "labels").write_text("2\n0\n1\n1\n")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(UserError, match=f"{name}.*({problem})"):
        read(tmp_path / name)
