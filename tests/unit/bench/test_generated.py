"""Generated JPEG files."""

from __future__ import annotations

import pytest
from PIL import Image

from josrc.bench import speed_images


def test_jpegs_are_made_for_the_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed_images, "PIXELS", (50, 40))
    console = speed_images.Console(quiet=True)
    with speed_images.picture_folder("generate:70", console) as made:
        # More than a process makes alone: several share the work, and each is made once.
        names = sorted(path.name for path in made.glob("*/*.jpg"))
        assert names == [f"{number:05}.jpg" for number in range(70)]
        assert len(list(made.iterdir())) == 14
        with Image.open(made / "class-03" / "00003.jpg") as picture:
            assert picture.size == (50, 40)
    assert not made.exists()
