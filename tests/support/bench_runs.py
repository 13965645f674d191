"""Small runs for tests of the bench."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from josrc.bench import speed
from josrc.bench import suite as suite_module
from josrc.bench.suite import run_suite
from josrc.data.source import Source
from josrc.runs.start import configure

CPU = torch.device("cpu")


def small(method: str = "josrc") -> tuple[Any, Source]:
    options = {"noise": "symmetric", "rate": 0.2, "batch_size": 16, "device": "cpu"}
    return configure("cifar80n-o", method=method, **options), speed.synthetic_source(64, 8)


def run(tmp_path: Path, **changes: object) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    arguments: dict[str, object] = {
        "methods": ["josrc"],
        "cells": ["symmetric-0.2", "asymmetric-0.4"],
        "seeds": 1,
        "minutes": None,
        "options": {"epochs": 1, "device": "cpu", "batch_size": 100},
        "results": tmp_path / "results",
        "scratch": tmp_path / "runs",
        "console": console,
    }
    arguments |= {"suite": "table2", **changes}
    run_suite(arguments.pop("suite"), **arguments)  # type: ignore[arg-type]
    return console.export_text()


class Asked:
    """Stands in for configuring and training: notes what is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: list[dict[str, object]] = []
        monkeypatch.setattr(
            suite_module, "configure", lambda data, **asked: {"data": data, **asked}
        )
        monkeypatch.setattr(
            suite_module.SuiteWork, "run", lambda work, key, asked: self.note(asked)
        )

    def note(self, asked: dict[str, object]) -> None:
        self.runs.append(asked)
