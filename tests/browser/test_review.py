"""The review in a real browser: ten images to the applied CSV, and what may go wrong meanwhile."""

from __future__ import annotations

import csv
import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from josrc.cli.main import main
from josrc.review.index import spot_check
from josrc.verdicts.proportions import wilson_interval

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='hacked'>"
Serving = Callable[[Path], tuple[Any, str]]
Visit = Callable[..., Any]


def badge(page: Any, row: int) -> Any:
    return page.locator(f"#sample-{row} .badge")


def saved(page: Any, row: int, text: str) -> None:
    """Wait until the page says that a decision is on disk."""
    page.locator(f"#sample-{row} .badge", has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def at(page: Any, row: int) -> None:
    """Wait until the cursor is at a sample."""
    page.locator(f"#sample-{row}.cursor").wait_for()


def test_a_spot_check_ends_with_the_command_that_makes_use_of_it(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    run = reviewed.rename(reviewed.with_name("it's mine"))
    page = visit(serving(run)[1], width=390, height=780)
    at(page, 0)
    page.locator("[value=spot_check]").click()
    page.locator("#left", has_text="0 of 0 wrong, 24 left").wait_for()
    at(page, spot_check(24)[0])
    page.keyboard.press("r")
    page.locator("#left", has_text="1 of 1 wrong, 23 left").wait_for()
    page.keyboard.press("End")
    page.keyboard.press("Control+a")
    page.keyboard.press("k")
    page.locator("#left code").wait_for()
    low, high = (round(100 * share) for share in wilson_interval(1, 24))
    command = shlex.join(["josrc", "audit", str(run), "--noise-rate", "0.04"])
    said = page.locator("#left").inner_text()
    assert said == f"1 of 24 wrong (95 % interval {low} to {high} %): {command}"
    assert page.locator("#left code").inner_text() == command
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.keyboard.press("u")
    page.locator("#left", has_text="1 of 1 wrong, 23 left").wait_for()


def test_a_spot_check_shows_no_verdict_before_the_decision(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    page = visit(serving(reviewed)[1])
    at(page, 0)
    page.locator("[value=spot_check]").click()
    order = spot_check(24)
    page.locator(f"#sample-{order[-1]}").wait_for()
    cards = page.locator("#grid li").evaluate_all("cards => cards.map((card) => card.id)")
    assert cards == [f"sample-{row}" for row in order], "as they were drawn"
    given = [(HOSTILE, "cat", "dog")[row // 8] for row in order]
    assert page.locator("#grid .change").all_inner_texts() == given
    assert page.locator("#grid .sure").all_inner_texts() == [""] * 24
    assert page.locator("#grid :is(.clean, .mislabelled, .out_of_distribution, .was)").count() == 0

    row = next(row for row in order if row % 8 == 0)  # mislabelled
    page.locator(f"#sample-{row}").click()
    label, suggested = given[order.index(row)], given[order.index((row + 8) % 24)]
    chosen = "dog" if label == "cat" else "cat"
    assert page.locator("#labels").inner_text().strip() == label
    assert page.locator("#scores").inner_text() == ""
    assert "Because" not in page.locator("#reason").inner_text()
    assert page.locator("[data-action=accept]").is_hidden()
    page.keyboard.press("a")
    page.locator("#message.shown", has_text="Nothing to accept in the spot check").wait_for()
    page.keyboard.press("l")
    page.keyboard.type(chosen)
    page.keyboard.press("Enter")
    saved(page, row, f"now {chosen}")
    page.locator(f"#sample-{row}").click()
    assert page.locator("#decision").inner_text() == f"Decided: now {chosen} (verdict: {suggested})"
    assert page.locator("#reason").inner_text() == f"Because of {label}."
    page.keyboard.press("u")
    badge(page, row).wait_for(state="detached")
    assert page.locator(f"#sample-{row} .change").inner_text() == label, "undecided again"
    page.locator("[value=flagged]").click()
    page.locator("#sample-0.cursor .mislabelled", has_text="cat").wait_for()
    page.locator("[data-action=accept]").wait_for()


def test_ten_images_to_the_applied_csv(reviewed: Path, serving: Serving, visit: Visit) -> None:
    page = visit(serving(reviewed)[1])
    # The queue: 0, 8, 16, 1, 9, 17, 2, 10, 18, 3, 11, 19, then the foreign ones 4, 12, 20.
    at(page, 0)
    assert page.url.endswith("/"), "the token is not left in the address"
    page.locator("#left", has_text="15 of 15 left").wait_for()
    for key, row, text in (("a", 0, "now cat"), ("k", 8, "kept"), ("r", 16, "removed")):
        at(page, row)
        page.keyboard.press(key)
        saved(page, row, text)
    at(page, 1)
    page.keyboard.press("l")
    page.keyboard.type("do")
    page.keyboard.press("Enter")
    saved(page, 1, "now dog")
    page.keyboard.press("r")
    saved(page, 9, "removed")
    page.keyboard.press("u")
    badge(page, 9).wait_for(state="detached")
    at(page, 9)
    page.keyboard.press("a")
    saved(page, 9, "now dog")
    # Four at once: from 17 to 10 and, by Ctrl-click, 12.
    page.locator("#sample-17").click()
    page.locator("#sample-10").click(modifiers=["Shift"])
    page.locator("#sample-12").click(modifiers=["Control"])
    assert page.locator("#aim").inner_text() == "Decide on 4 images at once"
    page.keyboard.press("a")
    saved(page, 17, f"now {HOSTILE}")
    saved(page, 2, "now cat")
    saved(page, 10, "now dog")
    saved(page, 12, "removed")
    page.locator("#left", has_text="6 of 15 left").wait_for()
    page.locator("[value=clean]").click()
    at(page, 23)
    page.locator("[data-action=remove]").click()
    saved(page, 23, "removed")

    out = reviewed.parent / "clean.csv"
    with pytest.raises(SystemExit, match="0"):
        main(["apply", str(reviewed), "--out", str(out)])
    with out.open(newline="", encoding="utf-8") as file:
        found = {row["id"]: row["label"] for row in csv.DictReader(file)}
    expected = {f"{HOSTILE}/{n}.png": HOSTILE for n in range(8)}
    expected |= {f"cat/{n}.png": "cat" for n in range(1, 8)} | {"cat/0 'q\" <b>.png": "cat"}
    expected |= {f"dog/{n}.png": "dog" for n in range(8)}
    for gone in ("dog/0.png", "cat/4.png", "dog/7.png"):
        del expected[gone]
    expected |= {f"{HOSTILE}/0.png": "cat", f"{HOSTILE}/1.png": "dog", f"{HOSTILE}/2.png": "cat"}
    expected |= {"cat/1.png": "dog", "cat/2.png": "dog", "dog/1.png": HOSTILE}
    assert found == expected


def test_among_several_what_is_decided_stays(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    page = visit(serving(reviewed)[1])
    for key, row in (("k", 0), ("r", 8)):
        at(page, row)
        page.keyboard.press(key)
    page.keyboard.press("Control+a")  # at once: the page may not have heard of the two yet
    page.keyboard.press("a")
    saved(page, 4, "removed")
    saved(page, 0, "kept")
    saved(page, 8, "removed")
    page.locator("#message", has_text="Saved: 13 images (already decided: 2)").wait_for()
    page.keyboard.press("u")
    badge(page, 4).wait_for(state="detached")
    page.locator("#sample-0").click()
    page.locator("#sample-16").click(modifiers=["Shift"])
    stay = "Decide on 1 image at once (already decided: 2)"
    assert page.locator("#aim").inner_text() == stay
    assert page.locator("#accept-text").inner_text() == f"Accept: {HOSTILE}"
    page.keyboard.press("l")
    assert page.locator("#chooser-title").inner_text() == "Instead of dog"
    page.keyboard.press("Escape")
    page.locator("#sample-0").click()
    page.locator("#sample-8").click(modifiers=["Shift"])
    page.locator("#aim", has_text="All of these are already decided").wait_for()
    assert page.locator("#accept-text").inner_text() == "Accept"
    enabled = page.locator(".actions button:enabled").evaluate_all("all => all.map(b => b.dataset)")
    assert enabled == [{"action": "undo"}]
    for key in ("a", "l"):
        page.keyboard.press(key)
    assert page.locator("dialog[open]").count() == 0
    assert "already decided" not in page.locator("#message").inner_text(), "said once is enough"
    page.locator("#sample-8").click()
    page.locator("[data-action=accept]:enabled").wait_for()
    page.keyboard.press("a")
    saved(page, 8, "now dog")


def test_a_label_of_no_class_is_told(reviewed: Path, serving: Serving, visit: Visit) -> None:
    page = visit(serving(reviewed)[1])
    at(page, 0)
    page.keyboard.press("l")
    assert page.locator("#no-choice").inner_text() == ""
    page.keyboard.type("<b>emu")
    page.locator("#no-choice", has_text="No class has “<b>emu” in its name").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert page.locator("#chooser").is_visible(), "nothing was chosen"
    page.locator("#typed").fill("dog")
    assert page.locator("#choices li").all_inner_texts() == ["dog"]
    assert page.locator("#no-choice").is_hidden()
    page.keyboard.press("Enter")
    saved(page, 0, "now dog")


def test_the_page_names_every_key_of_the_documentation(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    page = visit(serving(reviewed)[1])
    at(page, 0)
    page.keyboard.press("?")
    named = set(page.locator("#help kbd").all_inner_texts())
    arrows = {"←", "→", "↑", "↓"}
    letters = {"A", "C", "K", "L", "R", "U", "X", "Space", "Ctrl", "Esc", "/", "?"}
    assert named == arrows | letters | {"Page ↑", "Page ↓", "Home", "End"}
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    at(page, 20)
    page.keyboard.press("PageUp")
    assert page.locator("#sample-20.cursor").count() == 0
    page.keyboard.press("Home")
    at(page, 0)


def test_a_tall_picture_is_shown_whole(reviewed: Path, serving: Serving, visit: Visit) -> None:
    with (reviewed / "audit" / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        path = next(csv.DictReader(file))["path"]
    Image.new("RGB", (40, 120)).save(path)
    page = visit(serving(reviewed)[1])
    at(page, 0)
    frame, picture = page.locator("#sample-0 .frame"), page.locator("#sample-0 .frame img")
    picture.wait_for()
    picture.evaluate("image => image.decode()")
    assert picture.evaluate("image => image.naturalHeight / image.naturalWidth") == 3
    assert picture.bounding_box()["height"] <= frame.bounding_box()["height"]


def test_the_end_names_the_command_that_writes_the_data(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    run = reviewed.rename(reviewed.with_name("it's mine"))
    verdicts = run / "audit" / "verdicts.csv"
    verdicts.write_text(verdicts.read_text().replace(",out_of_distribution,", ",clean,"))
    page = visit(serving(run)[1], width=390, height=780)
    at(page, 0)
    page.locator("[value=out_of_distribution]").click()
    page.locator("#left", has_text="0 of 0 left").wait_for()
    page.locator("#empty", has_text="Nothing left to decide here.").wait_for()
    assert page.locator("#empty code").count() == 0, "nothing is decided yet"

    page.locator("[value=flagged]").click()
    at(page, 0)
    assert page.locator("#empty").is_hidden()
    page.keyboard.press("Control+a")
    page.keyboard.press("a")
    command = shlex.join(["josrc", "apply", str(run), "--out", "FILE.csv"])
    page.locator("#empty code", has_text=command).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.keyboard.press("u")
    page.locator("#empty").wait_for(state="hidden")
    page.keyboard.press("Control+a")
    page.keyboard.press("k")
    saved(page, 0, "kept")
    page.reload()
    page.locator("#empty code", has_text=command).wait_for()
    page.locator("#state").select_option("decided")
    at(page, 0)
    assert page.locator("#empty").is_hidden()
    page.locator("[value=clean]").click()
    page.locator("#empty", has_text="No sample in this tab matches").wait_for()
    assert page.locator("#empty code").count() == 0


def test_a_card_shows_what_holds(reviewed: Path, serving: Serving, visit: Visit) -> None:
    verdicts = reviewed / "audit" / "verdicts.csv"
    verdicts.write_text(verdicts.read_text().replace(",0.9900,", ",0.9980,"))
    page = visit(serving(reviewed)[1])
    at(page, 0)
    card = page.locator("#sample-0")
    assert card.locator(".sure").inner_text() == "> 99 %"
    assert card.locator(".change").inner_text().split("\n") == [HOSTILE, "→", "cat"]
    page.keyboard.press("k")
    saved(page, 0, "kept")
    assert card.locator(".change").inner_text() == HOSTILE
    assert card.locator(".was").count() == 0
    assert card.locator(".sure").inner_text() == ""
    page.keyboard.press("r")
    saved(page, 8, "removed")
    assert page.locator("#sample-8 .change").inner_text() == "cat"
    assert page.locator("#sample-8 .was").count() == 1
    page.locator("[value=clean]").click()
    at(page, 23)
    page.keyboard.press("l")
    page.keyboard.type("cat")
    page.keyboard.press("Enter")
    saved(page, 23, "now cat")
    assert page.locator("#sample-23 .change").inner_text().split("\n") == ["dog", "→", "cat"]
    assert page.locator("#sample-23 .clean").count() == 0


def test_the_header_counts_the_tab_that_is_open(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    page = visit(serving(reviewed)[1])
    counts = {"flagged": 15, "clean": 9, "mislabelled": 12, "out_of_distribution": 3}
    for tab, count in counts.items():
        page.locator(f"[value={tab}]").click()
        page.locator("#left", has_text=f"{count} of {count} left").wait_for()
    page.locator("[value=borderline]").click()
    page.locator("#bar").wait_for(state="hidden")
    assert page.locator("#left").inner_text() == ""


def test_only_the_smallest_pictures_are_shown_pixel_by_pixel(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    Image.new("RGB", (8, 8)).save(reviewed.parent / "photos" / "dog" / "0.png")
    page = visit(serving(reviewed)[1])
    page.locator("#sample-16 img.pixelated").wait_for()
    page.locator("#sample-0 img").evaluate("image => image.decode()")
    assert page.locator("#sample-0 img.pixelated").count() == 0


def test_new_verdicts_come_to_a_page_that_is_open(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    page = visit(serving(reviewed)[1])
    at(page, 0)
    page.keyboard.press("a")
    saved(page, 0, "now cat")
    verdicts = reviewed / "audit" / "verdicts.csv"
    verdicts.write_text(verdicts.read_text().replace(",mislabelled,cat,", ",mislabelled,dog,"))
    page.locator("#message", has_text="These are new verdicts").wait_for()
    page.locator("#sample-1 .change", has_text="dog").wait_for()
    page.locator("#sample-1").click()
    page.keyboard.press("a")
    saved(page, 1, "now dog")


def test_reload_and_a_second_tab(reviewed: Path, serving: Serving, visit: Visit) -> None:
    page = visit(serving(reviewed)[1])
    at(page, 0)
    other = page.context.new_page()
    other.goto(page.url)
    at(other, 0)
    page.bring_to_front()
    page.keyboard.press("a")
    saved(page, 0, "now cat")
    other.bring_to_front()
    saved(other, 0, "now cat")
    other.keyboard.press("u")
    badge(other, 0).wait_for(state="detached")
    page.bring_to_front()
    badge(page, 0).wait_for(state="detached")
    page.locator("#sample-0").click()
    page.keyboard.press("k")
    saved(page, 0, "kept")
    page.reload()
    at(page, 8)
    page.locator("#left", has_text="14 of 15 left").wait_for()
    assert page.locator("#sample-0").count() == 0, "only what is left to decide"
    page.locator("#state").select_option("decided")
    saved(page, 0, "kept")


def test_a_killed_server_between_two_decisions(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    server, address = serving(reviewed)
    page = visit(address)
    at(page, 0)
    page.keyboard.press("a")
    saved(page, 0, "now cat")
    server.send_signal(signal.SIGKILL)
    server.wait()
    page.keyboard.press("r")
    saved(page, 8, "not saved")
    page.locator("#banner", has_text="does not answer").wait_for()
    assert badge(page, 0).inner_text() == "now cat"

    page = visit(serving(reviewed)[1])
    at(page, 8)
    page.locator("#state").select_option("decided")
    saved(page, 0, "now cat")
    assert page.locator("#grid li").count() == 1
    page.keyboard.press("u")
    badge(page, 0).wait_for(state="detached")


def test_names_are_never_markup(reviewed: Path, serving: Serving, visit: Visit) -> None:
    page = visit(serving(reviewed)[1])
    at(page, 0)
    assert page.locator("#labels .was").inner_text() == HOSTILE
    assert page.locator("#reason").inner_text() == f"Because of {HOSTILE}."
    page.locator("#sample-8").click()
    page.locator("#path", has_text="0 'q\" <b>.png").wait_for()
    picture = page.locator("#picture img")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 40
    page.keyboard.press("l")
    page.keyboard.type("<IMG")
    assert page.locator("#choices li").all_inner_texts() == [HOSTILE]
    page.keyboard.press("Enter")
    saved(page, 8, f"now {HOSTILE}")
    page.locator("#given").select_option(HOSTILE)
    at(page, 0)
    page.locator("#search").fill("nothing <script>")
    page.locator("#empty", has_text="No sample in this tab matches").wait_for()
    assert page.title() == "run · josrc review"
    assert page.evaluate("document.querySelectorAll('[onerror], script:not([src]), b').length") == 0


def test_a_missing_image_has_a_placeholder_on_a_phone(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    (reviewed.parent / "photos" / HOSTILE / "0.png").unlink()
    page = visit(serving(reviewed)[1], width=390, height=844, dark=True)
    page.locator("#sample-0 .none", has_text="no picture").wait_for()
    page.locator("#picture .none", has_text="the file does not exist").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("[data-action=keep]").click()
    saved(page, 0, "kept")


def test_a_tab_shows_where_annotators_disagree(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    lines = ["id,given_label,consensus_label,consensus_quality,annotators,disagreeing"]
    divided = {5: "0.6,3,1", 9: "0.4,3,1", 23: "0.7,2,1"}  # 5 and 23 are clean
    lines += [f"{row},cat,cat,{divided.get(row, '0.9,3,0')}" for row in range(24)]
    (reviewed / "audit" / "consensus.csv").write_text("\n".join(lines) + "\n")
    _, address = serving(reviewed)
    page = visit(address)
    page.get_by_role("button", name="Annotators disagree").click()
    page.locator("#sample-23").wait_for()
    cards = page.locator("#grid [id^=sample-]")
    assert [card.get_attribute("id") for card in cards.all()] == [
        "sample-23", "sample-9", "sample-5",
    ]  # fmt: skip


def test_of_a_single_annotator_there_is_no_such_tab(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    _, address = serving(reviewed)
    page = visit(address)
    page.locator("#grid [id^=sample-]").first.wait_for()
    assert not page.get_by_role("button", name="Annotators disagree").is_visible()
