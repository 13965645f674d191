"""Images behind addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import josrc
from josrc.data import remote
from josrc.data.decode import UnreadableImageError
from packed_pictures import manifest_of, picture


def test_a_local_list_reaches_no_network_without_leave(
    tmp_path: Path, memory: Callable[[str, bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    place = memory("flowers/1.png", picture("rose", 1))
    other = memory("flowers/2.png", picture("tulip", 2))
    path = tmp_path / "list.csv"
    path.write_bytes(manifest_of([place, other], ["rose", "tulip"]))
    assert josrc("doctor", "data", path) == 2
    assert "is outside" in capsys.readouterr().err
    assert josrc("doctor", "data", path, "--allow-outside") == 0
    path.write_bytes(manifest_of(["http://169.254.169.254/secret", other], ["rose", "tulip"]))
    assert josrc("doctor", "data", path, "--allow-outside") == 2
    assert "josrc does not support http://" in capsys.readouterr().err


def test_too_large_an_object_is_not_fetched(
    memory: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LARGEST_IMAGE", 1000)
    place = memory("flowers/1.png", bytes(2000))
    with pytest.raises(UnreadableImageError, match="larger than"):
        remote.fetch_image(place)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("http://example.org/list.csv", "does not support http://"),
        ("s3://ann:secret@bucket/list.csv", "leave the password out"),
        ("memory://nowhere/list.csv", "there is no such object or bucket"),
        ("s3://", "s3:// names no bucket: s3://BUCKET/PATH"),
        ("s3:///list.csv", "names no bucket"),
        ("memory://nowhere/list.txt", "josrc reads remote manifests"),
        ("gs://bucket/list.csv", "pip install gcsfs"),
    ],
)
def test_addresses_that_lead_nowhere_say_what_to_do(
    place: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    assert josrc("doctor", "data", place) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "secret" not in error
