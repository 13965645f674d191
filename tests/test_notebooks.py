"""The notebooks of the docs, as somebody runs them: all cells, from top to bottom."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[1] / "docs" / "use"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs)


def executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # `!josrc` is that of this environment.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(DOCS / name, as_version=4)
    client = NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return printed(notebook)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own packages
def test_a_folder_is_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = executed("folder-to-corrected.ipynb", tmp_path, monkeypatch)
    counts = re.search(r"(\d+) labels are wrong, (\d+) are accused, (\d+) of these rightly", told)
    left = re.search(r"(\d+) of 240 labels are wrong now", told)
    assert counts is not None, told
    assert left is not None, told
    wrong, accused, right = (int(count) for count in counts.groups())
    assert right > 0.6 * wrong
    assert right > 0.6 * accused
    assert int(left[1]) < wrong / 2
    assert (tmp_path / "MODEL/summary.json").is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_predictions_of_ones_own_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = executed("own-predictions.ipynb", tmp_path, monkeypatch)
    counts = re.search(r"(\d+) are accused, (\d+) of these rightly", told)
    assert counts is not None, told
    accused, right = (int(count) for count in counts.groups())
    assert right > 0.8 * accused
    assert right > 0.6 * (1797 // 12)
    assert (tmp_path / "RUN/audit/report.html").is_file()


def test_notebooks_are_kept_without_their_output() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs"), path
            assert not cell.get("execution_count"), path
