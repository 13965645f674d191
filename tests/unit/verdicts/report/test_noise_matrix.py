"""The noise matrix of the report against one that was drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from josrc.engine.checkpoint import save_tensors
from josrc.verdicts.report.noise_matrix import (
    describe_noise_matrix,
    read_noise_matrix,
    true_matrix,
)

NAMES = ["cat", "dog", "fox"]
MATRIX = np.array([[0.7, 0.3, 0.0], [0.0, 0.995, 0.005], [0.1, 0.1, 0.8]])


def test_what_is_given_most_often_comes_first_with_the_truth_beside_it() -> None:
    given = np.array([0, 0, 1, 1, 1, 0])
    true = np.array([0, 0, 0, 0, 1, 3])  # the last is foreign, and there is no fox
    found = describe_noise_matrix(MATRIX, NAMES, true_matrix(given, true, 3))
    assert found["right"] == "83.2"
    assert found["truly_right"] == "75.0"
    told = [(line["class"], line["label"], line["share"], line["truth"]) for line in found["lines"]]
    assert told == [
        ("cat", "dog", "30.0", "50.0"),
        ("fox", "cat", "10.0", None),
        ("fox", "dog", "10.0", None),
    ]


def test_without_truth_the_estimate_stands_alone() -> None:
    found = describe_noise_matrix(np.eye(3), NAMES)
    assert found == {"right": "100.0", "truly_right": None, "lines": []}


def test_it_is_read_from_the_checkpoint_of_any_method_that_has_one(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    assert read_noise_matrix(path) is None
    save_tensors(path, {"method.transitions": torch.tensor(MATRIX)}, {})
    found = read_noise_matrix(path)
    assert found == pytest.approx(MATRIX)
    save_tensors(path, {"loss_sum": torch.zeros(1)}, {})
    assert read_noise_matrix(path) is None
