"""Options of a training by their short names, and what of them is wrong, told without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from josrc.config import MethodSettings, RunConfig
from josrc.data.registry import check_root, full_name, kind_of
from josrc.errors import UserError, closest
from josrc.methods import check_method
from josrc.runs.inject import with_injected
from josrc.runs.resolve import Values, merge, nested, recipe_of, said_values, sentences

# Short names of the options that scripts use, and the configuration keys they set.
OPTIONS = {
    "noise": "data.noise",
    "rate": "data.rate",
    "noise_seed": "data.noise_seed",
    "noise_file": "data.noise_file",
    "data_root": "data.root",
    "method": "method.name",
    "model": "model.name",
    "pretrained": "model.pretrained",
    "weights": "model.weights",
    "train": "model.train",
    "image_size": "model.image_size",
    "epochs": "epochs",
    "batch_size": "batch_size",
    "seed": "seed",
    "device": "device",
    "engine": "engine",
    "test": "data.test",
    "val": "data.val",
    "path_column": "data.path_column",
    "label_column": "data.label_column",
    "annotator_column": "data.annotator_column",
    "annotator_columns": "data.annotator_columns",
    "group_column": "data.group_column",
    "whole_labels": "data.whole_labels",
    "allow_outside": "data.allow_outside",
    "allow_skipped": "data.allow_skipped",
    "workers": "data.workers",
    "plant": "plant",
    "log": "log",
}


def chosen_values(options: Mapping[str, Any]) -> Values:
    """Options as nested values, without those that are ``None``."""
    chosen: Values = {}
    for option, value in options.items():
        if option not in OPTIONS:
            raise UserError(f"Unknown option '{option}'.{closest(option, [*OPTIONS, 'inject'])}")
        if value is not None:
            chosen = merge(chosen, nested(OPTIONS[option], value))
    return chosen


def check_early(
    data: str, recipe: str | None, layers: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> None:
    """Raise an error for what can be told wrong of a training without torch.

    ``josrc.runs.start.plan``, which takes seconds to import, tells the rest: the settings of a
    method, values that do not go together, and keys that may be a method's.

    Args:
        data: a name or a path.
        recipe: as for ``josrc.runs.resolve.ask``.
        layers: nested values of the user.
        options: by their short names; None where nothing is said.
    """
    kind = kind_of(data)
    chosen = chosen_values(with_injected(options, kind))
    user = said_values(full_name(data, kind), kind, [*layers, chosen])
    method = str(user["method"].get("name") or "josrc")
    check_method(method)
    values = merge(recipe_of(data, kind, recipe or user.pop("recipe", None)), user)
    values["method"] = MethodSettings(name=method)
    try:
        check_root(RunConfig.model_validate(values).data)
    except ValidationError as error:
        problems = [problem for problem in error.errors() if not _may_change(problem)]
        if problems:
            raise UserError("\n".join(sentences(RunConfig, problems, "", values))) from None


def _may_change(problem: ErrorDetails) -> bool:
    """Whether a problem may be none, or another, once the method is known."""
    unknown = problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1
    return unknown or problem["type"] == "value_error"
