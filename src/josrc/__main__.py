"""``python -m josrc`` is ``josrc``."""

from josrc.cli import main

main()
