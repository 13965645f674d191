"""From what a user wrote to a configuration: recipes, YAML, ``key=value`` pairs, options.

Later sources win: the defaults of ``config.py``, the recipe of the data set, what the chosen method
brings along, the part of that recipe for it, the user's YAML file, ``key=value`` pairs, options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from josrc._console import MAX_TEXT_LENGTH, clipped, say_once
from josrc._reading import regular
from josrc.config import (
    OWN_IMAGES,
    SCAN,
    DataKind,
    MethodSettings,
    OptimizerConfig,
    RunConfig,
    ScanSettings,
    pace_of,
    phase_of,
)
from josrc.errors import UserError, check_run, closest

if TYPE_CHECKING:
    from josrc.engine.run_folder import RunFolder

Values = dict[str, Any]
# Of settings: how deep they are nested, and how many there are, their aliases written out.
MAX_DEPTH, MAX_VALUES = 50, 10_000
OWN_IMAGES_TEXT = f"""\
# josrc train PATH
# {OWN_IMAGES} is not a file: its settings follow from the images: from how many there are, how
# large they are, and of how many classes. josrc train prints them before it begins, config.yaml in
# the run folder holds them all, and docs/use/your-data.md has the rules under "Settings".
"""


# --- reading -------------------------------------------------------------------------------------


def recipe_names() -> list[str]:
    """Names of the recipes that come with josrc."""
    folder = resources.files("josrc") / "recipes"
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )


def recipe_text(name: str) -> str:
    """A recipe as it is written, its first line the command that runs it."""
    if name not in recipe_names():
        raise UserError(f"There is no recipe '{name}'.{closest(name, recipe_names())}")
    return (resources.files("josrc") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")


def load_recipe(name: str) -> Values:
    """A recipe as values, with what it extends merged in."""
    return deepcopy(_parsed_recipe(name))


@cache
def _parsed_recipe(name: str) -> Values:
    values = parse_yaml(recipe_text(name), f"recipe {name}")
    base = values.pop("extends", None)
    return merge(load_recipe(base), values) if base else values


def parse_yaml(text: str | bytes, where: str) -> Values:
    """YAML as a mapping, or an error that names where it came from."""
    try:
        values = _plain_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(
            f"{where} is not valid YAML: {clipped(str(error), MAX_TEXT_LENGTH)}"
        ) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{where} must hold keys and values, not a {type(values).__name__}.")
    return values


def _plain_yaml(text: str | bytes) -> Any:
    """What YAML says, if it is as short and flat as settings are."""
    too_deep = f"it is nested more than {MAX_DEPTH} times"
    try:
        values = yaml.safe_load(text)
        size = _size(values, 0, {})
    except RecursionError:
        raise ValueError(too_deep) from None
    if size > MAX_VALUES:
        raise ValueError(f"its aliases make {size:,} values of it")
    return values


def _size(value: Any, depth: int, known: dict[int, int]) -> int:
    """How many values one is, what stands for others by an alias written out."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if not isinstance(value, list | dict):
        return 1
    if id(value) not in known:
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, depth + 1, known) for part in parts)
    return known[id(value)]


def read_yaml(path: Path) -> Values:
    """A file of settings, perhaps of an earlier run; those that no longer exist are left out."""
    values = parse_yaml(regular(path).read_bytes(), str(path))
    method = values.get("method")
    if isinstance(method, dict) and method.get("name"):
        retired = settings_of(str(method["name"])).retired.keys() & method.keys()
        if retired:
            names = ", ".join(f"method.{key}" for key in sorted(retired))
            say_once(f"{path}: no longer settings, and ignored: {names}.")
            kept = {key: value for key, value in method.items() if key not in retired}
            values = values | {"method": kept}
    return values


def settings_of(method: str) -> type[MethodSettings]:
    """What a method can be told, or a scan."""
    if method == SCAN:
        return ScanSettings
    from josrc.methods import get_method

    return get_method(method).Settings


def parse_override(pair: str) -> Values:
    """``method.alpha=0.3`` as nested values; the right side is read as YAML."""
    key, equals, text = pair.partition("=")
    if not equals or not key.strip():
        raise UserError(f"'{pair}' is not of the form key=value (for example method.alpha=0.3).")
    try:
        value: Any = _plain_yaml(text)
    except yaml.YAMLError:
        value = text
    except ValueError as error:
        raise UserError(f"'{clipped(pair)}' can't be used: {error}.") from None
    return nested(key.strip(), value)


def in_one_line(value: Any) -> str:
    """A value as it is written behind ``key=``."""
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return text.removesuffix("...\n").rstrip()


def nested(key: str, value: Any) -> Values:
    """``nested("a.b", 1)`` is ``{"a": {"b": 1}}``."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return value  # type: ignore[no-any-return]


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    """``over`` laid on ``base``, section by section."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


# --- resolving -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What a user asks for, laid over the recipe of the data if it has one, and checked.

    Attributes:
        config: all of it, defaults where nobody says anything.
        user: what the user said.
        recipe: what the recipe says, without its part for other methods.
    """

    config: RunConfig
    user: Values
    recipe: Values

    def resolve(self, suggested: Values | None = None) -> RunConfig:
        """The configuration of the run, its phases scaled to its length.

        Args:
            suggested: values that stand where named data has its recipe; what the user said wins.
        """
        if suggested is None:
            return scale_phases(self.config, self.recipe, self.user)
        base = _for_method(suggested, self.config.method.name)
        config = _updated(self.config, _unsaid(base, self.user))
        return scale_phases(config, base, self.user)


def ask(
    data: str, kind: DataKind, recipe: str | None, layers: Sequence[Mapping[str, Any]]
) -> Request:
    """What is asked for: the recipe of the data, then the user's layers in order.

    Args:
        data: name of the data set, or the whole path of own images.
        kind: what sort of data that is.
        recipe: ``plain`` for the recipe file ``DATA.plain.yaml``; none for ``DATA.yaml``.
        layers: nested values from the user, the later ones stronger.
    """
    user = said_values(data, kind, layers)
    chosen = user.pop("recipe", None)
    method = str(user["method"].get("name") or "josrc")
    base = recipe_of(data, kind, recipe or chosen)
    if kind.is_named:
        base = _for_method(base, method)
    return Request(build(merge(base, merge(user, {"method": {"name": method}}))), user, base)


def said_values(data: str, kind: DataKind, layers: Sequence[Mapping[str, Any]]) -> Values:
    """The user's layers in one, with what they are said of; see ``ask``."""
    user: Values = {}
    for layer in layers:
        _check_sections(layer)
        user = merge(user, layer)
    for key in ("data", "model", "method", "optimizer"):
        user[key] = user.get(key) or {}
    said = {"name": data, "kind": str(kind)} | user["data"]
    if said["name"] != data:
        raise UserError(f"Two data sets are named: {data} and data.name={said['name']}.")
    if said["kind"] != kind:
        raise UserError(
            f"data.kind={said['kind']} is not valid: {data} is of the kind {kind}, which follows "
            "from its name. Leave data.kind out."
        )
    user["data"] = said
    if user["model"].get("train") == "auto":  # what is chosen for who says nothing
        user["model"] = {key: v for key, v in user["model"].items() if key != "train"}
    return user


def build(values: Values) -> RunConfig:
    """Values as a configuration, if they make one."""
    kind = settings_of(str(values["method"]["name"]))
    settings = validate(kind, values["method"], "method")
    return validate(RunConfig, {**values, "method": settings})


def scale_phases(config: RunConfig, recipe: Values, user: Values) -> RunConfig:
    """Scale what the user did not set to the length of the run: lengths of phases, and paces."""
    scaled: Values = {}
    for path, value, of, is_length in _scaling(config):
        if not _has(user, path):
            of = recipe.get("epochs", of) if _has(recipe, path) else of
            scaled = merge(scaled, nested(path, _scaled(value, config.epochs / of, is_length)))
    return _updated(config, scaled)


def _scaled(value: float, longer: float, is_length: bool) -> float:
    """A setting in a run so many times as long."""
    if not is_length:
        return value / longer
    return max(1, round(value * longer)) if value else 0


def load_run_config(folder: RunFolder) -> RunConfig:
    """The configuration a run folder holds, exactly as it was resolved."""
    path = folder.config
    check_run(path.parent)
    folder.check_links()
    values = read_yaml(path)
    if not isinstance(values.get("method"), dict) or "name" not in values["method"]:
        raise UserError(f"{path} names no method: it is not the configuration of a run.")
    data = values.get("data")
    if isinstance(data, dict) and "name" in data and "kind" not in data:
        from josrc.data.registry import kind_of_recorded

        data["kind"] = kind_of_recorded(str(data["name"]))
    return build(values)


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: Mapping[str, Any], prefix: str = "") -> Model:
    """``model`` made from values; a mistake becomes a sentence that names the key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError("\n".join(sentences(model, error.errors(), prefix, values))) from None


def sentences(
    model: type[BaseModel],
    problems: Sequence[ErrorDetails],
    prefix: str,
    values: Mapping[str, Any],
) -> Iterator[str]:
    """What is wrong with values that make no ``model``, a sentence for each problem."""
    for problem in problems:
        path = [str(part) for part in problem["loc"]]
        key = ".".join([prefix, *path] if prefix else path)
        if problem["type"] == "extra_forbidden":
            known = list(_model_at(model, path[:-1]).model_fields)
            place = key.removesuffix(path[-1])
            meant = " or ".join(f"'{home}'" for home in _homes(model, values, key))
            hint = f" Did you mean {meant}?" if meant else closest(path[-1], known, place)
            yield f"Unknown key '{key}'.{hint}"
        elif problem["type"] == "literal_error":
            choices = re.findall("'([^']*)'", problem["msg"])
            hint = closest(str(problem["input"]), choices)
            yield f"{key}={_shown(problem['input'])} is not valid.{hint}"
        elif problem["type"] == "no_number":
            yield f"{key}={_shown(problem['input'])} is not valid: {problem['msg']}."
        elif problem["type"] == "value_error":
            yield str(problem["ctx"]["error"])
        elif problem["type"] == "missing":
            yield f"'{key}' is missing."
        else:
            yield f"{key}={_shown(problem['input'])}: {problem['msg']}."


def _shown(value: Any) -> str:
    """A value that somebody wrote, if it is not too long to be shown."""
    return clipped(repr(value))


def recipe_of(data: str, kind: DataKind, chosen: object) -> Values:
    """The settings of a data set: its file, what another package brings with it, or none."""
    from josrc.data.registry import find_dataset

    if not kind.is_named:
        if chosen in (None, OWN_IMAGES):  # the second as a run's config.yaml has it
            return {}
        raise UserError(f"Recipes belong to data sets josrc knows by name, and {data} is not one.")
    known = find_dataset(data)
    if known is None or known.recipe is None:
        return load_recipe(_recipe_file(data, chosen))
    if chosen is not None:
        raise UserError(f"{data} has no recipe '{chosen}': it comes from another package.")
    return dict(known.recipe)


def _recipe_file(data: str, recipe: object) -> str:
    if recipe is None or recipe == "augmented":
        return data
    name = f"{data}.{recipe}"
    if name not in recipe_names():
        own = [
            r.partition(".")[2] or "augmented" for r in recipe_names() if r.split(".")[0] == data
        ]
        raise UserError(f"{data} has no recipe '{recipe}'. It has: {', '.join(own)}.")
    return name


def _check_sections(layer: Mapping[str, Any]) -> None:
    """A section is not a value, nor a value a section: a stronger layer would hide it."""
    for key, value in layer.items():
        if key not in RunConfig.model_fields:
            continue
        model = MethodSettings if key == "method" else _model_at(RunConfig, [key])
        section = model is not RunConfig
        if section and value is not None and not isinstance(value, Mapping):
            if "name" in model.model_fields:
                raise UserError(f"'{key}' is a section: write {key}.name={value} to choose it.")
            first = next(iter(model.model_fields))
            raise UserError(f"{key}={value!r}: '{key}' is a section. Write {key}.{first}=..., say.")
        if not section and isinstance(value, Mapping):
            raise UserError(f"Unknown key '{key}.{next(iter(value), '')}': {key} is not a section.")


def _model_at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    for part in path:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return model


def _homes(model: type[BaseModel], values: Mapping[str, Any], key: str) -> Iterator[str]:
    """Where a key lives that was given without its section: ``optimizer.lr`` for ``lr``."""
    for name, field in model.model_fields.items():
        # The settings of a method are validated by now, and are of its own class.
        value = values.get(name)
        inner = type(value) if isinstance(value, BaseModel) else field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and key in inner.model_fields:
            yield f"{name}.{key}"


def _scaling(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, float, int, bool]]:
    """Path, value and reference length of all that scales, and whether it is a phase's length."""
    for name, field in type(section).model_fields.items():
        value, path = getattr(section, name), f"{prefix}{name}"
        if isinstance(value, BaseModel):
            yield from _scaling(value, f"{path}.")
        elif (length := phase_of(field)) is not None:
            yield path, value, length, True
        elif (length := pace_of(field)) is not None:
            yield path, value, length, False


def _for_method(values: Mapping[str, Any], method: str) -> Values:
    """Values of a recipe, over them what a method brings along, and the recipe's part for it."""
    base = dict(values)
    special = base.pop("methods", {})
    learned = base.pop("learned", base.get("model", {}).get("pretrained", False))
    brought = _brought_along(method, base)
    if learned:  # rates that are right from scratch would wipe out what was learned
        brought.pop("optimizer", None)
    return merge(merge(base, brought), special.get(method, {}))


def _brought_along(method: str, recipe: Mapping[str, Any]) -> Values:
    """The defaults of a method, their lengths in epochs of the recipe."""
    from josrc.methods import get_method

    values = {} if method == SCAN else merge({}, get_method(method).defaults)
    length = phase_of(OptimizerConfig.model_fields["decay_start"])
    if length and "decay_start" in values.get("optimizer", {}) and "epochs" in recipe:
        start = round(values["optimizer"]["decay_start"] * recipe["epochs"] / length)
        values = merge(values, nested("optimizer.decay_start", start))
    return values


def _unsaid(values: Mapping[str, Any] | None, user: Mapping[str, Any]) -> Values:
    """What of some values the user says nothing of."""
    found: Values = {}
    for key, value in (values or {}).items():
        said = user.get(key)
        if isinstance(value, Mapping):
            found[key] = _unsaid(value, said if isinstance(said, Mapping) else {})
        elif key not in user:
            found[key] = value
    return found


def _has(values: Mapping[str, Any], path: str) -> bool:
    node: Any = values
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return True


def _updated(section: Model, values: Values) -> Model:
    """A copy of a section with nested values changed."""
    changes = {
        key: _updated(getattr(section, key), value) if isinstance(value, dict) else value
        for key, value in values.items()
    }
    return section.model_copy(update=changes)
