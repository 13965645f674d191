"""Data sets that josrc knows by name, a file each."""
