"""Help can be read on a terminal of 80 columns: nothing is cut."""

from __future__ import annotations

import pytest
import typer.main

from commands import josrc
from josrc.cli.main import app

GROUP = typer.main.get_command(app)


def commands_of(group: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    found = [(path, group)]
    for name, command in getattr(group, "commands", {}).items():
        found += commands_of(command, (*path, name))
    return found


COMMANDS = dict(commands_of(GROUP))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_cuts_no_option_and_no_sentence(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert josrc(*path, "--help") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    about = text.partition("\n\n")[2]
    assert "..." not in about.replace("PATH...", "").replace("[KEY=VALUE]...", "")
    words = set(text.replace(",", " ").split())
    for parameter in COMMANDS[path].params:
        assert words.issuperset(name for name in parameter.opts if name.startswith("--"))
