"""The report in a browser: what a person clicks, types and sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from josrc.runs.start import report

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(audited_run: Callable[[], Path], visit: Any) -> Any:
    """The report of nine images, of which it shows seven."""
    return visit(report(audited_run()))


def shown(page: Any) -> list[str]:
    """What stands below the images: given label and what it seems to be."""
    texts = page.locator(".card .change").all_inner_texts()
    return [" ".join(text.split()) for text in texts]


def focus(page: Any, place: int) -> None:
    """Wait until the keys act on a card; a dialog hands the focus back a moment after it closes."""
    page.wait_for_function(
        "place => [...document.querySelectorAll('.card')][place] === document.activeElement",
        arg=place,
    )


def test_the_galleries_hold_what_they_say(page: Any) -> None:
    wrong = [f"cat → {HOSTILE}", f"{HOSTILE} → dog", "dog → cat", "cat → dog"]
    assert shown(page) == wrong
    page.get_by_role("tab", name="Out of distribution 2").click()
    foreign = [f"{HOSTILE} → no class", "dog → no class"]
    assert shown(page) == foreign
    page.get_by_role("tab", name="Borderline 1").click()
    assert shown(page) == ["cat → probably right"]
    assert page.locator("#sort").input_value() == "doubtful"
    page.get_by_role("tab", name="All shown 7").click()
    # By their scores: two verdicts of no class are more certain than the last of a wrong label.
    assert shown(page) == [*wrong, *foreign, "cat → probably right"]
    assert page.locator("#sort").input_value() == "suspicious"
    assert page.locator("#count").inner_text() == "7 images."


def test_filters_sorting_and_search(page: Any) -> None:
    page.locator("#given").select_option(label="cat (3)")
    assert shown(page) == [f"cat → {HOSTILE}", "cat → dog"]
    page.locator("#suggested").select_option(label="dog (2)")
    assert shown(page) == ["cat → dog"]
    page.locator("#search").fill("nothing is called so")
    page.get_by_role("button", name="Show all again").click()
    assert len(shown(page)) == 7
    page.locator("#sort").select_option("doubtful")
    assert shown(page)[0] == "cat → probably right"
    page.locator("#sort").select_option("name")
    assert shown(page)[0] == f"{HOSTILE} → no class"  # its folder comes first
    page.locator("#sort").select_option("given")
    assert page.locator(".heading").all_inner_texts() == [HOSTILE, "cat", "dog"]
    page.locator("#search").fill('"QUOTED" dog')
    assert shown(page) == [f"{HOSTILE} → dog"]


def test_a_search_looks_below_the_folder_of_all_images_unless_it_is_a_path(page: Any) -> None:
    page.locator("#search").fill("photos")
    assert shown(page) == []
    page.locator("#search").fill("/photos/cat/image")
    assert shown(page) == [f"cat → {HOSTILE}", "cat → dog"]


def test_the_keyboard_is_enough(page: Any) -> None:
    page.keyboard.press("j")
    focus(page, 0)
    page.keyboard.press("j")
    page.keyboard.press("ArrowRight")
    focus(page, 2)
    page.keyboard.press("k")
    focus(page, 1)
    page.keyboard.press("Enter")
    viewer = page.locator("#viewer")
    assert "2 of 4" in viewer.inner_text()
    page.keyboard.press("ArrowRight")
    assert "3 of 4" in viewer.inner_text()
    page.keyboard.press("Escape")
    assert not viewer.is_visible()
    focus(page, 2)
    page.keyboard.press("/")
    page.keyboard.type("image 3")
    assert shown(page) == ["cat → dog"]
    page.keyboard.press("Escape")
    assert len(shown(page)) == 4
    page.keyboard.press("2")
    assert len(shown(page)) == 2
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_arrows_and_enter_lead_to_the_pictures_from_anywhere(page: Any) -> None:
    page.keyboard.press("ArrowRight")
    focus(page, 0)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    focus(page, 0)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    focus(page, 0)


def test_arrows_move_between_rows(audited_run: Callable[[], Path], visit: Any) -> None:
    page = visit(report(audited_run()), width=390, height=844)  # three columns
    page.get_by_role("tab", name="All shown").click()
    page.keyboard.press("j")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    focus(page, 4)
    page.keyboard.press("ArrowUp")
    focus(page, 1)


def test_an_enlarged_image_tells_everything(page: Any) -> None:
    page.locator(".card").nth(1).click()
    viewer = page.locator("#viewer")
    text = viewer.inner_text()
    for words in (
        "mislabelled, 95 % certain",
        "</script><script>alert(2)</script><!-- the end -->",
        f'photos/{HOSTILE}/it\'s "quoted" <b>&amp;.png',
        "the label is right\n5 %",
        "it belongs to another class\n95 %",
    ):
        assert words in text, words
    assert viewer.locator("img").count() == 1  # the picture, and none that a name asked for
    assert viewer.locator("img").evaluate("image => image.naturalWidth") == 61


def test_a_class_and_a_pair_lead_to_their_images(page: Any) -> None:
    page.locator(".bars button").filter(has_text="dog").click()
    assert shown(page) == ["dog → cat", "dog → no class"]
    page.locator(".matrix button[data-given='0'][data-suggested='2']").click()
    assert shown(page) == ["cat → dog"]
    page.locator(".pairs button").filter(has_text=HOSTILE).first.click()
    assert len(shown(page)) == 1


def test_names_are_never_markup(page: Any) -> None:
    # `visit` fails the test if any script of a name ran or was stopped by the policy.
    for tab in page.get_by_role("tab").all():
        tab.click()
    assert page.locator("img:not([src^='data:image/webp'])").count() == 0
    assert page.locator("b:not(.legend b)").count() == 0
    assert page.locator(".bars .name").filter(has_text=HOSTILE).count() == 1


def test_a_missing_image_has_a_placeholder(audited_run: Callable[[], Path], visit: Any) -> None:
    run = audited_run()
    (run.parent / "photos" / "cat" / "image 0.png").unlink()
    page = visit(report(run))
    assert page.locator(".card").first.locator(".missing").inner_text() == "no image"
    assert page.locator(".card img").count() == 3


def test_curves_tell_the_epoch_below_the_pointer(page: Any) -> None:
    figure = page.locator("figure").first
    assert "epoch 3" in figure.inner_text()
    assert "53 %" in figure.inner_text()
    figure.locator("svg").hover(position={"x": 46, "y": 50})
    assert "epoch 1" in figure.inner_text()
    assert "51 %" in figure.inner_text()


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_both_readable(
    audited_run: Callable[[], Path], visit: Any, dark: bool
) -> None:
    page = visit(report(audited_run()), dark=dark)
    for part in ("h1", ".lede", ".note", ".tick", "#count", ".card .from"):
        ink = page.locator(part).first.evaluate(
            f"node => getComputedStyle(node).{'fill' if part == '.tick' else 'color'}"
        )
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert contrast(ink, paper) >= 4.5, part
    assert (brightness(paper) < 0.1) == dark


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_window_is_too_narrow(audited_run: Callable[[], Path], visit: Any, width: int) -> None:
    page = visit(report(audited_run()), width=width, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".card").first.click()
    box = page.locator("#viewer").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width


def test_paper_shows_all_but_the_controls(page: Any) -> None:
    page.emulate_media(media="print")
    assert page.locator("h1").is_visible()
    assert page.locator(".card").first.is_visible()
    assert not page.locator("#search").is_visible()


def contrast(one: str, other: str) -> float:
    """Of two colours as WCAG 2 defines it."""
    lower, upper = sorted((brightness(one), brightness(other)))
    return (upper + 0.05) / (lower + 0.05)


def brightness(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)``."""
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def leaked(run: Path) -> Path:
    """A run whose images 0 and 1 are copies with different labels, and 2 and 5 near ones."""
    rows = [
        (1, "training", 0, "exact", 1.0),
        (1, "training", 1, "exact", 1.0),
        (2, "training", 2, "near", 0.912),
        (2, "test", 5, "near", 0.912),
    ]
    labels = ["cat", HOSTILE, "dog", "dog"]
    lines = [
        f'{group},{part},{row},/p/{row}.png,"{label}",,{kind},{alike}'
        for (group, part, row, kind, alike), label in zip(rows, labels, strict=True)
    ]
    header = "group,part,row,path,given_label,verdict,kind,similarity"
    (run / "audit" / "duplicates.csv").write_text("\n".join([header, *lines]) + "\n")
    return run


@pytest.mark.parametrize("width", [1280, 390])
def test_duplicates_stand_side_by_side(
    audited_run: Callable[[], Path], visit: Any, width: int
) -> None:
    page = visit(report(leaked(audited_run())), width=width, height=844)
    page.get_by_role("link", name="Duplicates").click()
    groups = page.locator(".copies > li")
    assert groups.count() == 2
    first, second = (groups.nth(number) for number in (0, 1))
    assert first.locator(".badge").all_inner_texts() == ["different labels", "exact"]
    assert second.locator(".badge").all_inner_texts() == [
        "training and test",
        "near, similarity 0.91",
    ]
    pictures = first.locator("figure")
    left, right = (pictures.nth(number).bounding_box() for number in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    assert right["x"] + right["width"] <= width
    assert first.locator("img").count() == 2
    assert second.locator(".missing").inner_text() == "no image"  # the run has no test images
    assert HOSTILE in first.inner_text()


def test_without_duplicates_there_is_no_such_part(page: Any) -> None:
    assert page.locator("#copies").count() == 0
