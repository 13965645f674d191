"""The command that trains on a corrected data set as the run before it was trained."""

from __future__ import annotations

import shlex
from typing import Any

from josrc.config import SCAN, DataKind, RunConfig
from josrc.data.source import Source
from josrc.runs.auto import sized_values
from josrc.runs.data import with_noise_rate
from josrc.runs.network import choose_network
from josrc.runs.options import OPTIONS
from josrc.runs.resolve import Values, ask, in_one_line, merge, nested

# What the corrected labels replace.
REPLACED = {
    "data.name",
    "data.kind",
    "data.noise",
    "data.rate",
    "data.noise_seed",
    "data.noise_file",
}
# Where the run's data lies and how it is read: corrected images are a data set of their own.
READING = {
    "recipe", "data.root", "data.val", "data.path_column", "data.label_column",
    "data.annotator_column", "data.annotator_columns", "data.group_column",
    "data.allow_outside", "data.protocol",
}  # fmt: skip
NAMES = {"recipe": "recipe"} | {key: option for option, key in OPTIONS.items()}


def train_again(config: RunConfig, source: Source, words: list[str], *, new: bool) -> str:
    """A command with all that a user had set of a run: what differs from what josrc chooses.

    Args:
        config: the run's.
        source: its data, by which josrc chooses; the corrected data is nearly the same.
        words: what names the corrected data.
        new: it is a data set of its own, and not the run's with other labels.
    """
    if config.method.name == SCAN:  # it has nothing that a training could take over
        root = [] if new or config.data.root is None else ["--data-root", str(config.data.root)]
        return shlex.join(["josrc", "train", *words, *root])
    wanted = config.flat()
    left = REPLACED | READING if new else REPLACED
    if new and config.model.image_size is None:  # the network saw images as they were
        wanted["model.image_size"] = source.size[0]
    said: Values = {}
    words = ["josrc", "train", *words]
    chosen = _chosen(config, source, said, new)
    # In the order of the options: what is said first decides what is chosen for those behind.
    for key in dict.fromkeys([*NAMES, *wanted]):
        if key not in left and wanted[key] != chosen.get(key):
            said = merge(said, nested(key, wanted[key]))
            words += _words(key, wanted[key])
            chosen = _chosen(config, source, said, new)
    return shlex.join(words)


def _chosen(config: RunConfig, source: Source, said: Values, new: bool) -> dict[str, Any]:
    """What josrc makes of such data and of what is said."""
    # Corrected images are own ones, whatever they were before.
    kind = DataKind.FOLDER if new else config.data.kind
    request = ask(config.data.name, kind, None, [said])
    sized = None
    if not kind.is_named:
        asked = request.config
        network = choose_network(source, asked.model, request.user["model"], asked.device)
        sized = sized_values(source, network)
    found = request.resolve(sized)
    if not new and source.kind is not None:
        found = with_noise_rate(found, source)
    return found.flat()


def _words(key: str, value: Any) -> list[str]:
    """A setting as it is given on the command line."""
    if key not in NAMES or value is None:
        return [f"{key}={in_one_line(value)}"]
    option = NAMES[key].replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", ",".join(value) if isinstance(value, list) else str(value)]
