"""README's picture of a report: first screen and gallery, in a Chromium.

    josrc demo --out runs/demo
    python tools/report_picture.py runs/demo/run/audit/report.html docs/images/report.png

The sections between the two are left out, as is the folder in which the pictures lay.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1160, 1480
BETWEEN = """() => {
  for (const part of ["training", "classes", "confusions", "copies", "map"])
    document.getElementById(part)?.remove();
  const folder = document.querySelector(".lede bdi.data");
  if (folder) folder.textContent = folder.textContent.split("/").pop();
}"""


def main() -> None:
    """Open the report and take its picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(options.report.resolve().as_uri())
        page.evaluate(BETWEEN)
        page.screenshot(path=options.picture)
        browser.close()


if __name__ == "__main__":
    main()
