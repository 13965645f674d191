"""The public face: what ``import josrc`` gives, and what it costs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import josrc

NAMES = ["NoisyLabelClassifier", "Run", "__version__", "audit", "report", "resume", "scan", "train"]


def test_the_package_lists_its_public_names_and_no_others(finished: Path) -> None:
    josrc.Run.load(finished)  # which imports most of its modules
    assert dir(josrc) == sorted(josrc.__all__) == sorted(NAMES)
    assert all(getattr(josrc, name) for name in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'verdict'"):
        _ = josrc.verdict


def test_importing_it_does_not_import_torch() -> None:
    program = "import josrc, sys; print(dir(josrc)); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def test_an_audit_and_a_report_from_python(run: Path) -> None:
    for given in (run, str(run), josrc.Run.load(run)):
        (run / "audit" / "report.html").unlink()
        summary = josrc.audit(given, 0.1, 0)
        assert summary == josrc.Run.load(run).audit
        assert summary["known_noise_rate"] == 0.1
        assert summary["counts"]["out_of_distribution"] == 0
        (run / "audit" / "report.html").unlink()
        assert josrc.report(given) == run / "audit" / "report.html"
        assert (run / "audit" / "report.html").is_file()


@pytest.mark.parametrize("rates", [{"noise_rate": 5}, {"ood_rate": -0.1}])
def test_a_rate_is_a_share(run: Path, rates: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        josrc.audit(run, **rates)
