"""Files that somebody hands over: pipes, devices, bombs, and what is nested without end.

Every command answers within seconds, with a sentence that names the file, and a small one.
"""

from __future__ import annotations

import csv
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import josrc
from josrc.errors import UserError
from josrc.runs.resolve import parse_override, parse_yaml
from reviewing import FAST

DEEP = 100_000


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def content(text: str | bytes) -> Callable[[Path], None]:
    data = text if isinstance(text, bytes) else text.encode()
    return lambda path: path.write_bytes(data) and None


def row(**cells: object) -> Callable[[Path], None]:
    return content(json.dumps({"path": "a.png", "label": "cat", **cells}) + "\n")


def bomb(path: Path) -> None:
    """80 MB of nothing in 80 KB."""
    header = np.lib.format.header_data_from_array_1_0(np.zeros(0, np.int64))
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("given.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (10**7,)})
        for _ in range(8):
            file.write(bytes(10**7))


def boastful(path: Path) -> None:
    with path.open("wb") as file:
        head = {"descr": "<i8", "fortran_order": False, "shape": (10**11,)}
        np.lib.format.write_array_header_1_0(file, head)


def no_array(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("given", b"hello")


def objects(path: Path) -> None:
    np.savez(path, given=np.zeros(9, np.int64), ids=np.array([[], {}], dtype=object))


MANIFESTS = {
    "fifo.csv": (fifo, "is a pipe, not a regular file"),
    "fifo.jsonl": (fifo, "is a pipe"),
    "fifo.parquet": (fifo, "is a pipe"),
    "zero.csv": (device, "is a device"),
    "zero.jsonl": (device, "is a device"),
    "deep.jsonl": (content("[" * DEEP), "it is nested too deeply"),
    "deeper.jsonl": (content('{"path":' * DEEP), "it is nested too deeply"),
    "long-id.jsonl": (row(id="x" * 200_000), "its id has 200,000 characters; at most 10,000 are"),
    "long-label.jsonl": (
        row(label="x" * 2000),
        "its label has 2,000 characters; at most 1,000 are",
    ),
    "long-path.jsonl": (row(path="x" * 200_000), "its path has 200,000 characters"),
    "nul.jsonl": (row(label="a\0b"), "'a\\x00b' holds a NUL character"),
    "surrogate.jsonl": (row(label="\ud800"), "can't be encoded as UTF-8"),
    "surrogate-path.jsonl": (row(path="\ud800.png"), "can't be encoded as UTF-8"),
    "nul.csv": (content(b"\0" * 5000), "has no column for the path"),
}


def short(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert len(error) < 3000
    assert "Traceback" not in error
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in error)
    return error


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_makes_no_sense(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = MANIFESTS[name]
    path = tmp_path / name
    make(path)
    assert josrc("noise", path, "--out", tmp_path / "n.npz") == 2
    error = short(capsys)
    assert name in error
    assert message in error


def test_a_pipe_for_tests_or_settings_is_refused(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fifo(tmp_path / "pipe.csv")
    for option in ("--test", "--config", "--noise-file"):
        command = ["train", pictures, option, tmp_path / "pipe.csv", "--out", tmp_path / "run"]
        assert josrc(*command) == 2
        assert "pipe.csv" in short(capsys)
    assert not (tmp_path / "run").exists()


def test_a_name_that_no_file_can_have_is_a_skipped_image(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(pictures.rglob("*.png"))
    lines = [[str(path), path.parent.name, f"image {n}"] for n, path in enumerate(files)]
    lines += [["x" * 300 + ".png", "zero", "long"], ["nul\0.png", "one", "nul"]]
    manifest = tmp_path / "m.jsonl"
    keys = ("path", "label", "id")
    manifest.write_text("\n".join(json.dumps(dict(zip(keys, line))) for line in lines))  # noqa: B905
    run = tmp_path / "run"
    assert josrc("train", manifest, "--allow-outside", *FAST, "--out", run) == 0
    with (run / "skipped.csv").open(newline="") as file:
        skipped = [line["reason"] for line in csv.DictReader(file)]
    assert skipped == ["a part of its path is too long for a file name",
                       "the file does not exist"]  # fmt: skip


NOISE_FILES = {
    "bomb.npz": (bomb, "it would expand from"),
    "boastful.npy": (boastful, "it claims to contain 800,000,000,000 bytes, and has 0"),
    "no-array.npz": (no_array, "given is not an array"),
    "objects.npz": (objects, "Python objects"),
    "fifo.npz": (fifo, "is a pipe"),
    "zero.npy": (device, "is a device"),
    "zero.csv": (device, "is a device"),
    "empty.npz": (content(b""), "can't be read as labels"),
}


@pytest.mark.parametrize("name", NOISE_FILES)
def test_a_noise_file_that_makes_no_sense(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from josrc.data.label_files import check_ids, read_label_file

    make, message = NOISE_FILES[name]
    path = tmp_path / name
    make(path)
    monkeypatch.setattr("josrc._reading.MAX_EXPANDED_BYTES", 2**20)
    tracemalloc.start()
    with pytest.raises(UserError) as error:  # noqa: PT012
        read_label_file(path, None, ["zero", "one"], 9)
        check_ids(path, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(error.value)
    assert message in str(error.value)
    assert peak < 2**24


ALIASES = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]"]
    + [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi")]  # noqa: B905
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * DEEP, "nested more than 50 times"),
        ("a: " + "{b: " * 2000 + "}" * 2000, "nested more than 50 times"),
        ("epochs: " + "[" * 60 + "]" * 60, "nested more than 50 times"),
        (f"{ALIASES}\nepochs: *i", "its aliases expand to"),
        ("a: &a [*a]", "nested more than 50 times"),
    ],
)
def test_settings_that_are_nested_or_repeated_without_end(text: str, message: str) -> None:
    with pytest.raises(UserError, match=r"^settings\.yaml is not valid YAML") as error:
        parse_yaml(text, "settings.yaml")
    assert message in str(error.value)
    assert len(str(error.value)) < 500


def test_a_value_of_the_command_line_that_is_nested_without_end() -> None:
    with pytest.raises(UserError, match="can't be used: it is nested"):
        parse_override("epochs=" + "[" * DEEP)


@pytest.mark.parametrize(
    "pair",
    ["optimizer.lr=1e308", "optimizer.weight_decay=1e300", "model.width=100000",
     "optimizer.rates=[1e300]", "views.pad=99999999999999999999", "seed=[1, 2, 3]",
     f"seed={'x' * 100_000}"],
)  # fmt: skip
def test_a_value_beyond_all_measure_is_told(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("train", "digits-o", pair, *FAST, "--out", tmp_path / "run") == 2
    assert pair.partition("=")[0] in short(capsys)
    assert not (tmp_path / "run").exists()


def test_an_empty_option_is_not_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        ["train", "digits-o", "--out", ""],
        ["train", "digits-o", "--out="],
        ["apply", "run", "--auto", "0", "--copy", "--out", ""],
        ["noise", "digits-o", "--out", ""],
        ["export", "run", "--out", ""],
        ["scan", "digits-o", "--out", ""],
    ):
        assert josrc(*command) == 2
        assert "--out is empty" in short(capsys)
    assert not list(tmp_path.iterdir())


def test_names_send_no_command_to_the_terminal(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["\x1b[2J\x1b]0;gone\x07cat", "dog\x9b31m", "\u202etac"]
    for place, name in enumerate(names):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(4):
            path = tmp_path / "data" / name / f"{number}.png"
            Image.new("RGB", (20, 20), (60 * place, 50 * number, 9)).save(path)
    run = tmp_path / "run"
    assert josrc("train", tmp_path / "data", *FAST[:-1], "--out", run) == 0
    assert josrc("doctor", "data", tmp_path / "data") == 0
    assert josrc("apply", run, "--auto", "0", "--auto-remove", "--out", tmp_path / "c.csv") == 0
    assert josrc("train", tmp_path / "data" / names[0], "--out", run) == 2
    said = "".join(capsys.readouterr())
    assert not set("\x1b\x07\x9b\u202e") & set(said)
    assert r"\x1b[2J" in said


def test_too_little_memory_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def allocate(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 10 TB.\nmore")

    monkeypatch.setattr("josrc.runs.start.plan", allocate)
    assert josrc("train", "digits-o", "--out", tmp_path / "run") == 2
    assert "Not enough memory: DefaultCPUAllocator" in short(capsys)


pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")


def test_a_pipe_in_a_saved_data_set_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_info.json").write_text("{}")
    fifo(tmp_path / "saved" / "state.json")
    assert josrc("train", tmp_path / "saved", "--out", tmp_path / "run") == 2
    assert "state.json is a pipe" in short(capsys)
