"""The plan of a sweep: what its YAML file may say, and the trials that follow from it.

The trials are a list that is known before the first one begins, each with a name that follows from
its settings. So a sweep that was killed finds its runs again, and a longer plan keeps the old ones.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from josrc._console import clipped, printable
from josrc._reading import regular
from josrc.config import DataKind, RunConfig, Section
from josrc.data.readers.manifest import check_manifest
from josrc.data.registry import full_name, kind_of
from josrc.errors import UserError
from josrc.runs.resolve import Values, ask, merge, nested, parse_yaml, validate

Metric = Literal["agreement", "estimated_precision"]
METRICS: dict[str, str] = {
    "agreement": "share of held-out given labels that the network predicts, in percent",
    "estimated_precision": "share of accused labels that are wrong, as planted errors tell",
}
# More trials than this are a typing error; so are more epochs, and more cores of a machine.
MAX_TRIALS, MAX_EPOCHS, MAX_CORES = 10_000, 10**6, 10_000


class Range(Section):
    """An interval that values are drawn from."""

    low: float
    high: float
    log: bool = Field(
        False, description="logarithmic: as likely between 0.001 and 0.01 as up to 0.1"
    )
    whole: bool = Field(False, description="whole numbers only")

    @model_validator(mode="after")
    def _is_an_interval(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"A range needs low < high, not {self.low:g} and {self.high:g}.")
        if self.log and self.low <= 0:
            raise ValueError(f"A range with log: true needs low > 0, not {self.low:g}.")
        if not math.isfinite(self.high - self.low):
            raise ValueError(f"A range from {self.low:g} to {self.high:g} is too wide.")
        if self.whole and math.ceil(self.low) > math.floor(self.high):
            raise ValueError(f"No whole number lies between {self.low:g} and {self.high:g}.")
        return self

    @property
    def ends(self) -> tuple[float | int, float | int]:
        """The least and the largest value that can be drawn."""
        return (math.ceil(self.low), math.floor(self.high)) if self.whole else (self.low, self.high)

    def draw(self, generator: np.random.Generator) -> float | int:
        """A value, of six digits at most: it stands in tables and in configurations."""
        ends = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        drawn = float(generator.uniform(*ends))
        value = math.exp(drawn) if self.log else drawn
        low, high = self.ends
        return min(max(round(value) if self.whole else float(f"{value:.6g}"), low), high)


class Scheduler(Section):
    """ASHA: runs that are behind at a rung are stopped (Li et al., MLSys 2020)."""

    name: Literal["asha"] = "asha"
    grace: int = Field(
        1, ge=1, le=MAX_EPOCHS, description="epochs that every run gets: the first rung"
    )
    reduction: int = Field(
        3, ge=2, le=MAX_EPOCHS, description="one run in this many goes on from each rung"
    )


class SweepPlan(Section):
    """What PLAN.yaml may say."""

    data: str = Field(max_length=4096, description="name or path, as train takes it")
    fixed: dict[str, Any] = Field({}, description="settings of all runs")
    grid: dict[str, list[Any]] = Field({}, description="every combination of these values")
    choices: dict[str, list[Any]] = Field({}, description="values to draw from")
    ranges: dict[str, Range] = Field({}, description="intervals to draw from")
    samples: int = Field(
        1, ge=1, le=MAX_TRIALS, description="draws; each is run at every point of the grid"
    )
    draw_seed: int = Field(0, ge=0, le=2**63, description="of the draws")
    metric: Metric | None = None
    scheduler: Scheduler | None = None
    cpus: int = Field(1, ge=1, le=MAX_CORES, description="cores per run")
    gpus: float = Field(0, ge=0, le=MAX_CORES, description="GPUs per run; 0.5: two runs share one")

    @field_validator("metric", mode="before")
    @classmethod
    def _not_by_the_test(cls, metric: Any) -> Any:
        if metric is None or (isinstance(metric, str) and metric in METRICS):
            return metric
        metric = printable(clipped(str(metric)))
        if any(part in metric for part in ("accuracy", "test", "last10", "best", "final")):
            raise ValueError(
                f"metric: {metric} is refused. Settings chosen by test images look better on "
                "them than on any others, so their test accuracy says nothing. Choose by "
                "agreement (held-out given labels) or estimated_precision (planted errors)."
            )
        raise ValueError(f"metric: {metric} is not valid. It is {' or '.join(METRICS)}.")

    @field_validator("scheduler", mode="before")
    @classmethod
    def _by_its_name(cls, scheduler: Any) -> Any:
        return {"name": scheduler} if isinstance(scheduler, str) else scheduler

    @field_validator("grid", "choices")
    @classmethod
    def _has_values(cls, values: dict[str, list[Any]], info: ValidationInfo) -> Any:
        for key, several in values.items():
            if not several:
                raise ValueError(f"{info.field_name}: {key} has no values.")
        return values

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        sections = {name: getattr(self, name) for name in ("fixed", "grid", "choices", "ranges")}
        for (one, keys), (other, others) in itertools.combinations(sections.items(), 2):
            for key in sorted(keys.keys() & others.keys()):
                raise ValueError(f"'{key}' is in both {one} and {other}.")
        if self.scheduler is not None and self.metric is None:
            raise ValueError("scheduler: asha needs a metric: agreement or estimated_precision.")
        if self.samples > 1 and not self.choices and not self.ranges:
            raise ValueError(f"samples: {self.samples}, but there are no choices and no ranges.")
        return self

    @property
    def varied(self) -> list[str]:
        """Keys in which the runs differ."""
        return [*self.grid, *self.choices, *self.ranges]


@dataclass(frozen=True)
class Trial:
    """A run of a sweep.

    Attributes:
        name: of its folder; it follows from data and settings.
        data: what it trains on, with a whole path.
        settings: those that the plan gives, by their whole keys.
        varied: those of them in which the runs differ.
        epochs: how long it is.
    """

    name: str
    data: str
    settings: dict[str, Any]
    varied: dict[str, Any]
    epochs: int

    @property
    def layers(self) -> list[Values]:
        """The settings as nested values."""
        return [nested(key, value) for key, value in self.settings.items()]

    @property
    def title(self) -> str:
        """``optimizer.lr=0.003 seed=1``."""
        return " ".join(f"{key}={value}" for key, value in self.varied.items()) or self.name


def read_plan(path: Path) -> SweepPlan:
    """The plan in a file."""
    if not path.exists():
        raise UserError(f"The plan {path} does not exist.")
    values = parse_yaml(regular(path).read_bytes(), str(path))
    try:
        return validate(SweepPlan, {**values, "fixed": _flat(values.get("fixed") or {})})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _flat(values: Any, prefix: str = "") -> Any:
    """Nested settings by their whole keys; what is not a mapping is left to the checks."""
    if not isinstance(values, Mapping):
        return values
    found: Values = {}
    for key, value in values.items():
        inner = isinstance(value, Mapping)
        found |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found


def trials_of(plan: SweepPlan) -> list[Trial]:
    """The runs of a plan, in the order in which they begin; a mistake in any is reported here."""
    count = math.prod(map(len, plan.grid.values())) * plan.samples
    if count > MAX_TRIALS:
        raise UserError(f"The plan has {count:,} runs, more than {MAX_TRIALS:,}.")
    combined = list(itertools.product(*plan.grid.values()))
    kind = kind_of(plan.data)
    data = full_name(plan.data, kind)
    if kind is DataKind.MANIFEST:
        check_manifest(Path(data))
    trials: dict[str, Trial] = {}
    for sample in range(plan.samples):
        drawn = _draw_values(plan, sample)
        for values in combined:
            varied = dict(zip(plan.grid, values, strict=True)) | drawn
            settings = plan.fixed | varied
            config = _config_of(data, kind, settings)
            _check_metric(plan.metric, config)
            name = _name(data, settings)
            trials.setdefault(name, Trial(name, data, settings, varied, config.epochs))
    by_method = {trial.settings.get("method.name"): trial for trial in trials.values()}
    _check_drawable(plan, kind, list(by_method.values()))
    return list(trials.values())


def _config_of(data: str, kind: DataKind, settings: Values) -> RunConfig:
    """The configuration that settings make, if they make one."""
    layer: Values = {}
    for key, value in settings.items():
        layer = merge(layer, nested(key, value))
    return ask(data, kind, None, [layer]).config


def _check_drawable(plan: SweepPlan, kind: DataKind, trials: Sequence[Trial]) -> None:
    """Raise an error if what may be drawn is refused, also where no trial has drawn it.

    Args:
        plan: the plan.
        kind: of its data.
        trials: one of each method; a value may be right for some methods alone.
    """
    ends = {key: list(interval.ends) for key, interval in plan.ranges.items()}
    for key, values in (plan.choices | ends).items():
        for value in values:
            refused: list[UserError] = []
            for trial in trials:
                try:
                    _config_of(trial.data, kind, trial.settings | {key: value})
                except UserError as error:
                    refused.append(error)
            if len(refused) == len(trials):
                raise refused[0]


def _draw_values(plan: SweepPlan, sample: int) -> Values:
    """The values of one draw, which stay what they are when there are more samples."""
    found: Values = {}
    for key in sorted([*plan.choices, *plan.ranges]):
        # Of the key too: a key more in the plan leaves the draws of the others alone.
        words = list(hashlib.sha256(key.encode()).digest()[:8])
        generator = np.random.default_rng([plan.draw_seed, sample, *words])
        if key in plan.choices:
            several = plan.choices[key]
            found[key] = several[int(generator.integers(len(several)))]
        else:
            found[key] = plan.ranges[key].draw(generator)
    return {key: found[key] for key in (*plan.choices, *plan.ranges)}


def _name(data: str, settings: Values) -> str:
    """The same for the same run, in whatever order its settings are written."""
    text = json.dumps([data, settings], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _check_metric(metric: Metric | None, config: RunConfig) -> None:
    """Raise an error where there will be nothing to choose by."""
    named = config.data.kind.is_named
    if metric == "agreement" and config.data.val == 0 and config.data.name != "clothing1m":
        how = (
            f"{config.data.name} has none. Choose by estimated_precision, with plant: 0.05 in fixed"
            if named
            else "add data.val: 0.1 to fixed"
        )
        raise UserError(f"metric: agreement needs held-out images: {how}.")
    if metric == "estimated_precision" and named and config.plant == 0:
        raise UserError(
            "metric: estimated_precision needs planted errors: add plant: 0.05 to fixed."
        )
