"""``python -m josrc`` is ``josrc``."""

from josrc._launch import ended_at_once


def main() -> None:
    """Run the command line."""
    with ended_at_once():
        from josrc.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
