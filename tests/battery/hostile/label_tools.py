"""What other tools export, or seem to: Label Studio's and COCO's JSON that is damaged or hostile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..cases import Case
from ..mutate import mutants
from ..world import CLASSES, SHORT, World, content, copy


def cases(world: World) -> Iterator[Case]:
    """Exports that are good, mutated, and wrong in one place: to train on, and as decisions.

    Then ``josrc apply --to`` every tool, of a manifest with odd columns.
    """
    good = {"label studio": _studio(), "coco": _coco()}
    for tool, value in good.items():
        text = json.dumps(value).encode()
        yield from _cases(world, f"{tool} good", text)
        for title, changed in mutants(text, 36, tool):
            yield from _cases(world, f"{tool} {title}", changed)
    for title, value in {**_studios(), **_cocos()}.items():
        yield from _cases(world, title, json.dumps(value).encode())
    for title, text in _texts().items():
        yield from _cases(world, title, text)
    yield from _written(world)


def _cases(world: World, title: str, text: bytes) -> Iterator[Case]:
    words = ("decisions", "run", "--from", "in/export.json")
    yield Case("label tools", f"{title}, decisions", words, _with_run(world, text), ("run",))
    command = ("train", "in/export.json", *SHORT, "--allow-skipped", "--out", "out/run")
    yield Case("label tools", title, command, _beside(world, text))


def _with_run(world: World, text: bytes) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        copy(world.run, "run")(folder)
        content("in/export.json", text)(folder)

    return prepare


TOOLS = {
    "csv": "c.csv", "parquet": "c.parquet", "coco": "c.json", "hf": "c", "label-studio": "t.json",
}  # fmt: skip
ODD: tuple[Any, ...] = (
    2**63, 10**400, -(2**80), 1e308, "\ud800", "a\0b", "\x1b[2J", "=1+1", "x" * 100_000, [], [[1]], {"a": {}}, None, True, "a,b\n\"c",
)  # fmt: skip


def _written(world: World) -> Iterator[Case]:
    """A scan of a manifest whose other columns hold anything, handed to each tool."""
    for number, value in enumerate(ODD):
        run = _scan(world, f"odd-{number}", {"more": value})
        for tool, name in TOOLS.items():
            sure = () if tool == "label-studio" else ("--auto", "0")
            words = ("apply", "run", *sure, "--to", tool, f"out/{name}")
            yield Case("label tools", f"to {tool}: {value!a:.40}", words, copy(run, "run"), ("out", "run"))  # fmt: skip
    for number, key in enumerate(("", "x" * 5000, "\ud800", "\x1b[2J", "path ", "verdict", "a\0b")):
        run = _scan(world, f"key-{number}", {key: 1})
        for tool, name in TOOLS.items():
            sure = () if tool == "label-studio" else ("--auto", "0")
            words = ("apply", "run", *sure, "--to", tool, f"out/{name}")
            yield Case("label tools", f"to {tool}: column {key!a:.40}", words, copy(run, "run"), ("out", "run"))  # fmt: skip


def _scan(world: World, name: str, more: dict[str, Any]) -> Path:
    """A run folder on a manifest beside the images; an empty one where the scan is refused."""
    run, listed = world.files / f"scan-{name}", world.files / f"scan-{name}.jsonl"
    if not run.is_dir():
        rows = [
            {"path": str(world.data / kind / f"{n}.png"), "label": kind, "n": n} | more
            for kind in CLASSES
            for n in range(12)
        ]
        listed.write_text("\n".join(map(json.dumps, rows)))
        features = str(world.files / "features.npy")
        words = ("scan", str(listed), "--allow-outside", "--features", features, "--quiet")
        world.execute((*words, "--out", str(run)))
        run.mkdir(exist_ok=True)
    return run


def _beside(world: World, text: bytes) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        copy(world.data, "in")(folder)
        content("in/export.json", text)(folder)

    return prepare


def _task(number: int, image: Any, choice: Any, **more: Any) -> dict[str, Any]:
    result = [
        {
            "type": "choices",
            "from_name": "label",
            "to_name": "image",
            "value": {"choices": [choice]},
        }
    ]
    return {
        "id": number,
        "data": {"image": image},
        "annotations": [{"id": number, "completed_by": 1, "result": result}],
    } | more


def _studio(image: str | None = None, choice: Any = None) -> list[dict[str, Any]]:
    rows = [(f"{name}/{n}.png", name) for name in CLASSES for n in range(12)]
    return [_task(n, image or path, choice or name) for n, (path, name) in enumerate(rows)]


def _coco(**more: Any) -> dict[str, Any]:
    names = [f"{name}/{n}.png" for name in CLASSES for n in range(12)]
    made = {
        "images": [
            {"id": n, "file_name": name, "width": 24, "height": 20} for n, name in enumerate(names)
        ],
        "categories": [{"id": n, "name": name} for n, name in enumerate(CLASSES)],
        "annotations": [
            {"id": n, "image_id": n, "category_id": n // 12, "bbox": [0, 0, 9, 9]}
            for n in range(36)
        ],
    }
    return made | more


def _studios() -> dict[str, Any]:
    images = ("../../../../etc/hostname", "/etc/hostname", "http://127.0.0.1:9/x.png", "file:///dev/zero", "data:image/png;base64,AAAA",
              "/data/local-files/?d=../../../../etc/hostname", "/data/upload/1/x.png", "s3://a/b.png", "x" * 300, "a\0b", "\ud800", "", "cat")  # fmt: skip
    made: dict[str, Any] = {
        f"label studio image {image[:40]!a}": _studio(image=image) for image in images
    }
    for choice in (
        "../../up",
        "/abs",
        "a\0b",
        "\ud800",
        "x" * 5000,
        "\x1b[2J",
        "<script>",
        3,
        ["a"],
        {"a": 1},
        True,
    ):
        made[f"label studio choice {str(choice)[:20]!a}"] = _studio(choice=choice)
    first = _studio()
    made |= {
        "label studio no annotations": [task | {"annotations": []} for task in first], "label studio null annotations": [task | {"annotations": None} for task in first],
        "label studio data null": [task | {"data": None} for task in first], "label studio data list": [task | {"data": ["x"]} for task in first],
        "label studio tasks of numbers": [1, 2, 3], "label studio tasks of null": [None], "label studio empty": [], "label studio one task": first[0],
        "label studio two choices": [task | {"annotations": task["annotations"] * 2} for task in first], "label studio image null": [task | {"data": {"image": None}} for task in first],
        "label studio cancelled": [task | {"annotations": [{"was_cancelled": True, "result": []}]} for task in first],
        "label studio result text": [task | {"annotations": [{"result": "x"}]} for task in first], "label studio value null": [task | {"annotations": [{"result": [{"type": "choices", "value": None}]}]} for task in first],
        "label studio same images": first + first, "label studio small export": [{"id": n, "image": f"cat/{n}.png", "choice": "cat"} for n in range(12)],
        "label studio huge ids": [task | {"id": 10**400} for task in first],
    }  # fmt: skip
    return made


def _cocos() -> dict[str, Any]:
    good = _coco()
    images, categories, annotations = good["images"], good["categories"], good["annotations"]
    made = {
        "images null": _coco(images=None), "images object": _coco(images={}), "images of numbers": _coco(images=[1]), "no images": _coco(images=[]), "categories null": _coco(categories=None),
        "no categories": _coco(categories=[]), "annotations null": _coco(annotations=None), "no annotations": _coco(annotations=[]), "annotations of null": _coco(annotations=[None]),
        "category unknown": _coco(annotations=[one | {"category_id": 90} for one in annotations]), "category null": _coco(annotations=[one | {"category_id": None} for one in annotations]),
        "category list": _coco(annotations=[one | {"category_id": [1]} for one in annotations]), "image unknown": _coco(annotations=[one | {"image_id": 900} for one in annotations]),
        "same ids": _coco(images=[one | {"id": 1} for one in images]), "id objects": _coco(images=[one | {"id": {"a": 1}} for one in images]), "names up": _coco(images=[one | {"file_name": "../../../../etc/hostname"} for one in images]),
        "names absolute": _coco(images=[one | {"file_name": "/etc/hostname"} for one in images]), "names null": _coco(images=[one | {"file_name": None} for one in images]), "names NUL": _coco(images=[one | {"file_name": "a\0b"} for one in images]),
        "category names up": _coco(categories=[one | {"name": "../../" + str(one["name"])} for one in categories]), "category names null": _coco(categories=[one | {"name": None} for one in categories]),
        "category names same": _coco(categories=[one | {"name": "cat"} for one in categories]), "category names escape": _coco(categories=[one | {"name": "\x1b[2J" + str(one["name"])} for one in categories]),
        "many categories per image": _coco(annotations=annotations + [one | {"category_id": 0, "id": 90} for one in annotations]),
    }  # fmt: skip
    return {f"coco {title}": value for title, value in made.items()}


def _texts() -> dict[str, bytes]:
    return {
        "empty": b"", "deep arrays": b"[" * 100_000, "deep objects": b'{"a":' * 100_000, "null": b"null", "number": b"1", "text": b'"x"', "nan": b"NaN", "NUL": bytes(999),
        "huge number": b"9" * 100_000, "half": b'[{"id": 1, "data"', "html": b"<html>", "a pickle": b"\x80\x04cos\nsystem\n(S'touch executed'\ntR.", "utf-16": "[]".encode("utf-16"),
        "bad utf-8": b'["\xff\xfe"]', "many": b"[" + b"{}," * 200_000 + b"{}]", "long text": b'["' + b"x" * 5_000_000 + b'"]', "other json": b'{"type": "FeatureCollection", "features": []}',
        "doubled keys": b'{"images": [], "images": null}', "bom": b"\xef\xbb\xbf[]", "jsonl": b'{"a": 1}\n{"a": 2}\n',
    }  # fmt: skip
