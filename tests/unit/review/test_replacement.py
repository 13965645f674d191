"""A folder is replaced whole, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import josrc
from exports import AUTO, images
from josrc.review.replacement import MARK, replacing


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_a_killed_replacement_leaves_a_whole_folder_or_is_put_right_the_next_time(
    renames: int, reviewed: Path, tmp_path: Path
) -> None:
    home, out = tmp_path / "home", tmp_path / "home" / "out"
    command = ["apply", reviewed, *AUTO, "--copy", "--out", out]
    assert josrc(*command) == 0
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    else:
        kill_at_a_rename(renames)
        josrc(*command)
        os._exit(0)
    assert len(images(home)) >= 24
    assert josrc(*command) == 0
    assert [path.name for path in home.iterdir()] == ["out"]
    assert len(images(out)) == 24


def kill_at_a_rename(left: int) -> None:
    """End this process before it renames a folder, or replaces a file, once more than so often."""
    counted = iter(range(left))
    for name in ("rename", "replace"):
        move = getattr(Path, name)

        def moved(path: Path, target: Path, move: Callable[[Path, Path], Path] = move) -> Path:
            if next(counted, None) is None:
                os._exit(9)
            return move(path, target)

        setattr(Path, name, moved)


def test_a_folder_that_another_process_writes_is_left_alone(reviewed: Path, tmp_path: Path) -> None:
    busy = tmp_path / ".out.josrc-0123456789abcdef-new"
    busy.mkdir()
    mark = {"process": os.getpid(), "machine": os.uname().nodename}
    (busy / MARK).write_text(json.dumps(mark))
    assert josrc("apply", reviewed, *AUTO, "--copy", "--out", tmp_path / "out") == 0
    assert busy.is_dir()
    (busy / MARK).write_text(json.dumps(mark | {"process": 2**22 + 1}))
    assert josrc("apply", reviewed, *AUTO, "--copy", "--out", tmp_path / "out") == 0
    assert not busy.exists()


def write(out: Path, text: str) -> None:
    with replacing(out, overwrite=True) as folder:
        for name in ("cat", "dog"):
            (folder / name).mkdir()
            (folder / name / "0.png").write_text(text)
        (folder / "changes.csv").write_text(text)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_old_folder_half_deleted_goes_with_the_next_apply(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, delete, calls = tmp_path / "c", shutil.rmtree, 0

    def cut_off(*arguments: object, **options: object) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        delete(*arguments, **options)  # type: ignore[arg-type]

    write(out, "first")
    with monkeypatch.context() as patch:
        patch.setattr("josrc.review.replacement.shutil.rmtree", cut_off)
        with pytest.raises(KeyboardInterrupt):
            write(out, "second")
    assert [path.name for path in tmp_path.iterdir()] != ["c"]
    write(out, "third")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert (out / "cat" / "0.png").read_text() == "third"
