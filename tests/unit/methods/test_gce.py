"""GCE against its formula."""

from __future__ import annotations

import pytest
from scipy.special import softmax
from torch import nn

from josrc.methods.gce import GCE, GCESettings
from peers import LABEL, ROWS, WEAK, batch


@pytest.mark.parametrize("q", [0.01, 0.7, 1.0])
def test_gce_is_1_less_a_power_of_the_labels_probability(q: float) -> None:
    loss = GCE(GCESettings(q=q), nn.Identity).step(batch(WEAK), {}).loss
    given = softmax(WEAK, axis=1)[ROWS, LABEL]
    assert loss.item() == pytest.approx(((1 - given**q) / q).mean(), rel=1e-5)
