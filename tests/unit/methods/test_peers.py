"""What GCE, ELR, SOP and SED have in common."""

from __future__ import annotations

import numpy as np
import pytest

from josrc.runs.start import configure


def test_peers_bring_their_rates_along_at_every_length() -> None:
    def rates(method: str, epochs: int) -> list[float]:
        config = configure("cifar100n-c", noise="symmetric", rate=0.2, method=method, epochs=epochs)
        return [config.optimizer.at(epoch, epochs)[0] for epoch in range(epochs)]

    sed = rates("sed", 100)
    assert sed[:20] == [0.05] * 20
    assert sed[20] == pytest.approx(0.01)
    cosine = 0.0005 + 0.0095 * 0.5 * (1 + np.cos(np.arange(80) / 80 * np.pi))
    np.testing.assert_allclose(sed[20:], cosine)
    assert rates("gce", 3) == [0.01, 0.001, 0.0001]
    assert rates("elr", 150)[::40] == [0.02, 0.02, 0.0002, 0.000002]
    posterior = rates("posterior", 10)
    assert posterior[:4] == [0.05] * 4
    assert posterior[-1] < 0.005
