"""The list of all settings is that of what a run can be given."""

from __future__ import annotations

import pytest
import yaml

from commands import josrc
from josrc.cli._settings import settings_of
from josrc.config import RunConfig
from josrc.methods import get_method, method_names


@pytest.mark.parametrize("method", method_names())
def test_every_key_is_listed_with_its_default_and_a_meaning(method: str) -> None:
    plain = RunConfig.model_validate(
        {"data": {"name": "digits-o", "kind": "builtin"}, "method": get_method(method).Settings()}
    ).flat()
    listed = {setting.key: setting for setting in settings_of(method)}
    assert list(listed) == list(plain)
    for key, setting in listed.items():
        assert setting.meaning, key
        if key not in ("data.name", "data.kind"):  # have no default
            assert yaml.safe_load(setting.default) == plain[key], key


def test_a_meaning_names_the_values_and_the_length_it_belongs_to() -> None:
    listed = {setting.key: setting.meaning for setting in settings_of("dividemix")}
    assert "one of shift, whole, resized" in listed["views.crop"]
    assert "one of noisy, published" in listed["data.protocol"]
    assert "given for a run of 300" in listed["method.warm_up"]
    assert "one of" not in listed["epochs"]


def test_the_command_prints_the_keys_of_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("settings", "pencil") == 0
    output = capsys.readouterr().out
    assert "method.label_rate" in output
    assert "optimizer.lr" in output
    assert josrc("settings", "pensil") == 2
    assert "Did you mean 'pencil'" in capsys.readouterr().err
