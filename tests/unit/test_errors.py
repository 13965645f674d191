"""What people see when something can't be done: what it was, and what to do about it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from commands import josrc

NOISE = ("noise", "digits-o", "--out")
ROOM = "can't be used: No space left on device. Free some space there"


def refusing(number: int) -> Any:
    """What fails as the system does, by the number of its error, on its first argument."""

    def refuse(path: object, *_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), str(path))

    return refuse


def full(path: Path) -> Path:
    """A file that is written to a full disk."""
    path.with_name(f"{path.name}.partial").symlink_to("/dev/full")
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What stderr has; never a traceback, nor the number of an error."""
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "Errno" not in error
    return error


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            "folder.npz",
            "{home}/folder.npz can't be used: There is a folder where the file should go. Give",
        ),
        ("file/n.npz", "{home}/file can't be used: File exists. Choose another name"),
        ("file/a/n.npz", "{home}/file/a can't be used: Not a directory. Choose another place"),
        ("n" * 300 + ".npz", "can't be used: File name too long. Choose a shorter name."),
    ],
)
def test_a_path_that_can_not_be_written_is_named_with_advice(
    out: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "file").touch()
    assert josrc(*NOISE, tmp_path / out) == 2
    assert message.format(home=tmp_path) in said(capsys)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EACCES, "Permission denied. Choose another place, or change its permissions"),
        (errno.EROFS, "Read-only file system. Nothing can be written there"),
        (errno.EIO, "Input/output error. Try again, or choose another place."),
    ],
)
def test_rights_and_file_systems_are_explained(
    number: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Path, "mkdir", refusing(number))
    assert josrc(*NOISE, tmp_path / "new" / "n.npz") == 2
    assert f"josrc: {tmp_path}/new can't be used: {message}" in said(capsys)


def test_a_full_disk_is_told_with_the_file_that_did_not_fit(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, model = full(tmp_path / "p.csv"), full(tmp_path / "m.pt2")
    assert josrc("predict", finished, pictures, "--out", table) == 2
    assert f"josrc: {table} {ROOM}" in said(capsys)
    assert josrc("export", finished, "--format", "torch", "--out", model) == 2
    assert f"josrc: {model} {ROOM}" in said(capsys)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_ends_a_training_with_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: disk is full (os error 28)")

    monkeypatch.setattr("josrc.engine.checkpoint.save_file", fails)
    short = ["--epochs", "1", "--device", "cpu", "--method", "standard", "--batch-size", "256"]
    assert josrc("train", "digits-o", *short, "--out", tmp_path / "run") == 2
    error = said(capsys)
    assert f".safetensors {ROOM}" in error
    assert "Files saved earlier are intact." in error


def test_a_copy_that_does_not_fit_names_the_folder(
    reviewed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("josrc.review.write.shutil.copyfile", fails)
    out = reviewed.parent / "clean"
    assert josrc("apply", reviewed, "--auto", "0.5", "--copy", "--out", out) == 2
    assert f"josrc: {out} {ROOM}" in said(capsys)


def test_a_manifest_that_may_not_be_read_is_told_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.csv").write_text("path,label\n")
    monkeypatch.setattr("josrc.data.readers.manifest.frames_of", refusing(errno.EACCES))
    assert josrc("train", tmp_path / "m.csv") == 2
    assert "m.csv can't be read as a manifest: Permission denied. Choose another" in said(capsys)


WRONG_WORDS = {
    "train digits-o --rate much": "'--rate': 'much'",
    "train digits-o --epochs 1.5": "'--epochs': '1.5'",
    "audit RUN --noise-rate 5": "'--noise-rate': '5'. Input should be less than or equal to 1",
    "review RUN --port 99999": "'--port': '99999'. Input should be less than or equal to 65535",
    "apply RUN --out a.csv --auto 90": "'--auto': '90'",
    "apply RUN --out a.csv --link hrad": "'--link': 'hrad' is not one of 'hard', 'sym'",
    "predict RUN PATH --top-k 0": "'--top-k': '0'. Input should be greater than or equal to 1",
    "bench run digits --seeds none": "'--seeds': 'none'",
    "bench loader --images 1": "'--images': '1'",
    "eval RUN DATA --devise cpu": "No such option: --devise. Did you mean '--device'?",
    "export RUN -out model.onnx": "Did you mean '--out'?",
    "resume RUN --epochs 5": "No such option: --epochs. Known: --data-root, --device, --quiet",
    "train digits-o --lr 0.01": "No such option: --lr. Did you mean optimizer.lr=..., without",
    "train digits-o --mixup 0.01": "No such option: --mixup. Settings are KEY=VALUE, without",
    "train digits-o --epochs": "'--epochs' requires an argument.",
    "predict RUN": "Missing argument 'PATH...'. See: josrc predict --help",
    "bench rn": "No such command 'rn'. Did you mean 'run'? See: josrc bench --help",
}


@pytest.mark.parametrize("words", WRONG_WORDS)
def test_a_wrong_word_is_named_with_what_it_could_be(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc(*words.split()) == 2
    error = said(capsys)
    assert error.startswith("josrc: ")
    assert error.count("\n") == 1
    assert WRONG_WORDS[words] in error


def test_no_word_at_all_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["bench"]):
        assert josrc(*words) == 2
        captured = capsys.readouterr()
        assert "Usage: josrc" in captured.out
        assert captured.err == ""


@pytest.mark.parametrize(
    ("name", "command", "content"),
    [
        ("summary.json", "predict", b"[1, 2"),
        ("summary.json", "resume", b"\xff\xfe"),
        ("noise.npz", "audit", b"[1, 2"),
        ("metrics.csv", "report", b"\xff\xfe"),
        ("skipped.csv", "audit", b"junk\n1\n"),
        ("audit/summary.json", "report", b""),
        ("audit/duplicates.csv", "report", b"junk\n1\n"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(
    finished: Path,
    pictures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    command: str,
    content: bytes,
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / name).write_bytes(content)
    more = [pictures, "--out", tmp_path / "p.csv"] if command == "predict" else []
    assert josrc(command, run, *more) == 2
    assert f"{run / name} is damaged: " in " ".join(said(capsys).split())
