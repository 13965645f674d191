"""Which pictures a report shows."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from josrc.runs.start import report
from josrc.verdicts.report.gallery import Scores, choose
from report_pages import Page


def scores(*rows: tuple[int, int, float, float]) -> Scores:
    """From given label, verdict, confidence and score."""
    given, verdict, confidence, score = np.array(rows).T
    none = np.full(len(rows), -1)
    return Scores(given.astype(int), verdict.astype(int), none, confidence, score)


def test_the_most_suspicious_come_first_and_clean_ones_only_in_doubt() -> None:
    found = scores(
        (0, 1, 0.90, -4.000001),
        (0, 1, 0.80, -4.000002),  # whatever its confidence
        (0, 2, 0.90, -6.0),
        (0, 0, 0.70, -9.0),  # not below 0.7
        (0, 0, 0.69, -9.0),
        (0, 2, 0.40, -5.0),
        (0, 0, 0.00, -9.0),  # not seen yet
    )
    galleries = {name: list(found) for name, found in found.galleries().items()}
    assert galleries == {
        "mislabelled": [1, 0],
        "out_of_distribution": [2, 5],
        "borderline": [5, 4],
    }
    assert choose(found, 2000) == [1, 0, 2, 5, 4]


def test_the_report_follows_the_scores_of_the_file(audited_run: Callable[[], Path]) -> None:
    run = audited_run()
    assert [sample["number"] for sample in Page(report(run)).data["samples"]] == list(range(7))
    verdicts = run / "audit" / "verdicts.csv"
    with verdicts.open(newline="") as file:
        header, *lines = csv.reader(file)
    place = header.index("score")
    for row, line in enumerate(lines):
        line[place] = f"{-3 - 1e-6 * row:.9g}"
    with verdicts.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    samples = Page(report(run)).data["samples"]
    assert [sample["number"] for sample in samples] == [3, 2, 1, 0, 5, 4, 6]
    assert all(sample["score"] == -3 - 1e-6 * sample["number"] for sample in samples)


def test_places_that_one_gallery_leaves_free_go_to_the_others() -> None:
    rows = [(0, 1, 0.99, -5.0)] * 30 + [(0, 2, 0.99, -5.0)] * 2
    chosen = choose(scores(*rows), 20)
    # Ten places for the mislabelled, and eight of the ten that the others have no use for.
    assert chosen == [*range(18), 30, 31]


def test_a_class_with_few_findings_is_not_crowded_out() -> None:
    rows = [(0, 1, 0.99, -5.0)] * 50 + [(k, 1, 0.71, -2.0) for k in (1, 2, 3)]
    chosen = choose(scores(*rows), 8)
    # The first four by their scores alone; then each of four classes in turn.
    assert {50, 51, 52} < set(chosen)
    assert len(chosen) == 8
