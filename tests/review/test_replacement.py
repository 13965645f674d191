"""What apply replaces goes away whole, even if its deletion was cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from josrc.review.replacement import replacing


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
