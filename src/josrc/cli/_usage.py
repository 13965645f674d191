"""What is said of a command line that typer can't take: the wrong word, and what it could be."""

from __future__ import annotations

from typing import Any

import typer

from josrc.errors import closest

# Some versions of typer use click, others have a copy of it: this class is of theirs.
UsageError: Any = typer.BadParameter.__base__


def usage(error: Any) -> str:
    """A usage error as a message; of no word at all the help is shown, and it is empty."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return ""
    if hasattr(error, "possibilities"):  # of an option that does not exist
        parameters = error.ctx.command.get_params(error.ctx)
        options = [name[2:] for p in parameters for name in p.opts if name.startswith("--")]
        word = error.option_name
        takes_keys = any(p.name == "overrides" for p in parameters)
        keys = _keys(word.lstrip("-")) if takes_keys else []
        hint = closest(word.lstrip("-"), options, "--")
        if keys:
            hint = f" Did you mean {' or '.join(f'{key}=...' for key in keys)}, without dashes?"
        elif takes_keys and "Did you mean" not in hint:  # not all of some thirty options
            hint = " Settings are KEY=VALUE, without dashes; josrc settings lists them."
        text = f"No such option: {word}.{hint}"
    else:
        error.message = _with_value(error)
        text = error.format_message()
    stop = "" if text[-1] in ".?" else "."
    more = f" See: {error.ctx.command_path} --help" if error.ctx else ""
    return f"josrc: {text}{stop}{more}"


def _keys(word: str) -> list[str]:
    """Settings of that name: ``optimizer.lr`` for ``lr``."""
    from josrc.cli._settings import settings_of

    name = word.replace("-", "_")
    return [s.key for s in settings_of("josrc") if s.key.rpartition(".")[2] == name]


def _with_value(error: Any) -> str:
    """What is wrong with a value, and the value, which pydantic leaves out."""
    from pydantic import ValidationError

    if not isinstance(error.__cause__, ValidationError):
        return str(error.message)
    problem = error.__cause__.errors()[0]
    value, text = repr(problem["input"]), problem["msg"].removeprefix("Value error, ")
    return text if value in text else f"{value}. {text}"
