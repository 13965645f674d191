"""Which network learns from a person's own images, and how much of it: each with its reason."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from josrc import distributed
from josrc.config import ModelConfig
from josrc.data.decode import UnreadableImageError
from josrc.data.source import Source
from josrc.engine.device import choose_device
from josrc.errors import UserError
from josrc.models.factory import expected_images
from josrc.models.pretrained import OWN_MODELS, PACKAGED_MODEL, is_pretrained_at_hand

SIZED_IMAGES = 32
# Shorter side of the smallest photographs: those of CIFAR. At 32 pixels a head over ImageNet
# features beats cnn7 by far (docs/use/head.md); digits and symbols are smaller, and grey.
MIN_PHOTOGRAPH_SIDE = 32
# Blown up further, a small picture shows nothing more and costs as much as a large one.
MAX_ENLARGEMENT = 4
# A whole network that is fine-tuned on fewer images learns them, and their errors, by heart.
MIN_FINE_TUNING_IMAGES = 1000


@dataclass(frozen=True)
class Network:
    """What is trained, and why.

    Attributes:
        name: of the network.
        pretrained: whether it starts from published weights.
        train: ``head`` or ``all``.
        learned: whether it starts from weights that have learned something.
        image_size: what it sees of the images, in pixels.
        reasons: sentences for what was chosen, and not asked for.
    """

    name: str
    pretrained: bool
    train: str
    learned: bool
    image_size: int
    reasons: tuple[str, ...]

    @property
    def own(self) -> bool:
        """Whether it is one of ours, small enough to be trained whole on any machine."""
        return self.name in OWN_MODELS


def choose_network(
    source: Source, asked: ModelConfig, said: Mapping[str, Any], device: str
) -> Network:
    """The network for some images, with what the user did not say filled in.

    Args:
        source: the images.
        asked: the settings, defaults where the user said nothing.
        said: those that the user gave.
        device: the run's.
    """
    reasons = []
    name, pretrained = asked.name, asked.pretrained
    if _may_choose(said) and (wanted := _wants_pretrained(source, asked, said)):
        name, pretrained = PACKAGED_MODEL, True
        reasons.append(
            f"Network: {name} with ImageNet weights, as {wanted}. --model cnn7 starts untrained."
        )
    learned = pretrained or asked.weights is not None
    train: str | None = said.get("train")
    if train is None:
        train, why = _how_much(len(source), name, learned, device)
        reasons += [why] if why else []
    elif train == "head":
        _check_head(name, learned)
    size = asked.image_size or image_size_for(source, name, enlarged="name" in said)
    return Network(name, pretrained, train, learned, size, tuple(reasons))


def _may_choose(said: Mapping[str, Any]) -> bool:
    """Whether the user left the network open."""
    named = "name" in said or said.get("weights") is not None
    return not named and said.get("pretrained") is not False


def _wants_pretrained(source: Source, asked: ModelConfig, said: Mapping[str, Any]) -> str | None:
    """Why these images get a network that has learned from photographs; none if they don't."""
    if said.get("train") == "head":
        return "--train head needs pretrained features"
    if asked.pretrained:
        return "--pretrained was given"
    side = typical_side(source)
    small = asked.image_size is not None and asked.image_size < 2 * MIN_PHOTOGRAPH_SIDE
    coloured = not source.images.in_memory or source.images.shape[-1] == 3
    if (
        side < MIN_PHOTOGRAPH_SIDE
        or small
        or not coloured
        or not is_pretrained_at_hand(PACKAGED_MODEL)
    ):
        return None
    photographs = f"the images are large enough to be photographs ({side} pixels)"
    return f"{photographs} and the weights are installed"


def _how_much(samples: int, name: str, learned: bool, device: str) -> tuple[str, str | None]:
    """``head`` or ``all``, and why."""
    if not learned or name in OWN_MODELS or distributed.world() > 1:
        return "all", None
    if choose_device(device).type == "cpu":
        return "head", (
            "Training only the head, on features that are computed once: a CPU takes hours for "
            "the whole network. --train all trains it all."
        )
    if samples < MIN_FINE_TUNING_IMAGES:
        return "head", (
            f"Training only the head: {samples:,} images are few for a whole network. "
            "--train all trains it all."
        )
    return "all", (
        f"Training the whole network: there is a GPU, and there are {samples:,} images. --train "
        f"head takes "
        "less time."
    )


def _check_head(name: str, learned: bool) -> None:
    if not learned:
        raise UserError(
            f"--train head keeps the features of {name} unchanged, but these are untrained. Add "
            "--pretrained or --weights FILE, or leave out --model."
        )
    if distributed.world() > 1:
        raise UserError(
            "--train head runs in one process: the features are computed only once, and a head "
            "is small. Start a single process, or use --train all."
        )


def image_size_for(source: Source, model: str, enlarged: bool = True) -> int:
    """What the network expects; cnn7 gets small images as small as they are.

    Args:
        source: the images.
        model: the network.
        enlarged: whether small images are blown up to all that it expects; otherwise fourfold.
    """
    size = expected_images(model)[0]
    side = typical_side(source)
    if model not in OWN_MODELS and not enlarged:
        return min(size, max(4 * MIN_PHOTOGRAPH_SIDE, 32 * round(MAX_ENLARGEMENT * side / 32)))
    if source.images.in_memory and model == "cnn7":
        return max(8, side) if side <= 32 else size
    return max(8, 8 * (side // 8)) if model == "cnn7" and side < 28 else size


def typical_side(source: Source) -> int:
    """Median of the shorter sides of some images, in pixels; only their headers are read."""
    sides = []
    for place in range(0, len(source), max(1, len(source) // SIZED_IMAGES)):
        try:
            sides.append(min(source.images.stored_size(place)))
        except UnreadableImageError:
            continue
    return int(statistics.median(sides)) if sides else 256
