"""What an audit writes: a table that any program reads back, sentences, and sums."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from josrc.errors import UserError
from josrc.verdicts import table
from josrc.verdicts.rule import judge
from josrc.verdicts.table import (
    VERDICT_COLUMNS,
    AuditPart,
    read_verdicts,
    summarise,
    write_verdicts,
)

Made = dict[str, Any]


NAMES = ["cat", "dog", "owl", "bee"]


HOSTILE = ['a,b "c"', "new\nline", "=cmd|' /C calc'!A0", "  ünï\tcode "]


def judged(made: Made, ids: Sequence[Any] = (), paths: Sequence[str] = ()) -> AuditPart:
    verdicts = judge(made["findings"], made["given"])
    return AuditPart(verdicts, made["findings"], made["given"], ids, paths)


def written(made: Made, folder: Path, names: list[str] = NAMES) -> list[dict[str, str]]:
    path, count = folder / "verdicts.csv", len(made["given"])
    paths = [f"images/{row},{row}.png" for row in range(count)]
    write_verdicts(path, [judged(made, range(count), paths)], names)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("chunk", [7, 400, 50_000])
def test_the_table_holds_every_sample_in_order(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(table, "CHUNK", chunk)
    rows = written(made, tmp_path)
    columns = "id,path,given_label,verdict,suggested_label,p_clean,p_ood,confidence,score,reason"
    assert ",".join(rows[0]) == columns
    assert [row["id"] for row in rows] == [str(row) for row in range(400)]
    assert rows[7]["path"] == "images/7,7.png"
    assert [NAMES.index(row["given_label"]) for row in rows] == made["given"].tolist()
    titles = ["clean"] * 300 + ["mislabelled"] * 60 + ["out_of_distribution"] * 40
    assert [row["verdict"] for row in rows] == titles
    suggested = [NAMES[true] for true in made["true"][300:360]]
    assert [row["suggested_label"] for row in rows] == [""] * 300 + suggested + [""] * 40
    verdicts = judge(made["findings"], made["given"])
    assert [float(row["p_ood"]) for row in rows] == pytest.approx(verdicts.p_ood, abs=1e-4)
    assert [float(row["score"]) for row in rows] == pytest.approx(verdicts.score, rel=1e-8)


def test_scores_that_differ_in_the_seventh_digit_keep_their_order(
    made: Made, tmp_path: Path
) -> None:
    count, path = 5000, tmp_path / "verdicts.csv"
    places = np.random.default_rng(0).permutation(count)
    rows = np.arange(count) % 400
    verdicts = judge(made["findings"].part(rows), made["given"][rows])
    for highest in (-1.0, -10.0, 1000.0):  # scores of any size
        step = 10.0 ** (np.floor(np.log10(abs(highest))) - 6)
        part = replace(
            judged(made, range(count), [""] * count),
            verdicts=replace(verdicts, score=highest - step * places),
            findings=made["findings"].part(rows),
            given=made["given"][rows],
        )
        write_verdicts(path, [part], NAMES)
        (frame,) = read_verdicts(path)
        scores = frame["score"].to_numpy(float)
        assert len(np.unique(scores)) == count
        np.testing.assert_array_equal(np.argsort(scores), np.argsort(-places))


def test_where_a_file_has_no_scores_the_probability_of_being_clean_is_one(
    made: Made, tmp_path: Path
) -> None:
    with_scores = written(made, tmp_path)
    path = tmp_path / "verdicts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        columns = [name for name in VERDICT_COLUMNS if name != "score"]
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(with_scores)
    (frame,) = read_verdicts(path)
    assert tuple(frame.columns) == VERDICT_COLUMNS
    assert frame["score"].tolist() == [row["p_clean"] for row in with_scores]
    assert frame["reason"].tolist() == [row["reason"] for row in with_scores]


def test_a_first_line_with_a_cell_too_many_is_refused_and_warnings_stay_as_they_are(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "CHUNK", 7)
    written(made, tmp_path)
    path, before = tmp_path / "verdicts.csv", list(warnings.filters)
    reading = read_verdicts(path)
    assert len(next(reading)) == 7
    assert warnings.filters == before, "while somebody works on the first lines"
    assert sum(map(len, reading)) == 393
    header, first, *others = path.read_text().splitlines()
    path.write_text("\n".join([header, f"{first},more", *others]))
    with pytest.raises(UserError, match="can't be read"):
        next(read_verdicts(path))


def test_names_of_classes_are_data_whatever_they_hold(made: Made, tmp_path: Path) -> None:
    rows = written(made, tmp_path, HOSTILE)
    assert [row["given_label"] for row in rows] == [HOSTILE[label] for label in made["given"]]
    assert rows[300]["suggested_label"] == HOSTILE[made["true"][300]]
    assert all(HOSTILE[made["true"][place]] in rows[place]["reason"] for place in range(300, 360))
    summary = json.loads(json.dumps(summarise([judged(made)], HOSTILE)))
    assert [entry["class"] for entry in summary["classes"]] == HOSTILE


def test_the_summary_counts_by_class_and_names_the_pairs(made: Made) -> None:
    verdicts, given = judge(made["findings"], made["given"]), made["given"]
    summary = summarise([AuditPart(verdicts, made["findings"], given, (), ())], NAMES)
    assert summary["samples"] == 400
    assert summary["counts"] == {"clean": 300, "mislabelled": 60, "out_of_distribution": 40}
    assert (summary["noise_rate"], summary["ood_share"]) == (0.25, 0.1)
    dogs = summary["classes"][1]
    assert dogs["class"] == "dog"
    assert dogs["samples"] == np.sum(given == 1)
    assert dogs["mislabelled"] == np.sum(given[300:360] == 1)
    assert dogs["noise_rate"] == pytest.approx(np.sum(given[300:] == 1) / np.sum(given == 1))
    pairs = summary["confused_pairs"]
    assert sum(pair["count"] for pair in pairs) == 60
    assert [pair["count"] for pair in pairs] == sorted((p["count"] for p in pairs), reverse=True)
    first, true = pairs[0], made["true"][300:360]
    wrong = (given[300:360] == NAMES.index(first["given"])) & (
        true == NAMES.index(first["suggested"])
    )
    assert first["count"] == np.sum(wrong)


def test_a_class_without_samples_has_no_noise(made: Made) -> None:
    summary = summarise([judged(made)], [*NAMES, "unicorn"])
    assert summary["classes"][-1]["samples"] == 0
    assert summary["classes"][-1]["noise_rate"] == 0
