"""Find words that josrc's texts avoid: ``python tools/check_words.py``, part of ``make lint``.

It reads the docs, and the strings of the code that a user sees: help, messages, pages, settings.
Each pattern comes with what a native engineer would write. It takes a second.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNITS = "bytes|[KMG]i?B|ms|s|seconds|images|samples|numbers|steps|passes|epochs?|cores?|one"
WORDS = {
    rf"\b(?:{UNITS}) a (?:sample|step|second|image|epoch|run|core|GPU|class|row|method)\b": "per",
    r"\b(?:is|are|was|were) told\b": "josrc says, reports, lists",
    r"\bby heart\b": "memorise",
    r"\bmend(?:s|ed|ing)?\b": "fix, correct",
    r"\bspoil(?:s|ed|t)?\b": "break, damage",
    r"\bbeg[ai]ns? anew\b": "start over",
    r"\bgo(?:es)? on with\b": "continue",
    r"\bheaps?\b": "component, cluster",
    r"\btrainings\b": "training runs",
    r"\bbeside\b": "next to, compared with, along with",
    r"\bwhat (?:is|was) asked for\b": "what you asked for, the request",
    r", say[.,:;)]": "such as, for example",
    r"\bin truth\b": "in fact, actually",
    r"\ba row an? \w+|\ba line an? \w+": "one row per",
    r"(?<!here )\b(?:is|are) no (?:verdict|probability|proof|measure|part|picture|benchmark)\b": (
        "is not a"
    ),
}
PATTERN = re.compile("|".join(f"(?P<w{i}>{word})" for i, word in enumerate(WORDS)))
QUOTED, TAG = re.compile(r""""[^"]*"|`[^`]*`"""), re.compile(r"<[^>]*>")
# What runs and the bench have written is theirs; the changelog tells of earlier texts.
NOT_READ = {"CHANGELOG.md", "RESULTS.md"}


def main() -> None:
    """Print what is found, a line each, and fail if there is anything."""
    found = [*in_pages(), *in_code()]
    if found:
        sys.exit("\n".join(found))
    print("No word that the texts avoid.")


def in_pages() -> Iterator[str]:
    """Findings in Markdown, outside of code."""
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        if page.name in NOT_READ:
            continue
        text = re.sub(r"```.*?```", _blank, page.read_text(encoding="utf-8"), flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            if not line.startswith("    "):
                yield from _findings(page, number, re.sub(r"`[^`]*`", "", line))


def in_code() -> Iterator[str]:
    """Findings in strings of several words, docstrings left out, and in the templates of pages."""
    source = ROOT / "src" / "josrc"
    for module in sorted(source.rglob("*.py")):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in docs:
                yield from _findings(module, node.lineno, str(node.value))
    for template in sorted([*source.rglob("*.html"), *source.rglob("*.js")]):
        for number, line in enumerate(template.read_text(encoding="utf-8").splitlines(), 1):
            script = template.suffix == ".js"
            shown = " ".join(QUOTED.findall(line)) if script else TAG.sub("", line)
            yield from _findings(template, number, shown)


def _findings(file: Path, number: int, text: str) -> Iterator[str]:
    for found in PATTERN.finditer(text):
        better = list(WORDS.values())[int(str(found.lastgroup)[1:])]
        yield f"{file.relative_to(ROOT)}:{number}: '{found[0]}'. Better: {better}."


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


if __name__ == "__main__":
    main()
