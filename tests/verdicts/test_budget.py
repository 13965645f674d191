"""The order of looks on a budget: against its definition, and what is said of it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit

from josrc._io import write_csv
from josrc.data.duplicates import Duplicate
from josrc.verdicts.budget import (
    Candidates,
    LookPlan,
    learn_from_decisions,
    order_looks,
    plan_looks,
    read_candidates,
)
from josrc.verdicts.duplicates import write_duplicates
from josrc.verdicts.table import VERDICT_COLUMNS


def candidates(count: int, seed: int, copies: bool = False) -> Candidates:
    generator = np.random.default_rng(seed)
    label = generator.integers(0, 4, count)
    picture = np.arange(count)
    if copies:
        later = np.arange(count // 2, count)
        picture[later] = generator.integers(0, count // 2, len(later))
    return Candidates(
        expected=generator.random(count),
        score=generator.random(count),
        label=label,
        pair=4 * label + generator.integers(0, 4, count),
        picture=picture,
        alike=picture,
        open=generator.random(count) > 0.2,
    )


def best_by_definition(found: Candidates, weights: tuple[float, float]) -> list[float]:
    """What each look adds to the worth of all before it, all candidates tried at every step."""
    gain: Counter[int] = Counter()
    shown: dict[int, int] = {}
    for row in np.argsort(found.score).tolist():
        if found.open[row]:
            gain[int(found.picture[row])] += float(found.expected[row])
            shown.setdefault(int(found.picture[row]), row)
    mass: Counter[tuple[int, int]] = Counter()
    for row in np.flatnonzero(~found.open).tolist():
        for place, groups in enumerate((found.pair, found.label)):
            mass[place, int(groups[row])] += float(found.expected[row])

    def groups_of(picture: int) -> list[tuple[int, int]]:
        row = shown[picture]
        return [(0, int(found.pair[row])), (1, int(found.label[row]))]

    def worth(picture: int) -> float:
        more = [
            weights[key[0]] * (math.log(1 + mass[key] + gain[picture]) - math.log(1 + mass[key]))
            for key in groups_of(picture)
        ]
        return gain[picture] + sum(more)

    added = []
    while shown:
        picture = max(shown, key=worth)
        added.append(gain[picture])
        for key in groups_of(picture):
            mass[key] += gain[picture]
        del shown[picture]
    return added


@pytest.mark.parametrize("weights", [(0.0, 0.0), (0.1, 0.1), (2.0, 0.5)])
@pytest.mark.parametrize("copies", [False, True])
def test_each_look_adds_the_most_to_those_before_it(
    weights: tuple[float, float], copies: bool
) -> None:
    found = candidates(60, seed=1, copies=copies)
    plan = order_looks(found, None, weights)
    np.testing.assert_allclose(plan.gains, best_by_definition(found, weights), rtol=1e-9)


def test_without_coverage_and_copies_the_likeliest_errors_come_first() -> None:
    found = candidates(200, seed=2)
    plan = order_looks(found, None, (0.0, 0.0))
    there = np.flatnonzero(found.open)
    assert plan.rows.tolist() == there[np.argsort(-found.expected[there])].tolist()


def test_coverage_brings_another_pair_before_more_of_the_same() -> None:
    found = Candidates(
        expected=np.array([0.9, 0.89, 0.88, 0.86]),
        score=np.arange(4.0),
        label=np.array([0, 0, 0, 1]),
        pair=np.array([0, 0, 0, 1]),
        picture=np.arange(4),
        alike=np.arange(4),
        open=np.ones(4, dtype=bool),
    )
    assert order_looks(found).rows.tolist() == [0, 3, 1, 2]


def test_copies_are_one_look_that_is_worth_all_of_them() -> None:
    found = Candidates(
        expected=np.array([0.9, 0.5, 0.6, 0.2]),
        score=np.array([0.0, 2.0, 1.0, 3.0]),
        label=np.zeros(4, dtype=np.int64),
        pair=np.zeros(4, dtype=np.int64),
        picture=np.array([0, 1, 1, 3]),
        alike=np.array([0, 1, 1, 3]),
        open=np.ones(4, dtype=bool),
    )
    plan = order_looks(found)
    assert plan.rows.tolist() == [2, 0, 3]
    assert plan.gains.tolist() == pytest.approx([1.1, 0.9, 0.2])
    assert plan.copies == {2: [1]}
    assert plan.wrong == pytest.approx(2.2)


def test_a_budget_is_the_beginning_of_the_whole_order() -> None:
    found = candidates(300, seed=3, copies=True)
    whole, some = order_looks(found), order_looks(found, 40)
    assert some.rows[:40].tolist() == whole.rows[:40].tolist()
    assert sorted(some.rows.tolist()) == sorted(whole.rows.tolist())
    later = some.gains[40:]
    assert (np.diff(later) <= 0).all()


def test_decisions_move_the_odds_of_all_and_most_those_of_their_class() -> None:
    expected = np.array([0.5, 0.5, 0.5, 0.5])
    label = np.array([0, 0, 1, 0])
    found = learn_from_decisions(expected, label, np.array([0, 1]), np.array([1.0, 1.0]))
    assert found[3] > found[2] > 0.5
    # The likeliest parameters: what both decisions pull is what the normal priors hold against it.
    offset, of_class = logit(found[2]), logit(found[3]) - logit(found[2])
    pull = 2 * (1 - found[3])
    assert (offset, of_class / 0.3**2) == pytest.approx((pull, pull), rel=1e-3)
    as_expected = learn_from_decisions(expected, label, np.array([0, 1]), np.array([1.0, 0.0]))
    assert as_expected.tolist() == pytest.approx(expected.tolist())
    sure = learn_from_decisions(np.array([0.5, 0.0, 1e-6]), label[:3], np.array([0]), np.ones(1))
    assert sure[1] == 0
    assert sure[2] < 1e-5, "a million labels that are certain to be right stay so"


@pytest.mark.parametrize(
    ("offset", "slope", "base"),
    [(0.0, 1.0, -4.0), (1.5, 1.0, -4.0), (-1.2, 1.0, -3.0), (0.0, 0.7, -4.0)],
)
@pytest.mark.parametrize("looks", [100, 300, 500])
def test_the_outlook_after_decisions_is_near_the_truth(
    offset: float, slope: float, base: float, looks: int
) -> None:
    """Verdicts whose log odds are off, looked at from the top by somebody who sees the truth."""
    ratios, missed, missed_before = [], [], []
    for seed in range(6):
        generator = np.random.default_rng(seed)
        odds = generator.normal(base, 2.5, 5000)
        wrong = generator.random(5000) < expit(odds)
        expected, label = expit((odds - offset) / slope), generator.integers(0, 10, 5000)
        seen, rest = np.split(np.argsort(-expected), [looks])
        found = learn_from_decisions(expected, label, seen, wrong[seen].astype(float))
        ratios.append(found[rest].sum() / wrong[rest].sum())
        following = rest[np.argsort(-found[rest])[:100]]
        missed.append(abs(found[following].sum() - wrong[following].sum()))
        missed_before.append(abs(expected[following].sum() - wrong[following].sum()))
    assert 0.5 < np.mean(ratios) < 1.4
    assert np.mean(missed) < 12, "labels that another hundred looks correct"
    if abs(offset) > 1:
        assert np.mean(missed) < 0.75 * np.mean(missed_before)


def test_what_is_left_and_when_looking_no_longer_pays() -> None:
    gains = np.repeat([1.0, 0.5, 0.05], [100, 100, 300])
    plan = LookPlan(np.arange(500), gains, {}, {}, 500, float(gains.sum()))
    assert plan.pays(0) == 200
    assert plan.outlook() == (
        "About 165 wrong labels are expected among the 500 that nobody has decided on. Another "
        "hundred looks are expected to correct about 100; after 200 more, a hundred correct fewer "
        "than 10."
    )
    assert plan.outlook(200) == (
        "About 15 wrong labels are expected among the 300 that nobody has decided on. Another "
        "hundred looks are expected to correct about 5: fewer than 10, so they are hardly worth "
        "it."
    )


def verdicts_of(folder: Path) -> Path:
    """Verdicts on six samples: 3 shows what 0 does, 4 nearly, and training has not seen 5."""
    lines = [
        ("a", "", "cat", "mislabelled", "dog", "0.1", "0", "0.9", "-3", "so"),
        ("b", "", "cat", "mislabelled", "dog", "0.2", "0", "0.8", "-2", "so"),
        ("c", "", "dog", "out_of_distribution", "", "0.3", "0.6", "0.6", "-1", "so"),
        ("d", "", "dog", "clean", "", "0.9", "0", "0.9", "1", "so"),
        ("e", "", "dog", "clean", "", "0.8", "0", "0.8", "0", "so"),
        ("f", "", "cat", "clean", "", "0.5", "0", "0", "2", "so"),
    ]
    write_csv(folder / "verdicts.csv", [VERDICT_COLUMNS, *lines])
    copies = [
        Duplicate(0, "training", row, f"{row}.png", "cat", "", kind, 1.0)
        for row, kind in ((0, "exact"), (3, "exact"), (4, "near"))
    ]
    test = Duplicate(0, "test", 1, "test.png", "cat", "", "exact", 1.0)
    write_duplicates(folder / "duplicates.csv", [*copies, test])
    return folder


def test_candidates_come_from_the_files_of_an_audit(tmp_path: Path) -> None:
    found = read_candidates(verdicts_of(tmp_path), {1: True}, gone=[3])
    assert found.open.tolist() == [True, False, True, False, True, True]
    assert found.picture.tolist() == [0, 1, 2, 0, 4, 5]
    assert found.alike.tolist() == [0, 1, 2, 0, 0, 5]
    assert found.pair[0] == found.pair[1]
    assert len(set(found.pair[2:5].tolist())) == 2
    plain = read_candidates(tmp_path)
    assert plain.expected[:5].tolist() == pytest.approx([0.9, 0.8, 0.7, 0.1, 0.2])
    assert plain.expected[5] == pytest.approx(np.mean([0.9, 0.8, 0.7, 0.1, 0.2]))
    assert found.expected[0] > plain.expected[0]
    assert found.expected[2] > plain.expected[2]


def test_a_plan_leaves_out_what_is_decided_or_gone(tmp_path: Path) -> None:
    plan = plan_looks(verdicts_of(tmp_path), 2, {1: True}, gone=[3])
    assert plan.rows.tolist() == [0, 2, 5, 4], "a near copy is a look of its own"
    assert plan.copies == {}
    assert plan.near == {0: [4], 4: [0]}
    assert plan.open == 4
    everything = plan_looks(tmp_path)
    assert everything.rows[0] == 0, "two labels for a look"
    assert everything.gains[0] == pytest.approx(1.0)
    assert everything.copies == {0: [3]}
    assert 3 not in everything.rows
