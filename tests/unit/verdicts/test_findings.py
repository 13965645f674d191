"""What a ledger says of each sample."""

from __future__ import annotations

import numpy as np
import torch

from josrc.engine.ledger import Ledger
from josrc.verdicts.findings import Findings


def test_a_ledger_of_one_network_and_one_of_two_are_read_alike() -> None:
    ledger = Ledger(3, torch.device("cpu"))
    values = {
        "mean_label_probability": [0.4, 0.4, 0.4],
        "mean_second_label_probability": [-1.0, 0.8, 0.0],
        "long_label_probability": [0.2, 0.2, 0.2],
        "mean_confidence": [0.5, 0.8, 0.5],
        "mean_rival_probability": [0.1, 0.1, 0.5],
        "long_margin": [0.2, 0.1, -0.4],
        "mean_entropy": [0.5, 0.5, 0.5],
        "long_entropy": [0.7, 0.7, 0.7],
    }
    for name, column in values.items():
        ledger.fields[name].copy_(torch.tensor(column))
    findings = Findings.of(ledger.arrays())
    # A tenth of the last epochs, by both networks, and nine tenths of all.
    np.testing.assert_allclose(findings.support, [0.22, 0.24, 0.2], rtol=1e-6)
    # The label's probability less the rival's, and the long margin: their mean by the confidence.
    expected = [(0.3 + 0.2) / 2 / 0.5, (0.5 + 0.1) / 2 / 0.8, (-0.3 - 0.4) / 2 / 0.5]
    np.testing.assert_allclose(findings.lead, expected, rtol=1e-5)
    np.testing.assert_allclose(findings.doubt, 0.1 * 0.5 + 0.9 * 0.7, rtol=1e-6)
