"""Build the site of the docs, strictly: a link that leads nowhere is an error.

    python tools/build_site.py

writes ``build/site``. Pages lie there as they lie in the repository, so that their links are right
in both: first they are laid out in ``build/pages``, with the files that they link to.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
# README is the first page.
FIRST = "README.md"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main() -> None:
    """Lay the pages out, check that each has its place in the navigation, and build."""
    shutil.rmtree(PAGES, ignore_errors=True)
    faults = [*lay_out(), *not_in_navigation()]
    if faults:
        sys.exit("\n".join(faults))
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    told = COLOUR.sub("", done.stdout + done.stderr)
    if done.returncode:
        sys.exit(told.partition("Traceback")[0])
    print("Built build/site: every link leads somewhere.")


def pages() -> list[Path]:
    """All pages of the site, notebooks among them, by their place in the repository."""
    docs = sorted(path for end in ("md", "ipynb") for path in (ROOT / "docs").rglob(f"*.{end}"))
    return [path.relative_to(ROOT) for path in [*sorted(ROOT.glob("*.md")), *docs]]


def lay_out() -> Iterator[str]:
    """Copy pages and what they link to; yields links that lead nowhere."""
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = notebook_page(json.loads(text))
            _copy(page)
        target = PAGES / (Path("index.md") if page == Path(FIRST) else page.with_suffix(".md"))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_links_to_pages(text), encoding="utf-8")
        for link in LINK.findall(_without_code(text)):
            place = (ROOT / page).parent / link[0]
            if link[0].partition(":")[0] in ("http", "https", "mailto"):
                continue
            if not place.exists():
                yield f"{page}: {link[0]} does not exist."
            elif place.is_file() and place.suffix not in (".md", ".ipynb"):
                _copy(place.resolve().relative_to(ROOT))


def not_in_navigation() -> list[str]:
    """Pages that nobody finds, by the navigation of ``mkdocs.yml``."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = set(_leaves(navigation))
    found = {"index.md" if str(page) == FIRST else page.with_suffix(".md").as_posix()
             for page in pages()}  # fmt: skip
    missing = [f"{page} is not in the nav of mkdocs.yml." for page in sorted(found - named)]
    return missing + [f"mkdocs.yml: {page} does not exist." for page in sorted(named - found)]


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook as a page: its texts, and its programs as blocks."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)


def _links_to_pages(text: str) -> str:
    """A notebook is a page here, and README the first one."""
    return re.sub(r"(\]\([^)\s]*)\.ipynb\)", r"\1.md)", text).replace("/README.md)", "/index.md)")


def _without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def _copy(path: Path) -> None:
    (PAGES / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, PAGES / path)


if __name__ == "__main__":
    main()
