"""A chance that rises with a number, as it was counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class RisingChance:
    """How likely something is, by a number that speaks for it.

    Attributes:
        points: some of the numbers, in order.
        chance: at each of them; it never falls.
    """

    points: Numbers
    chance: Numbers

    def at(self, values: Numbers) -> Numbers:
        """At any numbers: between two points on the line between them."""
        found: Numbers = np.interp(values, self.points, self.chance)
        return found
