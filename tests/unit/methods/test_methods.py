"""What every registered method promises."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import josrc
from josrc.errors import UserError
from josrc.methods import get_method, method_names
from josrc.methods.base import Method


def create(key: str) -> Method:
    method = get_method(key)
    settings = method.Settings.model_validate({}).with_noise_rate(noise_rate=0.3)
    return method(settings, lambda: nn.Linear(2, 3))


def test_the_methods_of_the_first_two_tables_are_there() -> None:
    names = method_names()
    table = {"standard", "decoupling", "coteaching", "coteaching-plus", "jocor", "josrc"}
    assert table <= set(names)
    assert names == sorted(names)


@pytest.mark.parametrize(("key", "meant"), [("josrcc", "josrc"), ("standart", "standard")])
def test_a_misspelt_method_is_answered_with_the_closest(key: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"Unknown method '{key}'.*Did you mean '{meant}'"):
        get_method(key)


@pytest.mark.parametrize("key", ["base", "Method", "", "../josrc", "zzzzzz"])
def test_what_is_no_method_is_an_error_that_names_it(key: str) -> None:
    with pytest.raises(UserError, match=f"Unknown method '{key}'"):
        get_method(key)


def test_an_unlike_name_is_answered_with_all_methods() -> None:
    with pytest.raises(UserError, match=r"Known: .*josrc.*standard"):
        get_method("zzzzzz")


@pytest.mark.parametrize("key", method_names())
def test_a_method_introduces_itself_and_its_settings_carry_its_key(key: str) -> None:
    method = get_method(key)
    assert method.title.strip()
    assert method.reference.strip()
    assert create(key).needs.views in (1, 2)
    assert method.Settings.model_validate({}).name == key


@pytest.mark.parametrize("epochs", [1, 2, 3, 200])
@pytest.mark.parametrize("key", method_names())
def test_the_schedule_has_the_same_finite_values_in_every_epoch(key: str, epochs: int) -> None:
    method = create(key)
    plan = [method.schedule(epoch, epochs) for epoch in range(epochs)]
    assert len({tuple(values) for values in plan}) == 1
    assert torch.tensor([list(values.values()) for values in plan]).isfinite().all()


@pytest.mark.parametrize("key", method_names())
def test_what_is_tested_is_the_methods_own(key: str) -> None:
    method = create(key)
    assert method.tested
    own = list(method.modules())
    tested = [*method.tested, *([method.teacher] if method.teacher else [])]
    assert all(any(network is module for module in own) for network in tested)


@pytest.mark.slow
def test_co_teaching_and_jocor_beat_plain_training_on_half_wrong_labels(tmp_path: Path) -> None:
    accuracy = {
        key: josrc.train(
            "digits-o", method=key, noise="symmetric", rate=0.5, out=tmp_path / key
        ).summary["last10_mean"]
        for key in ("standard", "coteaching", "jocor")
    }
    assert accuracy["coteaching"] > accuracy["standard"] + 5
    assert accuracy["jocor"] > accuracy["standard"] + 5
