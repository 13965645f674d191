"""COCO."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from commands import josrc
from exports import LABELS, SPLITS, check, number_of
from josrc.runs.start import plan


def test_coco_is_read_by_pycocotools_and_by_josrc(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    out = listed.parent / "clean.json"
    assert josrc("apply", listed, "--to", "coco", out) == 0
    found = coco.COCO(str(out))
    names = {one["id"]: one["name"] for one in found.loadCats(found.getCatIds())}
    rows = {}
    for image in found.loadImgs(found.getImgIds()):
        (annotation,) = found.loadAnns(found.getAnnIds(imgIds=[image["id"]]))
        with Image.open(listed.parent / image["file_name"]) as picture:
            assert (image["width"], image["height"]) == picture.size
        label = names[annotation["category_id"]]
        rows[number_of(image["file_name"])] = image | {"label": label, "id": image["sample_id"]}
    check(rows)
    _, source = plan(str(out))
    assert source is not None
    assert source.val is not None
    for part in (source, source.val):
        given = [part.class_names[label] for label in part.given]
        ids = [int(name.removeprefix("im-")) for name in part.ids]
        assert given == [LABELS[number] for number in ids]
        assert ids == [n for n in LABELS if SPLITS[n] == ("train" if part is source else "val")]
