"""The digits that josrc brings along."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from josrc.data.datasets import digits
from josrc.data.registry import describe_data


def test_digits_have_eight_classes_and_two_open_ones(digits_source):
    assert digits_source.closed == 8
    assert digits_source.closed_names == list("01234567")
    assert set(digits_source.test_labels) == set(range(8))
    assert set(digits_source.true) == set(range(10))


def test_all_open_digits_are_training_samples(digits_source):
    everything = load_digits().target
    for digit in (8, 9):
        assert (digits_source.true == digit).sum() == (everything == digit).sum()


def test_digits_are_grey_bytes_of_the_full_range(digits_source):
    for images in (digits_source.images.pixels, digits_source.test_images.pixels):
        assert images.dtype == np.uint8
        assert images.shape[1:] == (8, 8, 1)
        assert (images.min(), images.max()) == (0, 255)
    assert len(digits_source.images) == len(digits_source.true) == len(digits_source)
    assert len(digits_source.test_images) == len(digits_source.test_labels)


def rows(images: np.ndarray, labels: np.ndarray) -> list[bytes]:
    return [image.tobytes() + bytes([label]) for image, label in zip(images, labels, strict=True)]


def test_training_and_test_digits_together_are_the_data_set(digits_source):
    whole = load_digits()
    pixels = np.round(whole.images / 16 * 255).astype(np.uint8)
    train = rows(digits_source.images.pixels, digits_source.true)
    test = rows(digits_source.test_images.pixels, digits_source.test_labels)
    assert sorted(train + test) == sorted(rows(pixels, whole.target))
    assert not set(train) & set(test)


def test_every_class_gives_a_quarter_of_its_digits_to_the_test_set(digits_source):
    everything = np.bincount(load_digits().target)[:8]
    tested = np.bincount(digits_source.test_labels)
    assert np.abs(tested - everything / 4).max() <= 1


def test_the_split_is_the_same_every_time_whatever_the_global_generator_holds(digits_source):
    np.random.seed(5)
    again = digits.open_source(describe_data("digits-o"))
    np.testing.assert_array_equal(again.images.pixels, digits_source.images.pixels)
    np.testing.assert_array_equal(again.test_images.pixels, digits_source.test_images.pixels)
    np.testing.assert_array_equal(again.true, digits_source.true)


def test_the_statistics_of_digits_standardise_them(digits_source):
    scaled = (digits_source.images.pixels / 255 - digits_source.mean) / digits_source.std
    assert scaled.mean() == pytest.approx(0, abs=0.01)
    assert scaled.std() == pytest.approx(1, abs=0.01)
