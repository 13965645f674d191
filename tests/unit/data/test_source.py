"""What a source says of its samples."""

from __future__ import annotations

import numpy as np
import pytest

from josrc.data.registry import describe_data, open_source


@pytest.mark.parametrize(("noise", "rate"), [("none", 0.0), ("symmetric", 0.5), ("block", 0.4)])
def test_noisy_digits_carry_labels_of_the_task_only(digits_source, noise, rate):
    source = open_source(describe_data("digits-o", noise=noise, rate=rate))
    assert source.given.max() == 7
    np.testing.assert_array_equal(source.true, digits_source.true)
    np.testing.assert_array_equal(source.kind == 2, source.true >= 8)
    np.testing.assert_array_equal(source.kind == 0, source.given == source.true)
    assert (source.kind == 1).any() == (rate > 0)


def test_the_noise_summary_counts_every_sample_once(digits_source):
    open_digits = int((digits_source.true >= 8).sum())
    assert open_source(describe_data("digits-o")).noise_summary() == (
        f"{len(digits_source) - open_digits:,} correct labels, 0 wrong, "
        f"{open_digits} out of distribution"
    )
