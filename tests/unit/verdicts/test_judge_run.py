"""What is said about the verdicts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from josrc.verdicts.judge_run import errors_words, how_sure, unlearned_warning, verdict_line
from josrc.verdicts.neighbours import count_voters, nearest_neighbours
from josrc.verdicts.predictions import judge_predictions, predictions_of

Made = dict[str, Any]


NAMES = ["cat", "dog", "owl", "bee"]


def class_entry(name: str, samples: int, flagged: int) -> Made:
    """What a summary says of a class, so many of whose labels look wrong."""
    clean = samples - flagged
    return {"class": name, "samples": samples, "clean": clean, "noise_rate": flagged / samples}


@pytest.mark.parametrize(
    ("flagged", "samples", "told"),
    [
        (
            [77, 18, 18, 18],
            100,
            "77 % of the images labelled 'cat' look wrong, but only 18 % of all others.",
        ),
        (
            [100, 0, 0, 0],
            100,
            "100 % of the images labelled 'cat' look wrong, but only 0 % of all others.",
        ),
        (
            [60, 10, 77, 20],
            100,
            "Most images labelled 'owl' (77 %) and 'cat' (60 %) look wrong, but only 15",
        ),
        # Each of three would hide the other two, taken one by one.
        (
            [80, 90, 85, 5],
            100,
            "Most images labelled 'dog' (90 %), 'owl' (85 %) and 'cat' (80 %) look wrong, but",
        ),
        # Owls are not twice as bad as dogs and bees, so they count with them.
        (
            [99, 30, 55, 40],
            100,
            "99 % of the images labelled 'cat' look wrong, but only 42 % of all others.",
        ),
        ([62, 60, 64, 62], 100, None),  # all are as noisy
        ([77, 40, 40, 40], 100, None),  # less than twice the others
        ([50, 5, 5, 5], 100, None),  # half of its labels still look right
        ([9, 0, 0, 0], 9, None),  # too few to tell
        ([0, 0, 0, 0], 100, None),
    ],
)
def test_classes_stand_out_by_their_share_of_wrong_labels(
    flagged: list[int], samples: int, told: str | None
) -> None:
    classes = [class_entry(name, samples, n) for name, n in zip(NAMES, flagged, strict=True)]
    said = unlearned_warning({"samples": 4 * samples, "classes": classes})
    assert (said is not None) == (told is not None)
    assert (said or "").startswith(told or "")


@pytest.mark.parametrize(("count", "named", "more"), [(10, 10, 0), (12, 10, 2)])
def test_of_very_many_classes_that_stand_out_the_worst_are_named(
    count: int, named: int, more: int
) -> None:
    classes = [class_entry("good", 1000, 50)]
    classes += [class_entry(f"c{number}", 100, 80 + number) for number in range(count)]
    said = unlearned_warning({"samples": 1000 + 100 * count, "classes": classes})
    assert said is not None
    assert [word for word in said.split("'") if word.startswith("c")] == [
        f"c{number}" for number in range(count - 1, count - 1 - named, -1)
    ]
    assert (f" and {more} more look wrong" in said) == bool(more)
    assert ("all classes, see noise_rate in audit/summary.json." in said) == bool(more)


def test_verdicts_of_few_epochs_come_with_a_warning() -> None:
    counts = {"clean": 3, "mislabelled": 2, "out_of_distribution": 1}
    for visits, told in ((1, "seen once."), (9, "seen 9 times."), (10, None)):
        said = verdict_line({"counts": counts, "noise_rate": 0.5, "visits": visits}, Path("audit"))
        assert said.startswith("Verdicts: 3 clean, 2 mislabelled, 1 out of distribution: audit")
        assert said.endswith(told or "verdicts.csv")


def test_it_is_said_where_errors_were_planted_in_vain() -> None:
    counts = {"clean": 3, "mislabelled": 2, "out_of_distribution": 1}
    summary = {"counts": counts, "noise_rate": 0.5, "visits": 40, "planted": None}
    assert "planted" not in verdict_line(summary, Path("audit"))
    said = verdict_line(summary | {"planted_unlike": True}, Path("audit"))
    assert "Errors were planted, but they can't be used here" in said


def test_a_rare_class_hides_no_other_and_a_single_one_does_not_stand_out() -> None:
    rare, bad = class_entry("owl", 2, 2), class_entry("cat", 100, 90)
    good = class_entry("dog", 98, 8)
    # Of the others 8 and 2 of 100.
    said = unlearned_warning({"samples": 200, "classes": [rare, bad, good]})
    assert said is not None
    assert said.startswith(
        "90 % of the images labelled 'cat' look wrong, but only 10 % of all others."
    )
    assert unlearned_warning({"samples": 100, "classes": [bad]}) is None
    assert unlearned_warning({"samples": 102, "classes": [bad, rare]}) is None, "too few others"
    assert unlearned_warning({"samples": 0, "classes": []}) is None


@pytest.mark.parametrize(("share", "seed"), [(0.02, 0), (0.05, 1), (0.05, 2), (0.1, 1), (0.3, 2)])
def test_the_interval_holds_how_many_of_the_accused_are_wrong(share: float, seed: int) -> None:
    found = load_digits()
    points, true = found.data.astype(np.float32), found.target.astype(np.int64)
    generator = np.random.default_rng(seed)
    other = (true + generator.integers(1, 10, len(true))) % 10
    given = np.where(generator.random(len(true)) < share, other, true)
    near = nearest_neighbours(points, count_voters(len(given), 10))
    judged = judge_predictions(predictions_of(points, near, given, 10), given)
    low, middle, high = (
        judged.measured[f"estimated_precision{end}"] for end in ("_low", "", "_high")
    )
    wrong = (given != true)[judged.verdicts.group != 0].mean()
    assert low <= wrong <= high
    assert 0 < low < middle < high <= 1
    assert high - low < 0.25


def summary(**more: Any) -> dict[str, Any]:
    """Of 1,000 labels of which 100 are accused, with errors of both sorts."""
    found = {"count": 100, "found": 90}
    counts = {"clean": 900, "mislabelled": 100, "out_of_distribution": 0}
    rates = {"noise_rate": 0.11, "noise_rate_low": 0.09, "noise_rate_high": 0.13}
    planted = {"count": 200, "found": 180, "any": found, "look_alike": found}
    return {"samples": 1000, "counts": counts, "planted": planted, **rates, **more}


def test_a_scan_speaks_of_errors_that_it_tried_out_and_a_training_of_planted_ones() -> None:
    assert errors_words(summary(visits=40)) == "200 planted errors"
    assert errors_words(summary(visits=None)) == "200 errors that were tried out"
    for visits, word in ((40, "planted"), (None, "tried out")):
        said = how_sure(summary(visits=visits, planted_unlike=True))
        assert said is not None
        assert f"Errors were {word}, but they can't be used here" in said


def test_both_estimates_come_with_their_intervals() -> None:
    interval = {"estimated_precision_low": 0.8, "estimated_precision_high": 0.93}
    said = how_sure(summary(visits=40, estimated_precision=0.88, **interval))
    assert said is not None
    assert said.startswith(
        "An estimated 11.0 % of the labels are wrong (90 % interval: 9.0 to 13.0), and 88 % "
        "(80 to 93) of the 100 accused ones. Of 200 planted errors, 90 % (84 to 94) of the random "
        "ones and 90 % (84 to 94) of the look-alikes were found."
    )
    earlier = how_sure(summary(visits=40, estimated_precision=0.88))  # knew no such interval
    assert earlier is not None
    assert "and 88 % of the 100 accused ones. Of" in earlier
