"""Settings: YAML files and KEY=VALUE pairs that are wrong, deep, huge, or programs."""

from __future__ import annotations

from collections.abc import Iterator

from ..cases import Case
from ..mutate import mutants
from ..world import SHORT, World, content

KEYS = (
    "epochs", "batch_size", "seed", "device", "precision", "engine", "plant", "log", "recipe", "model",
    "model.name", "model.width", "model.image_size", "model.weights", "model.head", "optimizer.lr",
    "optimizer.weight_decay", "optimizer.momentum", "optimizer.decay_start", "optimizer.rates", "views.pad",
    "views.stored", "views.crop", "data.workers", "data.val", "data.noise_seed", "data.noise_file", "data.root",
    "data.epoch_samples", "method", "method.name", "optimizer.backbone_factor",
)  # fmt: skip
VALUES = ("", "-1", "1e308", "nan", "[]", "99999999999999999999")


def cases(world: World) -> Iterator[Case]:
    """Every key with every odd value; odd pairs; odd files, and mutants of a good one."""
    for key in KEYS:
        for value in VALUES:
            yield _pair(world, f"{key}={value}")
    for title, pair in _pairs().items():
        yield _pair(world, pair, title)
    for title, text in _files().items():
        yield _file(world, title, text.encode("utf-8", "surrogatepass"))
    for title, changed in mutants((world.run / "config.yaml").read_bytes(), 48, "yaml"):
        yield _file(world, title, changed)


def _pair(world: World, pair: str, title: str | None = None) -> Case:
    words = [word for word in SHORT if not word.startswith("model.width") or "width" not in pair]
    if pair.startswith("epochs"):
        words = [word for word in words if word not in ("--epochs", "1")]
    command = ("train", str(world.data), *words, "--out", "out/run", pair)
    return Case("settings", title or pair, command, limit=60)


def _file(world: World, title: str, text: bytes) -> Case:
    command = ("train", str(world.data), "--config", "in/c.yaml", *SHORT, "--out", "out/run")
    return Case("settings", f"file {title}", command, content("in/c.yaml", text))


def _pairs() -> dict[str, str]:
    return {
        "deep list": "epochs=" + "[" * 5000, "deep map": "epochs=" + "{a: " * 5000, "no key": "=1", "no value": "epochs",
        "no such key": "epoch=1", "dots": "...=1", "dunder": "__class__=1", "method dunder": "method.__init__=1",
        "long key": "a" * 100_000 + "=1", "long value": "model.name=" + "a" * 100_000, "deep key": ".".join("a" * 5000) + "=1",
        "tag": "epochs=!!python/object/apply:os.system ['touch executed']", "alias": "epochs=*a", "escape": "model.name=\x1b[2J",
        "newline": "model.name=a\nb", "surrogate": "model.name=\udcff", "huge width": "model.width=100000",
        "huge batch": "batch_size=100000000000", "huge image": "model.image_size=100000", "huge pad": "views.pad=100000",
        "many workers": "data.workers=100000", "tiny width": "model.width=1e-300", "lr": "optimizer.lr=1e300",
        "rates": "optimizer.rates=[1e-3, 1e308]", "log": "log=[nowhere]", "hub": "model.name=hf-hub:x/y",
        "date": "epochs=2026-01-01", "octal": "epochs=0o7", "sexagesimal": "epochs=1:30", "binary": "epochs=!!binary aGk=",
        "weights": "model.weights=/etc/passwd", "timm dots": "model.name=../../x", "device": "device=cuda:99", "meta": "device=meta",
    }  # fmt: skip


def _files() -> dict[str, str]:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(7)
    )
    made = {
        "empty": "", "list": "[1, 2]", "number": "1", "text": "hello", "null": "null", "two documents": "a: 1\n---\nb: 2",
        "deep flow": "[" * 20_000, "deep map": "{a: " * 5_000, "deep block": "".join(" " * n + "a:\n" for n in range(2000)),
        "tag": "epochs: !!python/object/apply:os.system ['touch executed']", "new tag": "!!python/object/new:os.system ['touch executed']",
        "module tag": "!!python/module:os", "tab": "epochs:\t1\n\tseed: 1", "NUL": "epochs: 1\0", "bom": "\ufeffepochs: 1",
        "surrogate": "epochs: '\ud800'", "doubled key": "epochs: 1\nepochs: 2", "unknown": "nothing: 1", "merge": "<<: {epochs: 1}",
        "self": "&a [*a]", "self map": "&a {epochs: *a}", "self value": "model: &a {name: *a}", "number keys": "1: 2", "null key": "~: 1",
        "list key": "? [a]\n: 1", "huge number": "epochs: " + "9" * 5000, "huge text": "model: {name: " + "x" * 1_000_000 + "}",
        "million keys": "\n".join(f"k{n}: 1" for n in range(100_000)), "open quote": "model: {name: 'x", "control": "model: {name: \"\\e[2J\"}",
        "method elsewhere": "method: {name: ../../x}", "method of code": "method: {name: os}", "scan": "method: {name: scan}",
    }  # fmt: skip
    for key in ("epochs", "data", "method", "log", "views", "model", "optimizer.lr"):
        made[f"bomb in {key}"] = bomb + f"{key}: *h\n"
    return made
