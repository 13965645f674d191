"""The commands and programs that README and docs show: they run, in the order of their page.

All happens in a scratch folder in which the names of the docs (RUN, PATH, DIR ...) exist, with
short trainings and a small network. A block that can't run in a test is marked on the line before
it, with the reason: ``<!-- test: skip, needs the network -->``.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
import typer
import yaml
from PIL import Image

from josrc import methods
from josrc.cli.main import app, main
from josrc.config import RunConfig

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose commands train much: `pytest -m slow` runs them.
LONG = {
    "audit.md": "cross-validates for cleanlab",
    "report.md": "draws maps by UMAP",
    "model.md": "exports in every format",
    "trackers.md": "imports every tracker",
}
# Commands that no page can wait for.
ENDLESS = {"review": "serves until it is stopped"}
SKIP = re.compile(r"<!-- test: skip, (.+) -->")
COMMAND = re.compile(r"(\$ )?josrc ([a-z-].*)")


@dataclass
class Block:
    """Lines of code on a page: ``python``, ``bash`` ... or ``text`` if they are only indented."""

    kind: str
    lines: list[str]
    skipped: bool = False


def blocks(text: str) -> Iterator[Block]:
    block: Block | None = None
    skipped = False
    for line in [*text.splitlines(), "end"]:
        fence = line.startswith("```")
        if block is not None and block.kind != "text" and not fence:
            block.lines.append(line)
        elif block is not None and block.kind == "text" and line.startswith("    "):
            block.lines.append(line[4:])
        elif block is not None:
            yield block
            block = Block(line[3:], []) if fence and block.kind == "text" else None
            skipped = False
        elif fence or line.startswith("    "):
            block = Block(line[3:] or "code", []) if fence else Block("text", [line[4:]])
            block.skipped = skipped
        if line.strip() and block is None:
            skipped = SKIP.fullmatch(line.strip()) is not None


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """Words of each command in a block, and the message that is shown below it, if any."""
    # As in a shell, a backslash at the end of a line goes on in the next.
    lines = re.sub(r" *\\\n *", " ", "\n".join(block.lines)).splitlines()
    for number, line in enumerate(lines):
        found = COMMAND.fullmatch(line)
        if found is not None:
            below = lines[number + 1] if found[1] else ""
            yield shlex.split(found[2], comments=True), below


def shortened(words: list[str]) -> list[str]:
    """The same command, but short: one epoch, large batches, a small network."""
    words = [word.replace("resnet18", "test_resnet") for word in words if word != "--pretrained"]
    if words[0] in ("train", "demo") or words[:2] in (["bench", "run"], ["bench", "audit"]):
        if "--epochs" in words:
            del words[words.index("--epochs") : words.index("--epochs") + 2]
        words += ["--epochs", "1"]
    if words[0] == "bench" and words[1] in ("run", "audit"):
        words += ["--seeds", "1"]
    decides = words[0] == "apply" and "label-studio" not in words
    if decides and "--auto" not in words:  # nobody is there to decide
        words += ["--auto", "0.5"]
    if words[0] == "scan":
        words += ["--overwrite", "--image-size", "64"]
    if words[0] == "train":
        words += ["--batch-size", "256"]
        words += ["--overwrite"] if "RUN" in words else []
        words += ["--image-size", "32"] if "test_resnet" in words else []
    return words


def shortened_program(code: str) -> str:
    code = re.sub(r"epochs=\d+", "epochs=1", code)
    code = re.sub(r"(josrc\.train\((?!.*epochs=).*)\)", r"\1, epochs=1)", code)
    return code.replace("pretrained=True", "image_size=32").replace("resnet18", "test_resnet")


@pytest.fixture
def scratch(
    pictures: Path,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_cifar: None,
) -> Path:
    """A folder that holds whatever the docs give a name to."""
    monkeypatch.chdir(tmp_path)
    for name in ("PATH", "DATA", "flowers", "photos", "photos-test"):
        for path in pictures.glob("*/00*.png"):
            place = Path(name) / path.relative_to(pictures)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    shutil.copytree(pictures, "NEW")  # where they have moved to
    shutil.copytree(finished, "runs/second")
    for name in ("DIR", "new", "RUN"):
        Path(name).mkdir()
    for name in ("1.jpg", "2.jpg"):
        Image.open(next(pictures.glob("one/*.png"))).save(Path("new") / name)
    torch.save(timm.create_model("test_resnet").state_dict(), "FILE")
    return tmp_path


def names_of_programs() -> dict[str, Any]:
    """Names that programs in the docs take for granted."""
    generator = np.random.default_rng(0)
    X, X_test, X_new = (  # noqa: N806
        generator.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8) for count in (60, 20, 5)
    )
    y, y_test = (np.arange(len(images)) % 3 for images in (X, X_test))
    return {"X": X, "y": y, "X_test": X_test, "y_test": y_test, "X_new": X_new}


def marked(page: Path) -> Any:
    marks = [pytest.mark.slow] if page.name in LONG else []
    return pytest.param(page, id=page.name, marks=marks)


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_what_a_page_shows_can_be_run(
    page: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = names_of_programs()
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.skipped:
            continue
        if block.kind == "python":
            exec(compile(shortened_program("\n".join(block.lines)), page.name, "exec"), namespace)
        keep_settings(block)
        # RUN is the run of its own block, or any.
        shutil.rmtree("RUN")
        shutil.copytree(finished, "RUN")
        for words, message in commands(block):
            if words[0] in ENDLESS:
                continue
            code = run(words if message else shortened(words))
            captured = capsys.readouterr()
            if message:  # shown are mistakes, with what josrc answers
                assert message in captured.err, words
                assert code == 2, words
            else:
                assert code == 0, (words, captured.err)


def keep_settings(block: Block) -> None:
    """Settings that a page shows are the file my.yaml of its next command."""
    with contextlib.suppress(yaml.YAMLError):
        values = yaml.safe_load("\n".join(block.lines))
        if isinstance(values, dict) and set(values) <= set(RunConfig.model_fields):
            Path("my.yaml").write_text("\n".join(block.lines))


def run(words: list[str]) -> int:
    try:
        main(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_method_of_contributing_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    method, test = ("\n".join(b.lines) for b in blocks(text) if b.kind == "python")
    (tmp_path / "bootstrapping.py").write_text(method)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        exec(compile(test, "test_bootstrapping.py", "exec"), names)
        for name, function in names.items():
            if name.startswith("test_"):
                marks = getattr(function, "pytestmark", [])
                for values in [(v,) for m in marks for v in m.args[1]] or [()]:
                    function(*values)
        words = "train digits-o --method bootstrapping --noise symmetric --rate 0.5 --epochs 1"
        assert run(words.split()) == 0
    finally:
        sys.modules.pop("josrc.methods.bootstrapping", None)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_commands_and_options_exist_wherever_they_are_named(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"`josrc ([a-z-][^`\n]*)`", text)
    shown = [shlex.join(words) for block in blocks(text) for words, _ in commands(block)]
    for line in [*inline, *shown]:
        command: Any = typer.main.get_command(app)
        words = line.split()
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            assert words[0] in command.commands, f"josrc {line}"
            command = command.commands[words.pop(0)]
            if hasattr(command, "commands") and (not words or words[0] not in command.commands):
                break
        known = {"--help"}.union(*((*p.opts, *p.secondary_opts) for p in command.params))
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known, f"josrc {line}: {options - known}"


def test_the_page_of_settings_is_that_of_the_code() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "settings_page.py"))["page"]()
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert written == page, "python tools/settings_page.py writes it anew"


def test_pages_that_the_code_names_exist() -> None:
    files = [path for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]
    for file in files:
        for page in re.findall(r"\bdocs/[\w/-]+\.\w+", file.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{file} names {page}"


def test_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_a_command_goes_on_after_a_backslash() -> None:
    (block,) = blocks(
        "```\n$ josrc train A \\\n    --rate 2 \\\n  x=1\nmessage\njosrc audit A\n```\n"
    )
    assert list(commands(block)) == [
        (["train", "A", "--rate", "2", "x=1"], "message"),
        (["audit", "A"], ""),
    ]


def test_blocks_are_found_as_they_are_written() -> None:
    text = (
        "Text\n\n    josrc train A\n    josrc: error\n\nText\n\n"
        "```bash\n$ josrc eval B  # why\nmessage\n```\n\n<!-- test: skip, slow -->\n\n"
        "```python\ncode\n```\n\n    josrc  epoch 1/3\n"
    )
    first, second, third, fourth = blocks(text)
    assert [list(commands(block)) for block in (first, second, third, fourth)] == [
        [(["train", "A"], "")],
        [(["eval", "B"], "message")],
        [],
        [],
    ]
    assert [block.kind for block in (first, second, third, fourth)] == [
        "text",
        "bash",
        "python",
        "text",
    ]
    assert [block.skipped for block in (first, second, third, fourth)] == [
        False,
        False,
        True,
        False,
    ]
