"""What the JSON of a run folder holds, as far as josrc relies on it.

A run folder may come from anybody, and any file of it may be damaged. Each is checked when it is
read, and what reads it need not check again. Keys that nobody here knows are left alone.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from josrc.config import SCAN

# The sides of tiles and the classes of networks that josrc can train on lie far below.
MAX_SIDE, MAX_CLASSES = 4096, 100_000

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = float | None
Channels = Annotated[list[float], Field(min_length=1, max_length=4)]


class Schema(BaseModel):
    """Base of all: no text stands for a number, and no number is infinite or none at all."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class PartSummary(Schema):
    """A part of the data that a scan has not judged."""

    part: str
    images: Count
    path: str | None = None


class RunSummary(Schema):
    """``summary.json``."""

    method: str
    data: str
    seconds_total: float
    epochs: Count | None = None
    best_epoch: Count | None = None
    last10_mean: Percent = None
    best: Percent = None
    final: Percent = None
    agreement: Percent = None
    val_chosen: Percent = None
    test_best: Percent = None
    overtaken_by: str = ""
    skipped: Count = 0
    not_judged: list[PartSummary] = []

    @model_validator(mode="before")
    @classmethod
    def _of_a_training(cls, values: Any) -> Any:
        """That of a scan has less."""
        if isinstance(values, dict) and values.get("method") != SCAN:
            needed = {"epochs", "last10_mean", "best_epoch"}
            told_with = {"last10_mean": {"best"}, "val_chosen": {"test_best", "final"}}
            for key, others in told_with.items():
                needed |= others if values.get(key) is not None else set()
            for key in sorted(needed):
                if key not in values or (values[key] is None and key != "last10_mean"):
                    raise ValueError(f"it lacks {key}")
        return values


class VerdictCounts(Schema):
    """How many verdicts there are of each sort."""

    clean: Count
    mislabelled: Count
    out_of_distribution: Count


class ClassSummary(VerdictCounts):
    """What was found out about the samples of a class."""

    name: str = Field(alias="class")
    samples: Count
    noise_rate: Share


class PlantedCounts(Schema):
    """Planted errors, and how many of them were found."""

    count: Count
    found: Count


class PlantedSummary(PlantedCounts):
    """The same of those of each sort."""

    any: PlantedCounts
    look_alike: PlantedCounts


class AuditSummary(Schema):
    """``audit/summary.json``."""

    samples: Count
    counts: VerdictCounts
    noise_rate: Share
    noise_rate_low: Share | None = None
    noise_rate_high: Share | None = None
    known_noise_rate: Share | None = None
    known_ood_rate: Share | None = None
    estimated_precision: Share | None = None
    estimated_precision_low: Share | None = None
    estimated_precision_high: Share | None = None
    planted: PlantedSummary | None = None
    planted_unlike: bool = False
    visits: Count | None = None
    judged: str = ""
    judged_by: str = ""
    classes: list[ClassSummary] = Field(max_length=MAX_CLASSES)

    @model_validator(mode="after")
    def _planted_errors_give_rates(self) -> AuditSummary:
        if self.planted is not None and None in (self.noise_rate_low, self.noise_rate_high):
            raise ValueError("it lacks noise_rate_low or noise_rate_high")
        return self


class Epoch(Schema):
    """A row of ``metrics.csv``; what can't be told is not a number."""

    model_config = ConfigDict(allow_inf_nan=True)
    __pydantic_extra__: dict[str, float | None]

    epoch: Count


class CheckpointState(Schema):
    """The metadata of a checkpoint."""

    epoch: Count
    position: Count
    seconds: Annotated[float, Field(ge=0)]
    peak_memory_mib: Annotated[float, Field(ge=0)] = 0.0
    rows: list[Epoch]
    config: dict[str, Any]


class ImageSchema(Schema):
    """What a network sees of images."""

    tile: Annotated[list[Annotated[int, Field(ge=1, le=MAX_SIDE)]], Field(min_length=3)]
    crop: Annotated[int, Field(ge=1, le=MAX_SIDE)] | None
    mean: Channels
    std: Channels

    @model_validator(mode="after")
    def _fits(self) -> ImageSchema:
        if len(self.tile) != 3 or not len(self.mean) == len(self.std) == self.tile[2]:
            raise ValueError("a mean and a deviation belong to each channel of a tile")
        if self.crop is not None and self.crop > min(self.tile[:2]):
            raise ValueError("a crop is not larger than its tile")
        if min(self.std) <= 0:
            raise ValueError("deviations are above 0")
        return self


class WeightsMetadata(Schema):
    """The metadata of a file of weights."""

    classes: Annotated[list[str], Field(min_length=2, max_length=MAX_CLASSES)]
    epoch: Count
    images: ImageSchema
