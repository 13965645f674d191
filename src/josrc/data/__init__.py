"""Where images and labels come from, and how a training step gets to see them."""

from josrc.data.source import OOD, Source, load_source

__all__ = ["OOD", "Source", "load_source"]
