"""The report: which images it shows, how large it gets, and that nothing in it is believed."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import josrc
from josrc.cli.main import main
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.runs.snapshot import open_run
from josrc.runs.start import report
from josrc.verdicts.report.page import add_pictures, script_json
from report_pages import Page


def run_josrc(*arguments: str | Path) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_all_pictures_together_keep_the_budget(audited_run: Callable[[], Path]) -> None:
    run = audited_run()
    samples = [{"number": number % 9} for number in range(40)]
    before = len(script_json(samples))
    add_pictures(samples, open_run(run).source, room=6000)
    assert all("image" in sample for sample in samples)
    assert len(script_json(samples)) - before <= 6000


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
