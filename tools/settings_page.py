"""Write docs/reference/settings.md from where settings are defined.

    python tools/settings_page.py

``tests/flows/test_docs.py`` fails while the page says anything else than the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from josrc.cli._settings import Setting, settings_of  # noqa: E402
from josrc.methods import get_method  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "settings.md"
INTRODUCTION = """# Settings

Every key that `key=value` and a YAML file may set, with its default. Recipes and methods bring others along: `config.yaml` of a run has the values it used, and [quickstart](../use/quickstart.md#change-settings) says which of several wins. `josrc settings METHOD` lists the same in a terminal. This page is written by `tools/settings_page.py`.
"""  # noqa: E501


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")


def page() -> str:
    """The page as it has to be: settings of all runs by section, then those of each method."""
    return "\n".join([INTRODUCTION, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    common = [setting for setting in settings_of("standard") if not _of_method(setting)]
    plain = [setting for setting in common if "." not in setting.key]
    yield from _table("Of the run", plain)
    for section in dict.fromkeys(_section(setting) for setting in common if "." in setting.key):
        yield from _table(f"`{section}`", [each for each in common if _section(each) == section])
    for name in _own_methods():
        found = [each for each in settings_of(name) if _of_method(each) and "name" not in each.key]
        if found:
            yield from _table(f"`method` of `{name}`", found)


def _own_methods() -> list[str]:
    """Methods that come with josrc: what else is installed here is no part of the page."""
    files = (path.stem for path in (ROOT / "src/josrc/methods").glob("[!_]*.py"))
    found = [name.replace("_", "-") for name in sorted(files) if name != "base"]
    return [name for name in found if get_method(name)]


def _table(title: str, settings: Iterable[Setting]) -> Iterator[str]:
    yield from (f"## {title}", "", "| key | default | meaning |", "|---|---|---|")
    for setting in settings:
        default = f"`{setting.default}`" if setting.default else ""
        yield f"| `{setting.key}` | {_cell(default)} | {_cell(setting.meaning)} |"
    yield ""


def _section(setting: Setting) -> str:
    return setting.key.rpartition(".")[0]


def _of_method(setting: Setting) -> bool:
    return setting.key.startswith("method.")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
