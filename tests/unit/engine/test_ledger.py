"""The ledger, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from josrc.engine.ledger import Ledger
from josrc.methods.base import StepResult


def visit(
    ledger: Ledger, index: Sequence[int], label: Sequence[int], opinion: Any, **found: Any
) -> None:
    """A step whose only prediction of each sample is its opinion."""
    p = torch.tensor(opinion, dtype=torch.float32)
    given = p[range(len(label)), label]
    result = StepResult(torch.tensor(0.0), -given.log(), p.argmax(1), given, p, **found)
    ledger.record(torch.tensor(index), torch.tensor(label), result)


def of(ledger: Ledger, name: str, sample: int = 0) -> float:
    return float(ledger.fields[name][sample])


def fresh(samples: int = 1) -> Ledger:
    return Ledger(samples, torch.device("cpu"))


def test_a_sample_takes_no_more_than_64_bytes() -> None:
    ledger = fresh(10)
    assert sum(v.element_size() * v.numel() for v in ledger.fields.values()) <= 10 * 64


def test_four_visits_by_hand() -> None:
    ledger = fresh()
    for opinion in ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.8, 0.1], [0.3, 0.2, 0.5]):
        visit(ledger, [0], [0], [opinion])
    assert (of(ledger, "visits"), of(ledger, "changes"), of(ledger, "prediction")) == (4, 2, 2)
    assert of(ledger, "mean_label_probability") == pytest.approx((0.6 + 0.2 + 0.1 + 0.3) / 4)
    assert of(ledger, "long_label_probability") == pytest.approx(0.3)
    assert of(ledger, "long_margin") == pytest.approx((0.3 - 0.3 - 0.7 - 0.2) / 4)
    assert of(ledger, "mean_confidence") == pytest.approx((0.6 + 0.5 + 0.8 + 0.5) / 4)
    assert of(ledger, "mean_label_share") == pytest.approx(1 / 4)
    losses = [-math.log(p) for p in (0.6, 0.2, 0.1, 0.3)]
    assert of(ledger, "mean_loss") == pytest.approx(sum(losses) / 4)
    # Class 1 won twice, and half of the visits is more than class 2 has.
    assert of(ledger, "rival") == 1
    assert of(ledger, "mean_rival_share") == pytest.approx(2 / 4)


def test_what_no_method_has_told_stays_unknown_beside_what_is_known() -> None:
    ledger = fresh(2)
    visit(ledger, [1], [0], [[0.9, 0.1]])
    for name in ("mean_clean_likelihood", "mean_agreement", "mean_second_label_probability"):
        assert ledger.fields[name].tolist() == [-1, -1]
    assert ledger.fields["second_prediction"].tolist() == [-1, -1]
    assert ledger.fields["rival"].tolist() == [-1, -1]
    assert ledger.fields["visits"].tolist() == [0, 1]
    assert ledger.fields["prediction"].tolist() == [-1, 0]
    assert of(ledger, "mean_rival_probability", 1) == 0


def test_what_a_method_tells_is_written_down_for_its_samples() -> None:
    ledger = fresh(3)
    told = {
        "group": torch.tensor([2, 1], dtype=torch.int8),
        "clean_likelihood": torch.tensor([0.25, 0.5]),
        "agreement": torch.tensor([1.0, 0.0]),
        "second_prediction": torch.tensor([1, 0]),
        "second_label_probability": torch.tensor([0.125, 0.75]),
    }
    visit(ledger, [2, 0], [0, 1], [[0.9, 0.1], [0.2, 0.8]], **told)
    assert ledger.fields["group"].tolist() == [1, -1, 2]
    assert ledger.fields["mean_clean_likelihood"].tolist() == [0.5, -1, 0.25]
    assert ledger.fields["mean_agreement"].tolist() == [0, -1, 1]
    assert ledger.fields["second_prediction"].tolist() == [0, -1, 1]
    assert ledger.fields["mean_second_label_probability"].tolist() == [0.75, -1, 0.125]


def test_entropy_goes_from_certain_to_uniform() -> None:
    ledger = fresh(3)
    visit(ledger, [0, 1, 2], [0, 0, 0], [[1, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0]])
    assert ledger.fields["mean_entropy"].tolist() == pytest.approx([0, 1, 0.5])
    assert ledger.fields["long_entropy"].tolist() == pytest.approx([0, 1, 0.5])


def test_running_means_forget_after_ten_visits_and_long_ones_never() -> None:
    ledger = fresh()
    for _ in range(20):
        visit(ledger, [0], [0], [[1.0, 0.0]])
    visit(ledger, [0], [0], [[0.5, 0.5]])
    assert of(ledger, "mean_label_probability") == pytest.approx(0.9 * 1 + 0.1 * 0.5)
    assert of(ledger, "long_label_probability") == pytest.approx(20.5 / 21)


def test_a_rival_that_stops_winning_gives_its_place_to_the_next() -> None:
    ledger = fresh()
    one, two = [[0.0, 0.9, 0.1]], [[0.0, 0.2, 0.8]]
    for _ in range(20):
        visit(ledger, [0], [0], one)
    assert (of(ledger, "rival"), of(ledger, "mean_rival_share")) == (1, pytest.approx(1))
    assert of(ledger, "mean_rival_probability") == pytest.approx(0.9)
    for _ in range(13):  # 0.9 ** 13 = 0.254
        visit(ledger, [0], [0], two)
    assert (of(ledger, "rival"), of(ledger, "mean_rival_share")) == (1, pytest.approx(0.9**13))
    visit(ledger, [0], [0], two)
    assert (of(ledger, "rival"), of(ledger, "mean_rival_share")) == (2, pytest.approx(0.1))
    assert of(ledger, "mean_rival_probability") == pytest.approx(0.8)
    visit(ledger, [0], [0], two)
    assert of(ledger, "mean_rival_share") == pytest.approx(0.19)


def test_the_given_label_is_never_its_own_rival() -> None:
    ledger = fresh()
    for opinion in ([0.1, 0.9], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]):
        visit(ledger, [0], [0], [opinion])
    assert (of(ledger, "rival"), of(ledger, "mean_rival_share")) == (1, pytest.approx(0.2))
    assert of(ledger, "mean_label_share") == pytest.approx(0.8)


def test_counts_end_at_the_largest_number_they_can_hold() -> None:
    ledger = fresh()
    ledger.fields["visits"].fill_(32767)
    ledger.fields["changes"].fill_(32767)
    ledger.fields["prediction"].fill_(1)
    visit(ledger, [0], [0], [[0.9, 0.1]])
    assert (of(ledger, "visits"), of(ledger, "changes")) == (32767, 32767)
