"""What results say of their origin, and what a table says of rows that differ in it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench_results import PutResult
from josrc.bench import provenance
from josrc.bench.provenance import commit, origins, record
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS
from josrc.runs.start import configure

CELL = "others-o/cifar80n-o-symmetric-0.2"


def test_a_record_has_every_setting_once_and_no_place_on_a_machine(tmp_path: Path) -> None:
    config = configure(
        "cifar80n-o",
        method="pencil",
        noise="symmetric",
        rate=0.2,
        layers=[{"model": {"weights": tmp_path / "w.pt"}, "data": {"root": tmp_path}}],
    )
    found = record(config)
    assert found["settings"]["label_rate"] == 1600
    assert found["configuration"]["optimizer.decay_start"] == 150
    assert found["configuration"]["model.weights"] == "w.pt"
    assert str(tmp_path) not in str(found)
    keys = {f"method.{key}" for key in found["settings"]} | set(found["configuration"])
    assert keys == set(config.identity())


def test_the_commit_is_that_of_the_checkout_and_says_if_code_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    code = tmp_path / "provenance.py"
    code.write_text("a = 1")
    monkeypatch.setattr(provenance, "SOURCE", tmp_path)
    monkeypatch.setattr(provenance, "__file__", str(code))
    commit.cache_clear()
    assert commit() is None, "not a checkout"
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    head = git("rev-parse", "HEAD")
    for text, expected in (("a = 1", head), ("a = 2", f"{head} (changed)")):
        code.write_text(text)
        commit.cache_clear()
        assert commit() == expected
    # Installed into a folder that somebody else keeps under git.
    git("rm", "--cached", "-f", "provenance.py")
    commit.cache_clear()
    assert commit() is None
    commit.cache_clear()


def told(root: Path) -> str:
    return origins("others-o", load_results(root, FOLDERS))


def test_a_table_says_where_its_rows_differ_in_settings_and_commit(
    tmp_path: Path, put_result: PutResult
) -> None:
    def put(method: str, sha: str, start: int, seed: int = 0, **settings: Any) -> None:
        configuration = {"optimizer.decay_start": start, "batch_size": 128, "seed": seed}
        place = f"{CELL}/{method}/augmented"
        put_result(
            place,
            seed,
            commit=sha,
            settings=settings,
            configuration=configuration,
            versions={"josrc": "0.1.0", "torch": "2.11"},
        )

    put("pencil", "a" * 40, 80, entropy=0.4)
    put("dividemix", "a" * 40, 80, mixup=4.0)
    assert not told(tmp_path), "methods may differ in their settings"
    put("pencil", "a" * 40, 80, seed=1, entropy=0.4, forget_rate=0.3)
    assert "forget_rate" not in told(tmp_path)

    put("joint-optim", "b" * 40 + " (changed)", 150)
    put("pencil", "a" * 40, 80, seed=1, entropy=0.8)
    assert told(tmp_path) == (
        "Made from (runs): josrc 0.1.0 at aaaaaaaaaa (3); josrc 0.1.0 at bbbbbbbbbb (changed) (1). "
        "Not alike: `optimizer.decay_start` (Joint-Optim); "
        "`method.entropy` between the runs of P-correction."
    )


def test_results_without_a_record_are_counted(tmp_path: Path, put_result: PutResult) -> None:
    put_result(f"{CELL}/pencil/augmented", versions={"josrc": "0.1.0"})
    assert told(tmp_path) == "Made from (runs): josrc 0.1.0, without a record of its commit (1)."
