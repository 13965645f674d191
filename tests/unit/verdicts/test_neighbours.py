"""The vote of the nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from drawn_digits import CLASSES
from josrc.verdicts import neighbours
from josrc.verdicts.neighbours import count_voters, nearest_neighbours, vote


def test_no_prediction_depends_on_the_label_of_its_own_image(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, given, _ = digits
    neighbours = nearest_neighbours(features, count_voters(len(given), CLASSES))
    assert not (neighbours.index == np.arange(len(given))[:, None]).any()
    before = vote(neighbours, given, CLASSES)
    other = given.copy()
    other[7] = (other[7] + 1) % CLASSES
    assert np.array_equal(vote(neighbours, other, CLASSES)[7], before[7])
    assert before.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_an_index_finds_nearly_the_same_neighbours(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, _, _ = digits
    exact = nearest_neighbours(features, 10, exact=True)
    fast = nearest_neighbours(features, 10, exact=False)
    shared = [
        len(set(one) & set(other)) / 10
        for one, other in zip(exact.index.tolist(), fast.index.tolist(), strict=True)
    ]
    assert np.mean(shared) > 0.95
    # By hand: the nearest one has the largest cosine of all.
    vectors = features - features.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = vectors[3] @ vectors.T
    cosine[3] = -2
    assert exact.index[3, 0] == cosine.argmax()
    assert exact.similarity[3, 0] == pytest.approx(cosine.max(), abs=1e-5)


def test_neighbours_are_found_in_the_cells_of_images_like_it(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    features, given, _ = digits
    exact = nearest_neighbours(features, 10)
    monkeypatch.setattr(neighbours, "CELL_SIZE", 60)
    monkeypatch.setattr(neighbours, "PROBED_CELLS", 8)  # of 29 cells
    found = nearest_neighbours(features, 10, exact=False)
    shared = [
        len(set(one) & set(other)) / 10
        for one, other in zip(exact.index.tolist(), found.index.tolist(), strict=True)
    ]
    assert 0.9 < np.mean(shared) < 1  # it does not look at all of them
    assert (np.diff(found.similarity, axis=1) <= 0).all()
    assert not (found.index == np.arange(len(given))[:, None]).any()
    assert all(len(set(row)) == 10 for row in found.index.tolist())
    vectors = neighbours.directions(features)
    near = (vectors[5] * vectors[found.index[5]]).sum(axis=1)
    assert found.similarity[5] == pytest.approx(near, abs=1e-5)


def test_cells_that_hold_next_to_nothing_are_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = np.zeros((60, 3), dtype=np.float32)
    apart[:, 0], apart[0] = 1, (-5, 1, 0)  # one image like no other, in a cell of its own
    apart += np.random.default_rng(0).normal(0, 0.01, apart.shape)
    monkeypatch.setattr(neighbours, "CELL_SIZE", 20)
    monkeypatch.setattr(neighbours, "PROBED_CELLS", 1)
    found = nearest_neighbours(apart, 5, exact=False)
    assert (found.index >= 0).all()
    assert np.isfinite(found.similarity).all()
    assert 0 not in found.index[0]
