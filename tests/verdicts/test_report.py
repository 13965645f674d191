"""The report: which images it shows, how large it gets, and that nothing in it is believed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import josrc
from josrc.cli.main import main
from josrc.config import DataKind
from josrc.data.decode import read_picture
from josrc.data.readers.arrays import ARRAYS_NAME
from josrc.engine.health import ended_badly
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.runs.resolve import load_run_config
from josrc.runs.snapshot import open_run
from josrc.runs.start import report
from josrc.verdicts.report.gallery import Scores, choose
from josrc.verdicts.report.overview import matrix, next_steps, overview, result
from josrc.verdicts.report.page import add_pictures, script_json
from josrc.verdicts.report.thumbnails import thumbnail


def run_josrc(*arguments: str | Path) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and the content of its scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self.policy = ""
        self.feed(path.read_text())
        self.data: dict[str, Any] = json.loads(self.inside["script"][0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in self.inside:
            self.inside[tag].append("")
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = str(dict(attrs)["content"])

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in self.inside and not self.inside[self.tags[-1]][-1]:
            self.inside[self.tags[-1]][-1] = data
        else:
            self.text += data


def scores(*rows: tuple[int, int, float, float]) -> Scores:
    """From given label, verdict, confidence and score."""
    given, verdict, confidence, score = np.array(rows).T
    none = np.full(len(rows), -1)
    return Scores(given.astype(int), verdict.astype(int), none, confidence, score)


# --- which images ---------------------------------------------------------------------------------


def test_the_most_suspicious_come_first_and_clean_ones_only_in_doubt() -> None:
    found = scores(
        (0, 1, 0.90, -4.000001),
        (0, 1, 0.80, -4.000002),  # whatever its confidence
        (0, 2, 0.90, -6.0),
        (0, 0, 0.70, -9.0),  # not below 0.7
        (0, 0, 0.69, -9.0),
        (0, 2, 0.40, -5.0),
        (0, 0, 0.00, -9.0),  # not seen yet
    )
    galleries = {name: list(found) for name, found in found.galleries().items()}
    assert galleries == {
        "mislabelled": [1, 0],
        "out_of_distribution": [2, 5],
        "borderline": [5, 4],
    }
    assert choose(found, 2000) == [1, 0, 2, 5, 4]


def test_the_report_follows_the_scores_of_the_file(audited_run: Callable[[], Path]) -> None:
    run = audited_run()
    assert [sample["number"] for sample in Page(report(run)).data["samples"]] == list(range(7))
    verdicts = run / "audit" / "verdicts.csv"
    with verdicts.open(newline="") as file:
        header, *lines = csv.reader(file)
    place = header.index("score")
    for row, line in enumerate(lines):
        line[place] = f"{-3 - 1e-6 * row:.9g}"
    with verdicts.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    samples = Page(report(run)).data["samples"]
    assert [sample["number"] for sample in samples] == [3, 2, 1, 0, 5, 4, 6]
    assert all(sample["score"] == -3 - 1e-6 * sample["number"] for sample in samples)


def test_places_that_one_gallery_leaves_free_go_to_the_others() -> None:
    rows = [(0, 1, 0.99, -5.0)] * 30 + [(0, 2, 0.99, -5.0)] * 2
    chosen = choose(scores(*rows), 20)
    # Ten places for the mislabelled, and eight of the ten that the others have no use for.
    assert chosen == [*range(18), 30, 31]


def test_a_class_with_few_findings_is_not_crowded_out() -> None:
    rows = [(0, 1, 0.99, -5.0)] * 50 + [(k, 1, 0.71, -2.0) for k in (1, 2, 3)]
    chosen = choose(scores(*rows), 8)
    # The first four by their scores alone; then each of four classes in turn.
    assert {50, 51, 52} < set(chosen)
    assert len(chosen) == 8


def test_the_matrix_holds_the_pairs_that_occur_most() -> None:
    pairs = {(0, 1): 9, (2, 1): 4, (1, 0): 1}
    found = matrix(pairs, ["a", "b", "c"])
    assert found is not None
    cells = {
        (row["name"], column["name"]): cell["count"]
        for row in found["rows"]
        for column, cell in zip(found["columns"], row["cells"], strict=True)
    }
    assert cells == {
        ("a", "a"): 0, ("a", "b"): 9, ("b", "a"): 1, ("b", "b"): 0, ("c", "a"): 0, ("c", "b"): 4,
    }  # fmt: skip
    many = {(k, k + 1): 100 - k for k in range(50)}
    large = matrix(many, [str(k) for k in range(51)])
    assert large is not None
    assert not large["whole"]
    assert len(large["rows"]) == len(large["columns"]) == 12
    assert large["rows"][0]["cells"][0]["count"] == 100
    assert matrix({}, ["a"]) is None


# --- how large ------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [8000, 3000, 1000])
def test_a_thumbnail_takes_no_more_than_its_share(share: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    content = thumbnail(Image.fromarray(pixels), share)
    assert content is not None
    assert len(content) <= share
    width, height = Image.open(io.BytesIO(content)).size
    assert width / height == pytest.approx(2 / 3, abs=0.03)


def test_small_pictures_keep_their_pixels_and_hopeless_ones_are_left_out() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    content = thumbnail(Image.fromarray(pixels), 4000)
    assert content is not None
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content)).convert("RGB")), pixels)
    assert thumbnail(Image.fromarray(pixels), 20) is None


def test_all_pictures_together_keep_the_budget(audited_run: Callable[[], Path]) -> None:
    run = audited_run()
    samples = [{"number": number % 9} for number in range(40)]
    before = len(script_json(samples))
    add_pictures(samples, open_run(run).source, room=6000)
    assert all("image" in sample for sample in samples)
    assert len(script_json(samples)) - before <= 6000


def test_a_large_jpeg_is_decoded_at_a_smaller_scale(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    Image.new("RGB", (1600, 1200), "teal").save(path)
    assert read_picture(str(path), 128).size == (200, 150)
    assert read_picture(str(path)).size == (1600, 1200)


# --- nothing in it is believed --------------------------------------------------------------------


def test_json_in_a_script_can_not_end_it() -> None:
    hostile = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "a\u2028b", "\udce4"]
    text = script_json(hostile)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == hostile


def test_hostile_names_become_text(audited_run: Callable[[], Path]) -> None:
    page = Page(report(audited_run()))
    assert page.tags.count("script") == 2
    assert page.tags.count("style") == 1
    assert not {"img", "b", "iframe", "link"} & set(page.tags)
    assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
    assert "<img src=x onerror=alert(1)>" in page.text  # as a class, to be read
    assert page.data["classes"][1] == "<img src=x onerror=alert(1)>"
    reasons = [sample["reason"] for sample in page.data["samples"]]
    assert "</script><script>alert(2)</script><!-- the end -->" in reasons
    assert any('it\'s "quoted" <b>&amp;.png' in sample["path"] for sample in page.data["samples"])


def test_the_policy_knows_the_page_own_style_and_script_alone(
    audited_run: Callable[[], Path],
) -> None:
    page = Page(report(audited_run()))
    for kind, content in (("script", page.inside["script"][1]), ("style", page.inside["style"][0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in page.policy
    assert page.policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in page.policy


def test_very_long_names_are_cut(audited_run: Callable[..., Path]) -> None:
    page = Page(report(audited_run("d" * 5000)))
    assert {len(name) for name in page.data["classes"]} == {3, 28, 200}


# --- what is missing ------------------------------------------------------------------------------


def test_a_missing_image_and_a_broken_one_are_told_from_the_others(
    audited_run: Callable[[], Path],
) -> None:
    run = audited_run()
    (run.parent / "photos" / "cat" / "image 0.png").unlink()
    (run.parent / "photos" / "dog" / "image 2.png").write_bytes(b"\x89PNG")
    samples = Page(report(run)).data["samples"]
    assert {sample["number"]: "image" in sample for sample in samples} == {
        0: False, 1: True, 2: False, 3: True, 4: True, 5: True, 6: True,
    }  # fmt: skip


def test_skipped_files_are_told(audited_run: Callable[[], Path]) -> None:
    run = audited_run()
    assert "skipped.csv" not in report(run).read_text()
    RunFolder(run).write_skipped([("/a.png", "the file is empty")])
    assert "1 file could not be read and was skipped: <code>skipped.csv" in report(run).read_text()
    RunFolder(run).write_skipped([("/a.png", "empty"), ("/b.png", "empty")])
    assert "2 files could not be read and were skipped" in report(run).read_text()


def test_a_run_without_verdicts_says_what_to_do(
    audited_run: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = audited_run()
    (run / "audit" / "verdicts.csv").unlink()
    assert run_josrc("report", run) == 2
    assert f"josrc audit {run}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("7,/x,bird,clean,,1,0,1,2,Reason.", "line 11 is not a verdict"),
        ("7,/x,cat,clean,,much,0,1,2,Reason.", "line 11 is not a verdict"),
        ("7,/x,cat,clean,,1,0,1,much,Reason.", "line 11 is not a verdict"),
        ("7,/x", "line 11 is not a verdict"),
        ("7,/x,cat,clean,,1,0,1,2", "line 11 is not a verdict"),
        ("7,/x,cat,clean,,1,0,1,2,Reason.,and more", "can't be read: .* line 11"),
    ],
)
def test_a_damaged_line_is_named(audited_run: Callable[[], Path], line: str, words: str) -> None:
    run = audited_run()
    with (run / "audit" / "verdicts.csv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError, match=words):
        report(run)


def test_images_in_memory_are_asked_for(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    pair = (pixels, np.arange(40) % 2)
    short = {"val": 0.2, "epochs": 1, "device": "cpu", "method": "standard", "batch_size": 20}
    run = josrc.train(pair, out=tmp_path / "run", **short)
    first = (run.path / "audit" / "report.html").read_text()
    for sample in Page(run.path / "audit" / "report.html").data["samples"]:
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(sample["image"]))))
        assert np.array_equal(shown[..., 0], pixels[int(sample["id"])])  # held-out ones too
    with pytest.raises(UserError, match="images in memory"):
        report(run.path)
    assert report(run.path, data=pair).read_text() == first
    assert "data=(X, y), map_kind=&#39;umap&#39;)" in first  # no command knows these images
    assert "map" in Page(report(run.path, data=pair, map_kind="pca")).data


# --- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "name", "value", "words"),
    [
        ([{"test_accuracy": 50.0}] + [{"test_accuracy": 90.0}] * 10, "Test accuracy", "90.0 %", ""),
        ([{"agreement": 71.25}] * 11, "Agreement", "71.2 %", "not accuracy"),
        ([{"loss": 1.0}] * 11, "Accuracy", "unknown", "--test"),
        ([{"test_accuracy": 80.0}], "Test accuracy", "80.0 %", "stopped after epoch 1 of 11"),
    ],
)
def test_an_accuracy_is_called_one_only_where_it_is(
    rows: list[dict[str, Any]], name: str, value: str, words: str
) -> None:
    found = result(rows, 11)
    assert (found["name"], found["value"]) == (name, value)
    assert words in found["note"]


def test_the_page_says_between_what_the_noise_lies_and_asks_until_somebody_says_so(
    audited_run: Callable[[], Path],
) -> None:
    run = audited_run()
    asks = "The spot check in the review shows a hundred images drawn at random"
    page = Page(report(run)).text.replace("\u00a0", " ")
    assert asks in page
    assert "Estimated noise rate" in page

    summary = json.loads((run / "audit" / "summary.json").read_text())
    (run / "audit" / "summary.json").write_text(json.dumps(summary | {"noise_rate_low": 0.104}))
    page = Page(report(run)).text.replace("\u00a0", " ")
    assert "An estimated 10 to 67 % of the labels are wrong." in page
    assert "10\u201367 %" in page

    told = summary | {"known_noise_rate": 0.665, "noise_rate": 2 / 3}
    (run / "audit" / "summary.json").write_text(json.dumps(told))
    page = Page(report(run)).text.replace("\u00a0", " ")
    assert "The 66.7 % of the labels that look worst." in page
    assert "Noise rate, as given" in page
    assert asks not in page


def test_of_images_in_memory_no_command_is_offered_that_needs_them(
    audited_run: Callable[[], Path],
) -> None:
    folder = RunFolder(audited_run())
    config = load_run_config(folder)
    summary = json.loads((folder.audit / "summary.json").read_text())
    data = config.data.model_copy(update={"name": ARRAYS_NAME, "kind": DataKind.ARRAYS})
    steps = next_steps(folder, config.model_copy(update={"data": data}), summary)
    assert [step["command"] for step in steps if "command" in step][-1:] == [
        f"josrc.Run.load({str(folder.path)!r}).verdicts()"
    ]
    assert not any(
        word in step.get("command", "") for step in steps for word in ("review", "apply")
    )
    offered = [step.get("command", "") for step in next_steps(folder, config, summary)]
    assert f"josrc review {folder.path}" in offered


def test_a_run_that_is_about_to_end_badly_is_told_before_its_summary_is_there(
    audited_run: Callable[[], Path],
) -> None:
    folder = RunFolder(audited_run())
    config, audit = load_run_config(folder), folder.read_audit() or {}
    folder.summary.unlink(missing_ok=True)
    told, untold = (
        json.dumps(overview(folder, config, audit, None, ended)) for ended in ({"fell": True}, {})
    )
    warning = ended_badly({"fell": True})
    assert warning
    assert json.dumps(warning)[1:-1] in told
    assert json.dumps(warning)[1:-1] not in untold


@pytest.mark.parametrize(
    ("trained_on", "named"),
    [("photos", "cleaned"), ("cleaned.csv", "cleaned-2"), ("cleaned-2.csv", "cleaned-3")],
)
def test_the_corrected_data_gets_another_name_than_the_data(
    audited_run: Callable[[], Path], trained_on: str, named: str
) -> None:
    folder = RunFolder(audited_run())
    config = load_run_config(folder)
    data = config.data.model_copy(update={"name": f"/data/{trained_on}"})
    summary = folder.read_audit() or {}
    steps = next_steps(folder, config.model_copy(update={"data": data}), summary)
    assert steps[-1]["command"] == f"josrc apply {folder.path} --out {named}.csv"


def test_the_page_says_what_was_found(audited_run: Callable[[], Path]) -> None:
    run = audited_run()
    page = Page(report(run))
    text = re.sub(r"\s+", " ", page.text).replace("\u00a0", " ")
    for words in (
        "About 67 % of the labels look wrong.",
        "judged 9 images of 3 classes",
        "Agreement 53.0 %",
        f"josrc review {run}",
        f"josrc apply {run} --out cleaned.csv",
        "this page shows 7 of them",
    ):
        assert words in text, words
    assert page.data["totals"] == {"mislabelled": 4, "out_of_distribution": 2, "borderline": 1}
    assert [chart["title"] for chart in page.data["charts"]] == [
        "Agreement with held-out labels",
        "Images in each group",
    ]
