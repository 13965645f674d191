"""Several annotators, weighed by cleanlab's CROWDLAB: from a manifest to the review."""

from __future__ import annotations

import csv
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import josrc
from josrc.data.annotations import Annotations
from josrc.errors import UserError
from josrc.review.decisions import Store
from josrc.review.queues import Filter
from josrc.verdicts.consensus import disagreement_order, find_consensus
from reviewing import read

CLASSES = ("zero", "one", "two", "three")
# Who labels, and which share of their labels is right.
PEOPLE = {"ann": 1.0, "bob": 0.9, "eve": 0.4}


def crowd(samples: int, seed: int = 0) -> tuple[np.ndarray, Annotations]:
    """True classes, and labels of three annotators; each sample lacks one of them now and then."""
    generator = np.random.default_rng(seed)
    true = np.arange(samples) % 4
    votes = []
    for who, right in enumerate(PEOPLE.values()):
        wrong = generator.random(samples) >= right
        label = np.where(wrong, (true + 1) % 4, true)
        votes += [(k, who, label[k]) for k in range(samples) if generator.random() < 0.9]
    sample, annotator, label = np.array(votes).T
    return true, Annotations(list(PEOPLE), sample, annotator, label)


def test_the_consensus_is_better_than_the_majority_and_finds_the_worst_annotator() -> None:
    true, votes = crowd(400)
    generator = np.random.default_rng(1)
    probabilities = (
        0.1 + 0.6 * np.eye(4)[np.where(generator.random(400) < 0.9, true, (true + 2) % 4)]
    )
    found = find_consensus(votes, probabilities)
    assert found is not None
    labelled = found.annotators > 0
    majority = votes.majority(400, 4)
    assert np.mean(found.label[labelled] == true[labelled]) > np.mean(
        majority[labelled] == true[labelled]
    )
    assert [list(PEOPLE)[who] for who in found.people] == ["eve", "bob", "ann"]
    assert np.all(np.diff(found.people_quality) >= 0)
    right = found.label == true
    assert found.quality[labelled & right].mean() > found.quality[labelled & ~right].mean()
    matrix = votes.matrix(400)
    other = (~np.isnan(matrix) & (matrix != found.label[:, None])).sum(axis=1)
    assert np.array_equal(other[labelled], found.disagreeing[labelled])


def test_what_nobody_labelled_or_predicted_has_no_consensus() -> None:
    _, votes = crowd(60)
    probabilities = np.full((62, 4), 0.25)
    probabilities[5] = np.nan
    found = find_consensus(votes, probabilities)
    assert found is not None
    assert found.label[[5, 60, 61]].tolist() == [-1, -1, -1]
    assert np.isnan(found.quality[[5, 60, 61]]).all()
    assert found.disagreeing[[5, 60, 61]].tolist() == [0, 0, 0]
    # Labels of samples that nothing is predicted of, such as held-out ones, are no error.
    fewer = find_consensus(votes, np.full((40, 4), 0.25))
    assert fewer is not None
    assert len(fewer.label) == len(fewer.disagreeing) == 40
    alone = votes.take(np.array([5]))
    assert find_consensus(alone, np.full((1, 4), np.nan)) is None


def test_very_many_annotators_are_not_weighed_in_a_table_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 10,000 annotators and 100,000 images it would take 8 GB."""
    images, people = np.repeat(np.arange(100_000), 2), np.arange(200_000) % 10_000
    votes = Annotations([f"p{n}" for n in range(10_000)], images, people, images % 4)
    tracemalloc.start()
    try:
        assert find_consensus(votes, np.full((100_000, 4), 0.25)) is None
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert "10,000 annotators of 100,000 images are too many" in capsys.readouterr().err


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    _, votes = crowd(20)
    with pytest.raises(UserError, match=r"pip install .*\[compare\]"):
        find_consensus(votes, np.full((20, 4), 0.25))


def test_the_most_divided_come_first(tmp_path: Path) -> None:
    path = tmp_path / "consensus.csv"
    rows = [(0.9, 3, 0), (0.8, 3, 1), (0.3, 3, 1), (0.5, 2, 1), ("", 0, 0)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "consensus_quality", "annotators", "disagreeing"])
        writer.writerows([str(k), *row] for k, row in enumerate(rows))
    assert disagreement_order(path) == [3, 2, 1]
    path.write_text("nothing\n1\n")
    with pytest.raises(UserError, match="can't be read"):
        disagreement_order(path)


@pytest.mark.parametrize("wide", [False, True])
def test_a_training_ends_with_a_consensus(pictures: Path, tmp_path: Path, wide: bool) -> None:
    generator = np.random.default_rng(0)
    paths = sorted(pictures.glob("*/*.png"))
    given = {path: {} for path in paths}
    for who, right in PEOPLE.items():
        for path in paths:
            true = CLASSES.index(path.parent.name)
            label = true if generator.random() < right else (true + 1) % 4
            given[path][who] = CLASSES[label]
    manifest = tmp_path / "labels.csv"
    with manifest.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", *PEOPLE] if wide else ["path", "label", "annotator"])
        for path, labels in given.items():
            if wide:
                writer.writerow([path, *labels.values()])
            else:
                writer.writerows([path, label, who] for who, label in labels.items())
    columns = {"annotator_columns": list(PEOPLE)} if wide else {"annotator_column": "annotator"}
    run = josrc.train(
        str(manifest), out=tmp_path / "run", method="standard", epochs=2, batch_size=16,
        device="cpu", val=0.2, allow_outside=True, **columns,
    )  # fmt: skip
    audit = run.path / "audit"
    verdicts, consensus = read(audit / "verdicts.csv"), read(audit / "consensus.csv")
    assert [line["id"] for line in verdicts] == [line["id"] for line in consensus]
    assert len(consensus) == 120
    for line in consensus:
        labels = given[Path(line["id"])]
        other = sum(label != line["consensus_label"] for label in labels.values())
        assert (line["annotators"], line["disagreeing"]) == ("3", str(other))
        assert 0 <= float(line["consensus_quality"]) <= 1
    right = [line["consensus_label"] == Path(line["id"]).parent.name for line in consensus]
    assert np.mean(right) > 0.9

    people = read(audit / "annotators.csv")
    assert people[0]["annotator"] == "eve"
    assert {line["labels"] for line in people} == {"120"}
    worst = people[0]
    wrong = (CLASSES.index(worst["confused_consensus"]) + 1) % 4
    assert worst["confused_label"] == CLASSES[wrong]
    assert int(worst["confused_count"]) > 10

    store = Store(audit)
    found = store.page(Filter(verdict="disagreement"), limit=200)
    assert [entry["row"] for entry in found] == disagreement_order(audit / "consensus.csv")
    assert len(found) == store.disagreements() > 30
    store.close()
