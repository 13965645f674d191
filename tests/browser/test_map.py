"""The map of the report in a browser: points, what is under the pointer, and what is marked."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from josrc.engine.run_folder import RunFolder
from josrc.runs.start import plan, report
from josrc.verdicts.feature_map import FeatureMap, write_map
from josrc.verdicts.report.page import write_report
from josrc.verdicts.table import VERDICT_COLUMNS, VERDICT_TITLES

pytestmark = pytest.mark.browser

# Of the nine images: three corners, and the ninth has no place.
PLACES = np.array(
    [[0, 0], [1, 1], [1, 0.9], [0, 0.1], [0, 1], [0.1, 1], [0.05, 0.05], [0.9, 1], [np.nan, 0]],
    dtype=np.float32,
)
EDGE = 14  # pixels between the outermost points and the edge of the map


@pytest.fixture
def mapped(audited_run: Callable[[], Path]) -> Path:
    """The report of nine images, eight of which have a place."""
    run = audited_run()
    write_map(run / "audit", FeatureMap(PLACES, "pca"))
    return report(run)


def on_screen(page: Any, x: float, y: float) -> tuple[float, float]:
    """Where a place of the map is; its y points upwards."""
    page.locator("#marks").scroll_into_view_if_needed()
    box = page.locator("#marks").bounding_box()
    inner = box["width"] - 2 * EDGE
    return box["x"] + EDGE + x * inner, box["y"] + EDGE + (1 - y) * inner


def lasso(page: Any, *corners: tuple[float, float]) -> None:
    """Draw around places."""
    page.mouse.move(*on_screen(page, *corners[0]))
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*on_screen(page, *corner), steps=3)
    page.mouse.up()


def shown(page: Any) -> int:
    return int(page.locator(".card").count())


def inked(page: Any, x: float, y: float) -> bool:
    """Whether anything is drawn at a place."""
    left, up = on_screen(page, x, y)
    box = page.locator("#points").bounding_box()
    return bool(
        page.locator("#points").evaluate(
            """(canvas, [left, up]) => {
              const scale = canvas.width / canvas.clientWidth;
              return canvas.getContext("2d").getImageData(left * scale, up * scale, 1, 1).data[3];
            }""",
            [left - box["x"], up - box["y"]],
        )
    )


def test_points_are_drawn_where_images_lie(mapped: Path, visit: Any) -> None:
    page = visit(mapped)
    assert all(inked(page, *place) for place in PLACES[:8].tolist())
    assert not inked(page, 0.5, 0.5)
    text = page.locator("#map").inner_text()
    assert "1 has no position" in text
    assert "josrc report" in text
    rows = page.locator("#colours .row").all_inner_texts()
    assert [" ".join(row.split()) for row in rows] == [
        "clean 2", "mislabelled 4", "out of distribution 2",
    ]  # fmt: skip


def test_the_point_below_the_pointer_tells_what_it_is(mapped: Path, visit: Any) -> None:
    page = visit(mapped)
    hovered = page.locator("#hovered")
    assert not hovered.is_visible()
    page.mouse.move(*on_screen(page, 0, 0))
    assert "cat" in hovered.inner_text()
    assert "mislabelled, 99 %" in hovered.inner_text()
    assert hovered.locator("img").evaluate("image => image.naturalWidth") == 60
    page.mouse.move(*on_screen(page, 0.9, 1))  # clean: the gallery has no picture of it
    assert "probably right" in hovered.inner_text()
    assert "image 7.png" in hovered.inner_text()
    assert hovered.locator("img").count() == 0
    page.mouse.move(*on_screen(page, 0.5, 0.5))
    assert not hovered.is_visible()


def test_what_is_drawn_around_fills_the_gallery_until_it_is_reset(mapped: Path, visit: Any) -> None:
    page = visit(mapped)
    lasso(page, (-0.01, -0.01), (0.2, -0.01), (0.2, 0.2), (-0.01, 0.2))
    told = page.locator("#marked").inner_text()
    assert told == "3 marked: 1 clean, 2 mislabelled. The gallery contains 3 of them."
    assert shown(page) == 3
    assert page.locator("#count").inner_text() == "3 images marked on the map."
    page.get_by_role("tab", name="Mislabelled").click()
    assert shown(page) == 2  # the mark stays with another gallery
    page.locator("#map-reset").click()
    assert page.locator("#marked").inner_text() == ""
    assert shown(page) == 4
    lasso(page, (0.4, 0.4), (0.6, 0.4), (0.6, 0.6))  # around nothing
    assert shown(page) == 4


def test_a_click_marks_the_images_around_and_the_gallery_can_undo_it(
    mapped: Path, visit: Any
) -> None:
    page = visit(mapped)
    page.mouse.click(*on_screen(page, 1, 1))
    assert "1 marked: 1 mislabelled." in page.locator("#marked").inner_text()
    assert shown(page) == 1
    page.locator("#unmark").click()
    assert shown(page) == 7
    assert not page.locator("#map-reset").is_visible()
    # A class that somebody goes to is shown wherever its images lie.
    page.mouse.click(*on_screen(page, 1, 1))
    page.locator(".bars button").filter(has_text="dog").click()
    assert shown(page) == 2
    assert page.locator("#marked").inner_text() == ""


def test_the_legend_lights_one_group(mapped: Path, visit: Any) -> None:
    page = visit(mapped)
    page.get_by_role("button", name="By given label").click()
    entries = page.locator("#colours .row")
    assert entries.locator(".name").all_inner_texts()[0] == "cat"
    entries.first.click()
    assert entries.first.get_attribute("aria-pressed") == "true"
    page.mouse.move(*on_screen(page, 1, 1))  # of another class
    assert not page.locator("#hovered").is_visible()
    lasso(page, (-0.01, -0.01), (1.01, -0.01), (1.01, 1.01), (-0.01, 1.01))
    assert "3 marked" in page.locator("#marked").inner_text()
    entries.first.click()
    assert entries.first.get_attribute("aria-pressed") == "false"


def test_the_map_can_be_used_without_a_mouse(mapped: Path, visit: Any) -> None:
    page = visit(mapped)
    page.locator("#marks").focus()
    page.keyboard.press("ArrowRight")
    hovered = page.locator("#hovered")
    assert hovered.is_visible()
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    assert "mislabelled, 99 %" in hovered.inner_text()  # the lower left corner
    page.keyboard.press("Enter")
    assert page.locator("#marked").inner_text().startswith("1 marked")
    page.keyboard.press("Escape")
    assert page.locator("#marked").inner_text() == ""
    assert not hovered.is_visible()


@pytest.mark.parametrize(("width", "dark"), [(320, False), (390, True), (1280, True)])
def test_the_map_fits_every_window(mapped: Path, visit: Any, width: int, dark: bool) -> None:
    page = visit(mapped, width=width, height=800, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.mouse.move(*on_screen(page, 0, 0))
    box = page.locator("#hovered").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert inked(page, 1, 1)


def test_a_run_without_a_map_has_no_such_part(audited_run: Callable[[], Path], visit: Any) -> None:
    page = visit(report(audited_run()))
    assert page.locator("#map").count() == 0
    assert page.get_by_role("link", name="Map").count() == 0


@pytest.mark.slow
def test_fifty_thousand_points_are_drawn_at_once(tmp_path: Path, visit: Any) -> None:
    page = visit(large_report(tmp_path, 60_000))
    text = page.locator("#map").inner_text()
    assert "50,000 images are drawn" in text
    assert "10,000 are left out" in text
    page.get_by_role("button", name="By given label").click()
    begun = time.monotonic()
    for button in ("By verdict", "By given label"):
        page.get_by_role("button", name=button).click()
    assert time.monotonic() - begun < 3  # each draws all points; 0.1 s on an idle machine
    page.mouse.move(*on_screen(page, 0.5, 0.5))
    assert "some/folder/image-0" in page.locator("#hovered").inner_text()
    lasso(page, (0.3, 0.3), (0.7, 0.3), (0.7, 0.7), (0.3, 0.7))
    assert "marked" in page.locator("#marked").inner_text()


def large_report(folder: Path, samples: int) -> Path:
    """A report on made-up verdicts and places of many small images in memory, below 10 MB."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (samples, 8, 8, 3), dtype=np.uint8)
    given = np.arange(samples) % 100
    config, source = plan((pixels, given), epochs=1)
    run = RunFolder(folder / "run")
    run.audit.mkdir(parents=True)
    run.write_metrics([{"epoch": 1, "agreement": 50.0}])
    verdict = (generator.random(samples) < 0.1).astype(int)
    names = source.class_names
    rows = (
        (f"some/folder/image-{i:06}.png", "", names[given[i]], VERDICT_TITLES[verdict[i]],
         names[(given[i] + 1) % 100] if verdict[i] else "", 0.9, 0, 0.9, -0.1, "Reason.")
        for i in range(samples)
    )  # fmt: skip
    with (run.audit / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([VERDICT_COLUMNS, *rows])
    zero = {"mislabelled": 0, "out_of_distribution": 0, "noise_rate": 0.0}
    size = samples // 100
    summary = {
        "samples": samples,
        "counts": {
            "clean": int((verdict == 0).sum()),
            "mislabelled": int((verdict == 1).sum()),
            "out_of_distribution": 0,
        },
        "noise_rate": 0.1,
        "classes": [{"class": name, "samples": size, "clean": size, **zero} for name in names],
    }
    (run.audit / "summary.json").write_text(json.dumps(summary))
    centres = generator.normal(size=(100, 2))
    places = centres[given] + 0.1 * generator.normal(size=(samples, 2))
    write_map(run.audit, FeatureMap(places.astype(np.float32), "umap"))
    path = write_report(run, config, source)
    assert path.stat().st_size < 10_000_000
    return path
