"""Plans of ``josrc sweep`` that hold what nobody means. None is good: no case starts Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..cases import Case
from ..world import content

GOOD: dict[str, Any] = {
    "data": "digits-o",
    "fixed": {"epochs": 1, "plant": 0.05},
    "grid": {"seed": [0, 1]},
    "ranges": {"optimizer.lr": {"low": 0.001, "high": 0.01, "log": True}},
    "metric": "estimated_precision",
}
ODD: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e308, "", "x" * 5000, "\x1b[2J", "a\0b", "\ud800", [], [1], [[]], {}, {"a": 1}, {"": 1}, {"a": {"b": {"c": []}}},
)  # fmt: skip


def cases(_: object) -> Iterator[Case]:
    """Every key with every odd value that it can't have; settings within; texts that are no plan."""
    for key in ("data", "fixed", "grid", "choices", "ranges", "samples", "draw_seed", "metric", "scheduler", "cpus", "gpus", "more"):  # fmt: skip
        for value in ODD:
            yield _case(f"{key} {value!a:.60}", GOOD | {key: value, "scheduler2": 1})
    for value in ODD:
        yield _case(f"grid of seeds {value!a:.60}", GOOD | {"grid": {"seed": [0, value, -1]}})
        yield _case(f"grid of names {value!a:.60}", GOOD | {"grid": {"method.name": [value, "no"]}})
        yield _case(f"drawn {value!a:.60}", GOOD | {"choices": {"batch_size": [64, value, -1]}})
        yield _case(f"fixed epochs {value!a:.60}", GOOD | {"fixed": {"epochs": value, "plant": 9}})
        for end in ("low", "high", "log", "whole"):
            odd = {"low": 0.1, "high": 10.0**7} | {end: value}
            yield _case(f"range {end} {value!a:.60}", GOOD | {"ranges": {"optimizer.lr": odd}})
    wide = {f"a.b{n}": list(range(50)) for n in range(12)}
    for title, changes in {
        "endless grid": {"grid": wide}, "endless samples": {"samples": 10**9}, "wide range": {"ranges": {"optimizer.lr": {"low": -1e308, "high": 1e308}}},
        "no whole number": {"ranges": {"seed": {"low": 0.1, "high": 0.2, "whole": True}}}, "key of dots": {"grid": {"...": [1]}}, "long key": {"grid": {"a." * 5000: [1]}},
        "same twice": {"grid": {"epochs": [1]}}, "data of two": {"fixed": {"data": {"name": "x"}}}, "data a device": {"data": "/dev/zero"}, "data an address": {"data": "s3://"},
    }.items():  # fmt: skip
        yield _case(title, GOOD | changes)
    for title, text in {
        "empty": b"", "list": b"[1]", "deep": b"[" * 100_000, "NUL": bytes(500), "a program": b"data: !!python/object/apply:os.system [touch executed]", "half": b"data: [",
        "bomb": b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)) + b"data: digits-o\n",
        "bad utf-8": b"data: \xff\xfe", "long": b"data: " + b"x" * 5_000_000, "many": b"".join(b"k%d: 1\n" % n for n in range(200_000)),
    }.items():  # fmt: skip
        yield Case("sweep plans", title, ("sweep", "in/p.yaml", "--out", "out/s"), content("in/p.yaml", text))  # fmt: skip


def _case(title: str, plan: dict[str, Any]) -> Case:
    words = ("sweep", "in/p.yaml", "--out", "out/s")
    return Case("sweep plans", title, words, content("in/p.yaml", json.dumps(plan)))
