"""Schedules and views that recipes take from the methods' own codes."""

from __future__ import annotations

import math

import pytest

from josrc.runs.start import configure


@pytest.mark.parametrize(
    ("data", "ends"),
    [("cifar100n-c", [54, 80, 100]), ("digits-o", [11, 16, 20]), ("clothing1m", [5, 10])],
)
def test_both_trainings_of_f_correction_have_one_schedule(data: str, ends: list[int]) -> None:
    """A tenth after 80 and after 120 of 150 epochs, and again in the second training."""
    run = configure(data, method="f-correction")
    half = run.epochs // 2
    assert run.method.model_dump()["warm_up"] == half == ends[-1]
    rates = [run.optimizer.at(epoch, run.epochs)[0] for epoch in range(run.epochs)]
    tenths = [round(-math.log10(rate / 0.001)) for rate in rates[:half]]
    assert tenths == [sum(epoch >= end for end in ends[:-1]) for epoch in range(half)]
    assert rates[half:] == rates[:half]


def test_the_rate_of_mlnt_falls_to_a_tenth_after_two_thirds() -> None:
    """As after 80 of the 120 epochs of a port to CIFAR-10."""
    run = configure("cifar80n-o", method="mlnt")
    rates = [run.optimizer.at(epoch, 200)[0] for epoch in range(200)]
    assert rates == [0.001] * 134 + [0.0001] * 66


@pytest.mark.parametrize("recipe", ["resnet18", "resnet50", "released"])
@pytest.mark.parametrize("data", ["clothing1m", "food101n"])
def test_photographs_are_cropped_anywhere_as_the_codes_do(data: str, recipe: str) -> None:
    if (data, recipe) != ("food101n", "resnet18"):
        run = configure(data, method="josrc", recipe=recipe)
        assert (run.views.crop, run.views.pad) == ("whole", 0)


@pytest.mark.parametrize(
    ("data", "epochs", "rate"),
    [
        ("cifar80n-o", 200, 1600),
        ("cifar80n-o", 100, 3200),
        ("digits-o", 40, 1000),
        ("digits-o", 10, 4000),
    ],
)
def test_a_pace_grows_as_a_run_has_fewer_epochs(data: str, epochs: int, rate: float) -> None:
    """1000 of 320 epochs as a default; 1000 of 40 in the recipe of the digits."""
    run = configure(data, method="pencil", epochs=epochs)
    assert run.method.model_dump()["label_rate"] == rate
    said = configure(data, layers=[{"method": {"label_rate": 7}}], method="pencil", epochs=epochs)
    assert said.method.model_dump()["label_rate"] == 7
