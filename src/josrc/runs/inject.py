"""Wrong labels on purpose: asked for in one way for named data, in another for own images.

Who knows that a fifth of their labels are wrong looks for an option that says so, and finds
``--rate 0.2``. On data known by name that is the paper's protocol; on images of one's own it would
make right labels wrong. There it is called ``inject``, and nothing else adds noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from josrc.config import DataKind
from josrc.errors import UserError

DRAWN_OPTIONS = ("noise", "rate")


def with_injected(options: Mapping[str, Any], kind: DataKind) -> dict[str, Any]:
    """Options with ``inject`` as the noise and the rate that it stands for.

    Args:
        options: of a training or a scan; None where nothing is said.
        kind: what sort of data they are for.
    """
    found = dict(options)
    injected = found.pop("inject", None)
    drawn = {name: found[name] for name in DRAWN_OPTIONS if found.get(name) is not None}
    if not kind.is_named and drawn:
        raise UserError(_meant(drawn))
    if injected is None:
        return found
    noise, rate = _parsed(injected)
    if kind.is_named:
        raise UserError(
            f"--inject is for your own images. For named data use --noise {noise} --rate {rate:g}."
        )
    if found.get("noise_file") is not None:
        raise UserError("--noise-file already contains the labels: pass it or --inject, not both.")
    return found | {"noise": noise, "rate": rate}


def _parsed(injected: object) -> tuple[str, float]:
    """``symmetric:0.2`` as kind and rate."""
    noise, colon, text = str(injected).partition(":")
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not (noise and colon and 0 <= rate <= 1):
        raise UserError(
            f"--inject {injected} is not of the form KIND:RATE. To corrupt a fifth of the "
            "labels: --inject symmetric:0.2."
        )
    return noise.strip().lower(), rate


def _meant(drawn: Mapping[str, Any]) -> str:
    """What somebody may mean who says ``--rate 0.2`` of images of their own."""
    said = " ".join(f"--{name} {value}" for name, value in drawn.items())
    rate = drawn.get("rate", 0.2)
    noise = drawn.get("noise", "symmetric")
    return (
        f"{said} would corrupt labels on purpose, but these are your own images. If you know "
        f"how many labels are wrong, use that for the verdicts: "
        f"josrc audit RUN --noise-rate {rate} (josrc scan has that option, too). To corrupt "
        f"labels anyway, as a test: --inject {noise}:{rate}."
    )
