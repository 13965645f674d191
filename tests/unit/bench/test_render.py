"""What is rendered from results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_results import PutResult
from josrc.bench.figures import figures_of, lines_of
from josrc.bench.render import VIEWS, write_results
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS
from josrc.errors import UserError
from rendered import SYM20, page_of, shown, two_seeds


@pytest.mark.parametrize("suite", VIEWS)
@pytest.mark.parametrize("width", [80, 81, 93])
def test_a_note_is_whole_on_any_terminal(tmp_path: Path, suite: str, width: int) -> None:
    text = " ".join(shown(suite, tmp_path, width).split())
    for view_of in VIEWS[suite]:
        note = view_of(suite, load_results(tmp_path, FOLDERS)).note
        assert " ".join(note.split()) in text


def test_notes_beside_the_results_are_on_the_page(tmp_path: Path, put_result: PutResult) -> None:
    put_result(f"{SYM20}/josrc/augmented")
    (tmp_path / "notes.md").write_text("Seed 0 ran on a Tuesday.\n")
    write_results(tmp_path, tmp_path / "RESULTS.md")
    assert "\n\nSeed 0 ran on a Tuesday.\n\n## " in (tmp_path / "RESULTS.md").read_text()


def test_a_folder_without_results_is_told(tmp_path: Path, put_result: PutResult) -> None:
    assert f"There are no results in {tmp_path}." in shown("table2", tmp_path).replace("\n", "")
    put_result(f"{SYM20}/josrc/augmented")
    assert "There are no results" not in shown("table2", tmp_path)


def test_an_unknown_table_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Unknown suite 'table7'"):
        shown("table7", tmp_path)


def test_files_that_are_no_results_are_named_and_skipped(
    tmp_path: Path, put_result: PutResult
) -> None:
    folder = put_result(f"{SYM20}/josrc/augmented", last10_mean=66.0).parent
    (folder / "seed-2.json").write_text("{ not json")
    (folder / "notes.txt").write_text("someone's notes")
    (folder / "seed-3.json").write_bytes(b"\xff\xfe")
    (folder / "seed-4.json").write_text("[1, 2]")
    put_result(f"{SYM20}/josrc/augmented", 5, last10_mean="high")
    put_result(f"{SYM20}/josrc/augmented", 6, metrics={"epoch": [1], "test_accuracy": [1.0, 2.0]})
    good = (folder / "seed-0.json").read_text()
    elsewhere = (
        *("josrc/seed-7.json", "josrc/augmented/seed-8.json", "jocor/augmented/seed-0.json"),
        *("josrc/plain/seed-0.json", "../cifar80n-o-symmetric-0.5/josrc/augmented/seed-0.json"),
    )
    for name in elsewhere:
        path = tmp_path / SYM20 / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(good)
    (folder / "seed-9.json.partial").write_text("{")  # is just being written
    page = page_of(tmp_path)

    assert "66.00 (n=1)<br>paper 65.83" in page
    skipped = [line for line in page.splitlines() if "not a result" in line]
    names = ["notes.txt", *(f"seed-{seed}.json" for seed in (2, 3, 4, 5, 6))]
    names += [name.removeprefix("../") for name in elsewhere]
    assert len(skipped) == len(names)
    assert all(any(name in line for line in skipped) for name in names)
    assert "last10_mean: Input should be a valid number" in page
    assert "skipped " in shown("table2", tmp_path)
    results = load_results(tmp_path, FOLDERS)
    accuracy = figures_of(results)[0]
    josrc = lines_of(accuracy, accuracy.panels[0], results)[-1]
    assert (josrc.entry.method, josrc.runs) == ("josrc", 1)


def test_rendering_twice_gives_the_same_bytes(
    tmp_path: Path, put_result: PutResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Drawing takes the time here, and other tests draw.
    monkeypatch.setattr("josrc.bench.figures._draw", lambda figure, drawn, path: path.touch())
    two_seeds(put_result)
    page = tmp_path / "RESULTS.md"
    write_results(tmp_path, page)
    files = [page, *sorted((tmp_path / "figures").iterdir())]
    before = [file.read_bytes() for file in files]
    write_results(tmp_path, page)
    assert [file.read_bytes() for file in files] == before
    pictures = {file.stem for file in files if file.suffix == ".png"}
    assert pictures == {
        *("fig3-cifar80n-o", "fig4-cifar80n-o", "fig5-cifar80n-o"),
        *("fig3-cifar100n-c", "fig4-cifar100n-c"),
    }
    for name in pictures:
        assert f"](figures/{name}.png)" in page.read_text()
        assert f"](figures/{name}.csv)" in page.read_text()
