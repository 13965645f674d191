"""``python -m josrc`` is ``josrc``."""

from josrc.cli.main import main

main()
