"""Data sets by name."""

from __future__ import annotations

import pytest

from josrc.data.registry import DATASETS, describe_data, open_source
from josrc.errors import UserError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar80n", "Did you mean 'cifar80n-o'"),
        ("digit-o", "Did you mean 'digits-o'"),
        ("xyz", f"Known: {', '.join(DATASETS)}"),
    ],
)
def test_an_unknown_data_set_is_refused_with_a_suggestion(name, message):
    with pytest.raises(UserError, match=f"'{name}'.*{message}"):
        open_source(describe_data(name))


def test_noise_by_superclass_is_refused_where_there_are_none():
    with pytest.raises(UserError, match="no superclasses"):
        open_source(describe_data("digits-o", noise="superclass", rate=0.2))
