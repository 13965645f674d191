"""The command line, as tests use it."""

from __future__ import annotations

from josrc.cli.main import main


def josrc(*arguments: object) -> int:
    """Run the command in this process; its exit code."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0
