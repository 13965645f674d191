"""``josrc apply --to``: what other tools read, with every column of the manifest."""

from __future__ import annotations

import csv
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas
import pytest
from PIL import Image

from commands import josrc
from josrc.runs.start import plan
from reviewing import decide, read

# Images of a manifest: file, class, id, split, and columns that josrc has no use for.
HEADER = ["file", "camera", "class", "id", "split", "note", "label"]
CLASSES = ("cat", "dog")


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A run on a manifest with extra columns: 6 training, 2 held-out and 2 test images."""
    from josrc.data.registry import open_source
    from josrc.engine.run_folder import RunFolder
    from josrc.runs.snapshot import write_record
    from josrc.verdicts.table import VERDICT_COLUMNS

    rows = []
    for number in range(10):
        name = f"pictures/{number}.png"
        (tmp_path / "pictures").mkdir(exist_ok=True)
        Image.new("RGB", (20 + number, 16), (20 * number, 90, 10)).save(tmp_path / name)
        split = "train" if number < 6 else "val" if number < 8 else "test"
        note = "" if number == 3 else f'said "{number}", once'
        rows.append([name, f"0{number}", CLASSES[number % 2], f"im-{number}", split, note, "old"])
    with (tmp_path / "all.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    config, source = plan(str(tmp_path / "all.csv"), label_column="class", method="standard")
    assert source is not None
    assert source.val is not None
    folder = RunFolder(tmp_path / "run")
    folder.audit.mkdir(parents=True)
    write_record(folder.samples, source)
    folder.config.write_text(config.to_yaml())
    folder.write_skipped([])
    lines = []
    for row, part in enumerate([source] * 6 + [source.val] * 2):
        index, given = row % 6, CLASSES[row % 2]
        wrong = row in (0, 1)
        verdict = ("mislabelled", CLASSES[1 - row % 2]) if wrong else ("clean", "")
        score = -3.0 + row if wrong else row / 10
        numbers = ["0.1", "0.0", "0.9", str(score)]
        lines.append([part.ids[index], part.paths[index], given, *verdict, *numbers, "Because."])
    with (folder.audit / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([VERDICT_COLUMNS, *lines])
    assert open_source(config.data).ids[0] == "im-0"
    decide(folder.path, ([0], "accept"), ([2], "remove"), ([6], "keep"))
    return folder.path


# What every format has to hold: by file number the label, the split and the columns.
LABELS = {
    number: "dog" if number == 0 else CLASSES[number % 2] for number in range(10) if number != 2
}
SPLITS = {n: "train" if n < 6 else "val" if n < 8 else "test" for n in LABELS}


def check(found: dict[int, dict[str, Any]]) -> None:
    """All that is known of the images is there, and nothing else."""
    assert {n: row["label"] for n, row in found.items()} == LABELS
    assert {n: row["split"] for n, row in found.items()} == SPLITS
    for number, row in found.items():
        assert row["id"] == f"im-{number}"
        assert row["camera"] == f"0{number}"
        assert (row["note"] or "") == ("" if number == 3 else f'said "{number}", once')
        assert row["original_label"] == "old"


def number_of(path: Any) -> int:
    return int(Path(str(path)).stem)


@pytest.mark.parametrize("to", [[], ["--to", "csv"]])
def test_a_csv_keeps_all_columns(listed: Path, to: list[str]) -> None:
    out = listed.parent / "clean.csv"
    assert josrc("apply", listed, *to, "--out", out) == 0
    check({number_of(row["path"]): row for row in read(out)})


def test_a_parquet_file_keeps_all_columns(listed: Path) -> None:
    out = listed.parent / "clean.parquet"
    assert josrc("apply", listed, "--to", "parquet", out) == 0
    rows = pandas.read_parquet(out).to_dict("records")
    check({number_of(row["path"]): row for row in rows})


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


# The library leaves the file of the table open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_imagefolder_is_read_by_datasets(listed: Path, monkeypatch: Any) -> None:
    out = listed.parent / "hub"
    assert josrc("apply", listed, "--to", "hf", "--out", out) == 0
    monkeypatch.setenv("HF_DATASETS_CACHE", str(listed.parent / "cache"))
    cache = str(listed.parent / "cache")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(out), cache_dir=cache)
    rows = {}
    for split, part in loaded.items():
        for row in part:
            number = int(row["id"].removeprefix("im-"))
            assert row["image"].size == (20 + number, 16)
            # The library reads digits as numbers.
            row |= {"split": {"validation": "val"}.get(split, split)}
            rows[number] = row | {"camera": f"{row['camera']:02}"}
    check(rows)
    del loaded, part
    gc.collect()  # the warning comes now, and not in a later test


def test_what_does_not_fit_is_refused(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["--to", "coco", "a.csv"], "a.csv does not end in .json"),
        (["--to", "cocoa", "a.json"], "--to cocoa is not a format. Did you mean 'coco'?"),
        (["--to", "coco", "a.json", "--copy"], "--copy and --link are for folders"),
        ([], "Name one file or folder to write"),
        (["a.csv", "--out", "b.csv"], "Name one file or folder to write"),
        (["--to", "label-studio", "a.json", "--images", "x/y"], "--images x/y is not a URL"),
        (["a.csv", "--images", "http://x"], "--images goes with --to label-studio"),
        (["--to", "label-studio", "a.json", "--auto", "0.5"], "hands images to people who decide"),
    ):
        assert josrc("apply", listed, *words) == 2
        assert message in capsys.readouterr().err


# --- Label Studio's format, without Label Studio -------------------------------------------------


def exported(tasks: list[dict[str, Any]], change: Callable[[int, dict[str, Any]], Any]) -> Any:
    """What Label Studio exports of imported tasks; ``change`` gives the annotations of people."""
    for number, task in enumerate(tasks):
        for given in task.setdefault("annotations", []):
            given |= {
                "completed_by": 1,
                "updated_by": None,
                "was_cancelled": False,
                "created_at": "2030-01-01T10:00:00.000001Z",
                "updated_at": "2030-01-01T10:00:00.000042Z",
            }
        task["annotations"] += change(number, task) or []
    return tasks


def chosen(label: str, who: Any = 7, when: str = "2030-01-02T10:00:00Z", **more: Any) -> Any:
    result = {"id": "x", "from_name": "label", "to_name": "image", "type": "choices"}
    result |= {"value": {"choices": [label]}}
    found = {"result": [result], "completed_by": who, "updated_at": when, "created_at": when}
    return found | {"was_cancelled": False} | more


def test_tasks_hold_labels_suggestions_and_columns(listed: Path) -> None:
    out = listed.parent / "tasks.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0
    tasks = json.loads(out.read_text())
    assert [task["data"]["id"] for task in tasks] == [f"im-{n}" for n in (0, 1, 3, 4, 5, 6, 7)]
    first, second, third = tasks[:3]
    home = listed.parent
    assert first["data"]["image"] == "/data/local-files/?d=pictures/0.png"
    assert first["data"]["file"] == "pictures/0.png"
    assert first["data"]["camera"] == "00"
    assert first["data"]["original_label"] == "old"
    (annotation,) = first["annotations"]
    assert annotation["result"][0]["value"]["choices"] == ["dog"], "as it was decided"
    (prediction,) = second["predictions"]
    assert prediction["score"] == 0.9
    assert prediction["result"][0]["value"]["choices"] == ["cat"]
    assert second["data"]["given_label"] == "dog"
    assert "annotations" not in second, "it is accused, and open for people"
    assert third["annotations"][0]["result"][0]["value"]["choices"] == ["dog"]
    assert third["predictions"][0]["result"][0]["value"]["choices"] == ["dog"], "it is clean"
    config = (home / "tasks.config.xml").read_text()
    assert [f'<Choice value="{name}"/>' in config for name in (*CLASSES, "no class")] == [True] * 3


def test_answers_become_decisions(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from josrc.review.decisions import Store

    out, back = listed.parent / "tasks.json", listed.parent / "export.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0

    def people(number: int, task: dict[str, Any]) -> Any:
        return {
            0: [chosen("cat", when="2020-01-01T10:00:00Z")],  # older than the decision here
            1: [chosen("cat", "a@b.cd"), chosen("dog", "c@d.ef", "2030-01-03T10:00:00Z")],
            2: [chosen("no class", {"id": 3, "email": "c@d.ef"})],
            3: [chosen("bird")],
            4: [chosen("cat", was_cancelled=True)],
        }.get(number)

    tasks = exported(json.loads(out.read_text()), people)
    tasks[5]["annotations"][0] |= {"updated_by": 9, "updated_at": "2030-01-02T10:00:00Z"}
    tasks += [{"data": {"image": "/data/upload/1/1a2b3c4d-7.png"}, "annotations": [chosen("cat")]}]
    tasks += [{"data": {"id": "im-4", "file": "pictures/5.png"}, "annotations": [chosen("cat")]}]
    tasks += [{"data": {"id": "im-5"}, "drafts": [{"result": []}]}]
    tasks += [{"data": {"image": "http://host/gone.png"}, "annotations": [chosen("cat")]}]
    back.write_text(json.dumps(tasks))
    capsys.readouterr()
    assert josrc("decisions", listed, "--from", back) == 0
    said = capsys.readouterr().out
    assert (
        "11 tasks, 6 answered by 7, 9, a@b.cd, c@d.ef, 3 without an answer, 2 of no image" in said
    )
    assert (
        "no decision: 1 with the label that they came with, saved by nobody, 1 with a draft that "
        "was not submitted, 1 skipped."
    ) in said
    assert "Answers on 5 images of this run: 3 kept, 1 relabelled, 1 removed." in said
    assert "3 decisions taken over, 1 already here, 1 older than the decision here" in said
    assert (
        "1 image had several annotations, of which the newest counts; they differ on 1: im-1"
        in said
    )
    assert "Of no image of this run: im-4, gone.png." in said
    assert "Answers on 1 image name a class that this run does not have: bird" in said
    store = Store(listed / "audit")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {
        0: ("relabel", "dog"),
        1: ("keep", None),
        2: ("remove", None),
        3: ("remove", None),
        6: ("keep", None),
        7: ("relabel", "cat"),
    }
    origins = store.origins()
    assert origins[1] == ("c@d.ef", "2030-01-03T10:00:00.000000+00:00")
    assert origins[3][0] == "c@d.ef"
    assert origins[7][0] == "7"
    store.undo()
    assert set(store.decisions()) == {0, 2, 6}, "it was one step"
    store.close()


def test_a_second_import_changes_what_is_newer_alone(listed: Path) -> None:
    from josrc.review.decisions import Store

    out = listed.parent / "tasks.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0
    tasks = exported(json.loads(out.read_text()), lambda number, _: number == 1 and [chosen("cat")])
    for when, label, held in (
        ("2031-01-01T10:00:00Z", "cat", ("relabel", "cat")),
        ("2032-01-01T10:00:00Z", "no class", ("remove", None)),
        ("2031-06-01T10:00:00Z", "cat", ("remove", None)),
    ):
        tasks[1]["annotations"] = [chosen(label, when=when)]
        out.write_text(json.dumps(tasks))
        assert josrc("decisions", listed, "--from", out) == 0
        store = Store(listed / "audit")
        assert store.decisions()[1][1] == held
        store.close()


def test_an_export_trains_with_what_was_chosen_last(listed: Path) -> None:

    out = listed.parent / "tasks.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0
    people = {0: [chosen("cat")], 1: [chosen("no class")], 2: [chosen("cat", was_cancelled=True)]}
    out.write_text(json.dumps(exported(json.loads(out.read_text()), lambda n, _: people.get(n))))
    _, source = plan(str(out))
    assert source is not None
    labels = [source.class_names[label] for label in source.given]
    assert dict(zip(source.ids, labels, strict=True)) == {
        "im-0": "cat", "im-3": "dog", "im-4": "cat", "im-5": "dog",
    }  # fmt: skip
    assert source.val is not None
    assert list(source.val.ids) == ["im-6", "im-7"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "can't be read as JSON"),
        ('{"a": 1}', "is not a list of Label Studio tasks"),
        ('[{"image": "a.png", "choice": "cat"}]', "task 1 has no 'data'"),
        ('[{"data": {}, "annotations": "x"}]', "annotations: Input should be a valid list"),
        ('[{"data": {}}, {"data": {}, "annotations": [{"result": [3]}]}]', "task 2, is not as"),
        (
            '[{"data": {}, "annotations": [{"result": [{"value": {"choices": "cat"}}]}]}]',
            "annotations.0.result.0.value.choices: Input should be a valid list",
        ),
    ],
)
def test_other_json_is_refused_as_decisions(
    listed: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = listed.parent / "export.json"
    file.write_text(content)
    assert josrc("decisions", listed, "--from", file) == 2
    assert message in capsys.readouterr().err


def test_an_older_store_gets_its_columns(listed: Path) -> None:
    import sqlite3
    from contextlib import closing

    from josrc.review.decisions import Store

    path = listed / "audit" / "decisions.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        for table, column in (
            ("decision", "who"), ("decision", "decided_at"),
            ("change", "old_who"), ("change", "old_decided_at"),
        ):  # fmt: skip
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        database.execute("UPDATE step SET time = '2020-02-02T02:02:02+00:00' WHERE number = 1")
    store = Store(listed / "audit")
    assert set(store.decisions()) == {0, 2, 6}
    assert store.origins()[0] == (None, "2020-02-02T02:02:02+00:00")
    store.decide([0], "keep")
    store.undo()
    assert store.decisions()[0][1] == ("relabel", "dog")
    assert store.origins()[0] == (None, "2020-02-02T02:02:02+00:00")
    store.close()
