"""Configuration: everything that decides what a run is, with its defaults.

How a recipe, a file and the command line come to be one is in ``runs/resolve.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

# A run may be resumed from another folder, so its files keep their whole path.
File = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
Choice = TypeVar("Choice")
# ``C`` and ``c`` name the same choice.
LowerCase = Annotated[
    Choice, BeforeValidator(lambda text: text.lower() if isinstance(text, str) else text)
]
# A run stays the same run wherever it is computed, its data lies and its numbers are shown. What
# kind of data it has follows from the name, and copies are looked for before it begins.
CHANGEABLE = {
    "device", "engine", "stop_on_collapse", "log", "data.root", "data.kind", "data.near_duplicates",
}  # fmt: skip
# How the name of a data set on the Hugging Face hub begins.
HUB = "hf:"
# What stands in a run's configuration where runs on named data have their recipe.
OWN_IMAGES = "own-images"
NoiseKind = Literal[
    "symmetric", "asymmetric", "block", "superclass", "instance",
    "aggregate", "random1", "random2", "random3", "worst", "human", "none",
]  # fmt: skip
# Kinds that are not drawn, as people gave these labels, and the data set that they gave them to.
PEOPLE = {
    "aggregate": "cifar10n",
    "random1": "cifar10n",
    "random2": "cifar10n",
    "random3": "cifar10n",
    "worst": "cifar10n",
    "human": "cifar100n",
}


class DataKind(StrEnum):
    """What sort of data a run has: decided once, by its name, and asked wherever it matters."""

    BUILTIN = "builtin"  # known by name, and whole in memory: digits, CIFAR
    PUBLISHED = "published"  # known by name, its images in files in their published layout
    FOLDER = "folder"  # class folders
    MANIFEST = "manifest"  # a file that names images and their labels
    LABEL_STUDIO = "label_studio"  # tasks of Label Studio, as JSON
    COCO = "coco"  # images and annotations in COCO's JSON
    HUB = "hub"  # a Hugging Face data set, by its name or saved to disk
    SHARDS = "shards"  # tar or parquet files that hold the images, and their labels
    ARRAYS = "arrays"  # handed over by a Python program: pixels or paths, and labels

    @property
    def is_named(self) -> bool:
        """Whether josrc knows it by name: it has recipes, and test images of its own."""
        return self in (DataKind.BUILTIN, DataKind.PUBLISHED)

    @property
    def knows_truth(self) -> bool:
        """Whether its labels are right until noise is added to them."""
        return self is DataKind.BUILTIN

    @property
    def has_place(self) -> bool:
        """Whether it may lie at a path of its user's, and move."""
        return self in (DataKind.FOLDER, DataKind.HUB) or self.is_list

    @property
    def is_list(self) -> bool:
        """Whether files list its images: those name them, or hold them."""
        return self in (
            DataKind.MANIFEST, DataKind.LABEL_STUDIO, DataKind.COCO, DataKind.SHARDS,
        )  # fmt: skip


def phase(default: int, *, of: int = 200, description: str | None = None) -> Any:
    """A length in epochs of a run of ``of`` epochs; it scales with the run's length."""
    return Field(default, ge=0, description=description, json_schema_extra={"phase_of": of})


def phase_of(field: FieldInfo) -> int | None:
    """The length of the run that a setting's length belongs to; none for all other settings."""
    extra = field.json_schema_extra
    return int(str(extra["phase_of"])) if isinstance(extra, dict) and "phase_of" in extra else None


def pace(default: float, *, of: int = 200, description: str | None = None) -> Any:
    """What an epoch of a run of ``of`` epochs does; each of a shorter run does more."""
    extra: dict[str, Any] = {"pace_of": of}
    return Field(default, ge=0, description=description, json_schema_extra=extra)


def pace_of(field: FieldInfo) -> int | None:
    """The length of the run that a setting's pace belongs to; none for all other settings."""
    extra = field.json_schema_extra
    return int(str(extra["pace_of"])) if isinstance(extra, dict) and "pace_of" in extra else None


# Marks a setting that reaches the step through the schedule alone: code compiled for one value of
# it serves every other.
SCHEDULED: dict[str, Any] = {"scheduled": True}


def _is_number(annotation: Any) -> bool:
    kinds = {annotation, *get_args(annotation)}
    return bool(kinds & {int, float}) and bool not in kinds


class Section(BaseModel):
    """Base of every part of the configuration: unknown keys are errors, values don't change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _reject_bool(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and _is_number(kind):
            raise PydanticCustomError("no_number", "it is a number")
        return value


def split_names(names: Any) -> Any:
    """Names as a list, also those that come as one text with commas."""
    if not isinstance(names, str):
        return names
    return [name.strip() for name in names.split(",") if name.strip()]


# What an optimizer multiplies by lies far below; a float32 ends at 3e38.
MAX_LEARNING_RATE = 1e6


class DataConfig(Section):
    """Which data, and which noise is added to its labels."""

    name: str = Field(description="a data set josrc knows, a path, or hf:NAME")
    kind: DataKind = Field(description="kind of data; follows from the name")
    root: File | None = Field(None, description="folder of the data; null: download it")
    noise: NoiseKind = Field(
        "none", description="label noise: drawn on purpose, or given by people"
    )
    rate: float = Field(0.0, ge=0, le=1, description="share of labels to corrupt")
    # The published code draws the noise with seed 0 whatever the run's seed: runs share one draw.
    noise_seed: int = Field(
        0, ge=0, lt=2**32, description="seed of the noise, independent of the run's seed"
    )
    noise_file: File | None = Field(None, description="given labels, instead of noise and rate")
    # For images of one's own, in files:
    test: File | None = Field(None, description="images with true labels to test on")
    val: float = Field(0.0, ge=0, lt=1, description="share of each class to hold out")
    path_column: str | None = Field(
        None, description="column of a manifest; null: found by its name"
    )
    label_column: str | None = Field(
        None, description="column of a manifest; null: found by its name"
    )
    annotator_column: str | None = Field(
        None, description="column of a manifest with one row per label: the annotator"
    )
    annotator_columns: list[str] | None = Field(
        None, description="columns of a manifest with one row per image: each annotator's labels"
    )
    group_column: str | None = Field(
        None, description="column of a manifest; images of a group stay together when labels judge"
    )
    near_duplicates: bool = Field(
        True, description="also look for copies that were re-encoded, resized or cropped"
    )
    whole_labels: bool = Field(
        False, description="in a manifest, 'cat;dog' is the name of a single class"
    )
    allow_outside: bool = Field(False, description="allow a manifest to list files anywhere")
    allow_skipped: bool = Field(
        False, description="train even if more than 5 % of the files are not images"
    )
    workers: int | None = Field(None, ge=0, description="decoding processes; null: one per core")
    resident: bool | None = Field(None, description="keep all images in memory; null: if they fit")
    # For Clothing1M; null means noisy. The released Jo-SRC code trains on clean-train images too.
    protocol: Literal["noisy", "published"] | None = Field(
        None, description="noisy: only the noisy images; published: also the clean training images"
    )
    epoch_samples: int | None = Field(
        None, ge=2, description="samples per epoch, equally many per class; null: all"
    )

    @field_validator("annotator_columns", mode="before")
    @classmethod
    def _listed(cls, names: Any) -> Any:
        return split_names(names)

    @model_validator(mode="after")
    def _annotators_are_told_once(self) -> Self:
        if self.annotator_column and self.annotator_columns:
            raise ValueError("Use annotator_column or annotator_columns, not both.")
        return self

    @property
    def has_annotators(self) -> bool:
        """Whether several annotators have labelled the images."""
        return bool(self.annotator_column or self.annotator_columns)

    @property
    def original_path(self) -> Path | None:
        """Where own images were when they were named; none for data that lies at no path.

        An address is no path, and a pattern, ``{0..9}.tar``, is several.
        """
        path, several = Path(self.name), self.kind is DataKind.SHARDS and "{" in self.name
        return path if self.kind.has_place and path.is_absolute() and not several else None

    @property
    def path(self) -> Path | None:
        """The same, or where they are said to have moved."""
        moves = self.original_path is not None or self.kind.is_list
        return (self.root if moves else None) or self.original_path

    @property
    def place(self) -> str:
        """Where own images are, or the name of the data."""
        return self.name if self.path is None else str(self.path)

    @model_validator(mode="after")
    def _noise_and_rate_belong_together(self) -> Self:
        if self.noise_file is not None and (self.noise != "none" or self.rate > 0):
            raise ValueError(
                "A noise file already contains the labels: pass it, or noise and rate, not both."
            )
        if self.noise == "none" and self.rate > 0:
            none = (
                "Noise 'none' has no rate."
                if "noise" in self.model_fields_set
                else "no kind of noise is given."
            )
            raise ValueError(f"Rate {self.rate}: {none} Add --noise symmetric, for example.")
        if self.noise in PEOPLE:
            return self._checked_people()
        if self.noise != "none" and "rate" not in self.model_fields_set:
            raise ValueError(f"Noise '{self.noise}' needs a rate: add --rate 0.2, for example.")
        return self

    def _checked_people(self) -> Self:
        """These settings, if the noise is labels that people gave to this very data."""
        if PEOPLE[self.noise] != self.name:
            raise ValueError(
                f"Noise '{self.noise}' means labels that people gave to "
                f"{PEOPLE[self.noise]}, not to {self.name}."
            )
        if self.rate > 0:
            raise ValueError(
                f"Noise '{self.noise}' has no rate, as people gave these labels: leave out --rate."
            )
        return self


class ViewConfig(Section):
    """The weak view: a random crop out of a zero-padded image, and a horizontal flip."""

    pad: int = Field(4, ge=0, le=1024, description="pixels of padding around an image")
    flip: bool = Field(True, description="mirror half of the views; not for digits or text")
    # Test images too. The codes of Co-teaching, Co-teaching+ and JoCoR leave pixels in [0, 1].
    normalise: bool = Field(True, description="standardise each channel; false: pixels in [0, 1]")
    # Images in files come as their middle square; whole ones cost a square for each view.
    crop: Literal["shift", "whole", "resized"] = Field(
        "shift",
        description="at a random position, also anywhere along the long side, or of random area",
    )
    strong: Literal["none", "last", "all"] = Field(
        "none", description="which views also get geometric and colour changes"
    )
    # autoaugment: the one its authors found for CIFAR-10, which successors of Jo-SRC use.
    policy: Literal["mild", "autoaugment", "randaugment"] = Field(
        "mild", description="these changes: a mild one, or two operations of a policy"
    )
    # More cost as much again before the first epoch: each is a pass through the backbone.
    stored: int = Field(
        4, ge=1, description="model.train=head: views per image whose features are stored"
    )


# A name of timm's, or of the Hugging Face hub: an owner, a repository and its revision.
MODEL_NAME = r"^(hf-hub:)?\w[\w.-]*(/\w[\w.-]*)?(@\w[\w.-]*)?$"


class ModelConfig(Section):
    """The network: ``cnn7``, ``preactresnet18`` or any timm name, and the head on top of it."""

    name: str = Field(
        "cnn7", pattern=MODEL_NAME, description="cnn7, preactresnet18, or any timm model"
    )
    # The published Jo-SRC code puts a two-layer head on every backbone; the paper is silent.
    head: Literal["linear", "mlp"] = Field("mlp", description="one layer, or two")
    width: float = Field(1.0, gt=0, le=64, description="width multiplier of cnn7 only")
    pretrained: bool = Field(False, description="start from published weights")
    weights: File | None = Field(None, description="start from the weights in a file")
    image_size: int | None = Field(
        None, ge=4, description="side in pixels; null: that of the images, or timm's"
    )
    train: Literal["all", "head"] = Field(
        "all", description="train all weights, or only the head on features computed once"
    )
    sync_bn: bool = Field(
        False,
        description="with several processes on GPUs: batch norm over the batches of all processes",
    )


class OptimizerConfig(Section):
    """The optimizer and how its learning rate moves over the epochs."""

    name: Literal["adam", "sgd"] = Field("adam", description="the optimizer")
    lr: float = Field(1e-3, gt=0, le=MAX_LEARNING_RATE, description="learning rate at the start")
    backbone_factor: float = Field(
        1.0,
        gt=0,
        le=MAX_LEARNING_RATE,
        description="learning rate of the backbone, as a multiple of lr; below 1 preserves more "
        "of its weights",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="beta1 of Adam, momentum of SGD")
    weight_decay: float = Field(
        0.0, ge=0, le=MAX_LEARNING_RATE, description="L2 penalty on all weights"
    )
    nesterov: bool = Field(False, description="Nesterov's momentum, for SGD")
    decay: Literal["none", "linear", "cosine", "step"] = Field(
        "linear", description="from decay_start on: to 0, or in one step to a tenth"
    )
    decay_start: int = phase(80, description="first epoch of the decay, counted from 0")
    end: float = Field(0.0, ge=0, description="learning rate at the end of a cosine")
    before: float | None = Field(
        None, gt=0, description="learning rate before decay_start; null: lr"
    )
    # Co-teaching's code, and Jo-SRC's after it, lowers Adam's beta1 when the decay begins.
    momentum_after: float | None = Field(
        None, ge=0, lt=1, description="momentum after the decay has started; null: unchanged"
    )
    rates: tuple[Annotated[float, Field(gt=0, le=MAX_LEARNING_RATE)], ...] | None = Field(
        None,
        min_length=1,
        description="learning rates of equal parts of the run, instead of lr and decay",
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
        if epoch < self.decay_start and self.before is not None:
            return self.before, momentum
        if not begun:
            return self.lr, momentum
        if self.decay == "step":
            return 0.1 * self.lr, momentum
        left = (epochs - epoch) / max(1, epochs - self.decay_start)
        if self.decay == "cosine":
            left = 0.5 * (1 - math.cos(math.pi * left))
            return self.end + (self.lr - self.end) * left, momentum
        return self.lr * left, momentum


class MethodSettings(Section):
    """Base of every method's settings.

    Attributes:
        name: the method's key.
        retired: settings that old runs may have, each with the value that holds for all by now.
    """

    retired: ClassVar[Mapping[str, Any]] = {}
    name: str

    def with_noise_rate(self, noise_rate: float | None) -> Self:
        """These settings once the data is there; a method may take its noise rate from it.

        Args:
            noise_rate: share of the training labels that are wrong, or none where nobody knows.
        """
        return self


# What stands for a method in the configuration of a scan, which trains none.
SCAN = "scan"


class ScanSettings(MethodSettings):
    """What a scan rests on besides the images: files of the user's."""

    name: Literal["scan"] = "scan"
    probabilities: File | None = Field(None, description="predictions made elsewhere")
    features: File | None = Field(None, description="features made elsewhere")


class RunConfig(Section):
    """Everything that decides what a run computes."""

    recipe: str = Field("augmented", description="where other defaults come from")
    data: DataConfig
    views: ViewConfig = ViewConfig()
    model: ModelConfig = ModelConfig()
    method: SerializeAsAny[MethodSettings]
    optimizer: OptimizerConfig = OptimizerConfig()
    epochs: int = Field(200, ge=1, description="length of the run")
    batch_size: int = Field(128, ge=2, description="samples per step, over all processes")
    seed: int = Field(0, ge=0, lt=2**31, description="seed of initial weights, order and views")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="precision of most arithmetic; auto: bfloat16 on a GPU"
    )
    engine: Literal["auto", "captured", "compiled", "eager"] = Field(
        "auto",
        description="replay steps as CUDA graphs, compile them, or not; auto: replay them "
        "where possible",
    )
    stop_on_collapse: bool = Field(
        True, description="stop when test accuracy falls back to chance and stays there"
    )
    plant: float = Field(
        0.0,
        ge=0,
        le=0.1,
        description="share of labels corrupted during training to measure the verdicts",
    )
    log: list[str] = Field(
        [], description="where else to log the metrics of each epoch: tensorboard"
    )

    @field_validator("log", mode="before")
    @classmethod
    def _listed(cls, names: Any) -> Any:
        return split_names(names)

    def flat(self) -> dict[str, Any]:
        """Every value by its whole key, as ``optimizer.lr``."""

        def pairs(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
            for key, value in values.items():
                if isinstance(value, dict):
                    yield from pairs(value, f"{prefix}{key}.")
                else:
                    yield f"{prefix}{key}", value

        return dict(pairs(self.model_dump(mode="json"), ""))

    def identity(self) -> dict[str, Any]:
        """What makes a run this run and no other, by key."""
        return {key: value for key, value in self.flat().items() if key not in CHANGEABLE}

    def without_weights(self) -> Self:
        """The same, its networks beginning untrained."""
        model = self.model.model_copy(update={"weights": None, "pretrained": False})
        return self.model_copy(update={"model": model})

    def to_yaml(self) -> str:
        """The resolved configuration as it is kept in the run folder."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
