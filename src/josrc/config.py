"""Configuration: what a run is, from defaults, a recipe, a YAML file and the command line.

Later sources win: the defaults below, the recipe of the data set, the part of that recipe
for the chosen method, the user's YAML file, ``key=value`` pairs, options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from josrc.errors import UserError, closest

Values = dict[str, Any]
# A run may be resumed from another folder, so its files keep their whole path.
File = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
NoiseKind = Literal["symmetric", "asymmetric", "block", "superclass", "none"]


def phase(default: int, *, of: int = 200, description: str | None = None) -> Any:
    """A length in epochs of a run of ``of`` epochs; it scales with the run's length."""
    return Field(default, ge=0, description=description, json_schema_extra={"phase_of": of})


# Marks a setting that reaches the step through the schedule alone: code compiled for one value of
# it serves every other.
SCHEDULED: dict[str, Any] = {"scheduled": True}


class Section(BaseModel):
    """Base of every part of the configuration: unknown keys are errors, values don't change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataConfig(Section):
    """Which data, and which noise is added to its labels."""

    name: str
    root: File | None = None
    noise: NoiseKind = "none"
    rate: float = Field(0.0, ge=0, le=1)
    # The published code draws the noise with seed 0 whatever the run's seed: runs share one draw.
    noise_seed: int = Field(0, ge=0, lt=2**32)
    noise_file: File | None = None
    # For images of one's own, in files:
    test: File | None = Field(None, description="images with true labels to test on")
    val: float = Field(0.0, ge=0, lt=1, description="share of each class to hold out")
    path_column: str | None = None
    label_column: str | None = None
    allow_outside: bool = Field(False, description="a manifest may name files anywhere")
    allow_skipped: bool = Field(False, description="train even if over 5 % of files are no images")
    workers: int | None = Field(None, ge=0, description="decoding processes; null: one a core")
    resident: bool | None = Field(None, description="keep all images in memory; null: if they fit")
    # For Clothing1M; null means noisy. The released Jo-SRC code trains on clean-train images too.
    protocol: Literal["noisy", "published"] | None = Field(
        None, description="noisy: the noisy images alone; published: and the clean-train images"
    )
    epoch_samples: int | None = Field(
        None, ge=2, description="an epoch is so many samples, as many of each class; null: all"
    )

    @model_validator(mode="after")
    def _noise_and_rate_belong_together(self) -> Self:
        if self.noise_file is not None and (self.noise != "none" or self.rate > 0):
            raise ValueError("A noise file holds the labels: give it, or noise and rate, not both.")
        if self.noise == "none" and self.rate > 0:
            raise ValueError(f"Rate {self.rate} of which noise? Add --noise symmetric, say.")
        if self.noise != "none" and "rate" not in self.model_fields_set:
            raise ValueError(f"Noise '{self.noise}' needs a rate: add --rate 0.2, say.")
        return self


class ViewConfig(Section):
    """The weak view: a random crop out of a zero-padded image, and a horizontal flip."""

    pad: int = Field(4, ge=0)
    flip: bool = True
    # Test images too. The codes of Co-teaching, Co-teaching+ and JoCoR leave pixels in [0, 1].
    normalise: bool = Field(True, description="standardise each channel; false: pixels in [0, 1]")
    # shift: a crop of the image's size; resized: a crop of random area, resized.
    crop: Literal["shift", "resized"] = "shift"
    strong: Literal["none", "last", "all"] = Field(
        "none", description="which views are also turned, sheared and changed in colour"
    )


class ModelConfig(Section):
    """The network: ``cnn7``, ``preactresnet18`` or any timm name, and the head on top of it."""

    name: str = "cnn7"
    # The published Jo-SRC code puts a two-layer head on every backbone; the paper is silent.
    head: Literal["linear", "mlp"] = "mlp"
    width: float = Field(1.0, gt=0, description="scales the channels of cnn7 alone")
    pretrained: bool = False
    weights: File | None = None
    image_size: int | None = Field(None, ge=4)
    sync_bn: bool = Field(
        False, description="several processes on GPUs: batch norm over the batches of all"
    )


class OptimizerConfig(Section):
    """The optimizer and how its learning rate moves over the epochs."""

    name: Literal["adam", "sgd"] = "adam"
    lr: float = Field(1e-3, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="beta1 of Adam, momentum of SGD")
    weight_decay: float = Field(0.0, ge=0)
    nesterov: bool = False
    decay: Literal["none", "linear", "cosine", "step"] = Field(
        "linear", description="from decay_start on: to 0, or in one step to a tenth"
    )
    decay_start: int = phase(80)
    # Co-teaching's code, and Jo-SRC's after it, lowers Adam's beta1 when the decay begins.
    momentum_after: float | None = Field(None, ge=0, lt=1)
    rates: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        None, min_length=1, description="rates of equal parts of the run, in place of lr and decay"
    )

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and 0 in (self.momentum, self.momentum_after):
            raise ValueError("optimizer.nesterov=true needs an optimizer.momentum above 0.")
        return self

    def at(self, epoch: int, epochs: int) -> tuple[float, float]:
        """Learning rate and momentum of a zero-based epoch."""
        if self.rates is not None:
            return self.rates[epoch * len(self.rates) // epochs], self.momentum
        begun = epoch >= self.decay_start and self.decay != "none"
        momentum = (
            self.momentum_after if begun and self.momentum_after is not None else self.momentum
        )
        if not begun:
            return self.lr, momentum
        if self.decay == "step":
            return 0.1 * self.lr, momentum
        left = (epochs - epoch) / max(1, epochs - self.decay_start)
        if self.decay == "cosine":
            left = 0.5 * (1 - math.cos(math.pi * left))
        return self.lr * left, momentum


class MethodSettings(Section):
    """Base of every method's settings."""

    name: str

    def settled(self, noise_rate: float | None) -> Self:
        """These settings once the data is there; a method may take its noise rate from it.

        Args:
            noise_rate: share of the training labels that are wrong, or none where nobody knows.
        """
        return self


class RunConfig(Section):
    """Everything that decides what a run computes."""

    recipe: str = "augmented"
    data: DataConfig
    views: ViewConfig = ViewConfig()
    model: ModelConfig = ModelConfig()
    method: SerializeAsAny[MethodSettings]
    optimizer: OptimizerConfig = OptimizerConfig()
    epochs: int = Field(200, ge=1)
    batch_size: int = Field(128, ge=2)
    seed: int = Field(0, ge=0, lt=2**31)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    engine: Literal["auto", "captured", "eager"] = "auto"
    stop_on_collapse: bool = Field(
        True, description="stop when test accuracy falls back to chance and stays there"
    )
    log: list[str] = Field([], description="where else each epoch's numbers go: tensorboard")

    @field_validator("log")
    @classmethod
    def _known_loggers(cls, names: list[str]) -> list[str]:
        from josrc.logs import logger_names

        for name in names:
            if name not in logger_names():
                raise ValueError(f"There is no logger '{name}'.{closest(name, logger_names())}")
        return names

    def to_yaml(self) -> str:
        """The resolved configuration as it is kept in the run folder."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


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
    values = parse_yaml(recipe_text(name), f"recipe {name}")
    base = values.pop("extends", None)
    return merge(load_recipe(base), values) if base else values


def parse_yaml(text: str | bytes, where: str) -> Values:
    """YAML as a mapping, or an error that names where it came from."""
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{where} is not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{where} must hold keys and values, not a {type(values).__name__}.")
    return values


def parse_override(pair: str) -> Values:
    """``method.alpha=0.3`` as nested values; the right side is read as YAML."""
    key, equals, text = pair.partition("=")
    if not equals or not key.strip():
        raise UserError(f"'{pair}' is not of the form key=value (for example method.alpha=0.3).")
    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    return nested(key.strip(), value)


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


def resolve(
    data: str,
    recipe: str | None,
    layers: Sequence[Mapping[str, Any]],
    base: Values | None = None,
) -> RunConfig:
    """The configuration of a run on ``data``: its recipe, then the user's layers in order.

    Args:
        data: name of the data set.
        recipe: ``plain`` for the recipe file ``DATA.plain.yaml``; none for ``DATA.yaml``.
        layers: nested values from the user, the later ones stronger.
        base: values in place of a recipe, for data that has none.
    """
    user: Values = {}
    for layer in layers:
        user = merge(user, layer)
    for key in ("data", "model", "method", "optimizer"):
        user[key] = _section(user, key)
    named = user["data"].get("name", data)
    if named != data:
        raise UserError(f"Two data sets are named: {data} and data.name={named}.")
    chosen = user.pop("recipe", None)
    user = merge(user, {"data": {"name": data}})
    if base is None:
        base = load_recipe(_recipe_file(data, recipe or chosen))
    elif recipe or chosen:
        raise UserError(f"Recipes belong to data sets josrc knows by name, and {data} is not one.")
    base = dict(base)
    special = base.pop("methods", {})
    method = str(user["method"].get("name") or "josrc")
    base = merge(base, special.get(method, {}))
    return build(merge(base, merge(user, {"method": {"name": method}})), base, user)


def build(values: Values, recipe: Values, user: Values) -> RunConfig:
    """Validate values, then scale the phase lengths that the user did not set."""
    from josrc.methods import get_method

    settings = validate(get_method(values["method"]["name"]).Settings, values["method"], "method")
    config = validate(RunConfig, {**values, "method": settings})
    lengths: Values = {}
    for path, length, of in _phases(config):
        if not _has(user, path):
            of = recipe.get("epochs", of) if _has(recipe, path) else of
            scaled = max(1, round(length * config.epochs / of)) if length else 0
            lengths = merge(lengths, nested(path, scaled))
    if lengths:
        config = _updated(config, lengths)
    return config


def load_run_config(path: Path) -> RunConfig:
    """The configuration a run folder holds, exactly as it was resolved."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: {path.parent} is not a josrc run folder.")
    values = parse_yaml(path.read_bytes(), str(path))
    if not isinstance(values.get("method"), dict) or "name" not in values["method"]:
        raise UserError(f"{path} names no method: it is not the configuration of a run.")
    return build(values, values, values)


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: Mapping[str, Any], prefix: str = "") -> Model:
    """``model`` made from values; a mistake becomes a sentence that names the key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError("\n".join(_sentences(model, error, prefix))) from None


def _sentences(model: type[BaseModel], error: ValidationError, prefix: str) -> Iterator[str]:
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        key = ".".join([prefix, *path] if prefix else path)
        if problem["type"] == "extra_forbidden":
            known = list(_model_at(model, path[:-1]).model_fields)
            place = key.removesuffix(path[-1])
            yield f"Unknown key '{key}'.{closest(path[-1], known, place)}"
        elif problem["type"] == "literal_error":
            choices = re.findall("'([^']*)'", problem["msg"])
            hint = closest(str(problem["input"]), choices)
            yield f"{key}={problem['input']!r} is not possible.{hint}"
        elif problem["type"] == "value_error":
            yield str(problem["ctx"]["error"])
        elif problem["type"] == "missing":
            yield f"'{key}' is missing."
        else:
            yield f"{key}={problem['input']!r}: {problem['msg']}."


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


def _section(values: Values, key: str) -> Values:
    section = values.get(key) or {}
    if not isinstance(section, dict):
        raise UserError(f"'{key}' is a section: write {key}.name={section} to choose it.")
    return section


def _model_at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    for part in path:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return model


def _phases(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Path, value and reference length of every phase field below ``section``."""
    for name, field in type(section).model_fields.items():
        value, path = getattr(section, name), f"{prefix}{name}"
        if isinstance(value, BaseModel):
            yield from _phases(value, f"{path}.")
        elif isinstance(field.json_schema_extra, dict) and "phase_of" in field.json_schema_extra:
            yield path, value, int(str(field.json_schema_extra["phase_of"]))


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
