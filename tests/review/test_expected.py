"""What ``josrc apply --auto`` says, before it writes, that it will mend and spoil."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from commands import josrc
from josrc._console import Terminal
from josrc.errors import UserError
from josrc.review.apply import apply_run
from josrc.review.expected import ExpectedChanges
from reviewing import audit_summary, decide, planted_summary

# p_clean, p_ood and confidence of the verdicts against a label; of the rest nothing counts.
DECIDED = dict.fromkeys((0, 1), ("0.9", "0.0", "0.99"))
UNSURE = dict.fromkeys((2, 3), ("0.45", "0.1", "0.4"))
MISLABELLED = dict.fromkeys((8, 9, 10, 11), ("0.1", "0.0", "0.84"))
MISLABELLED |= dict.fromkeys((16, 17, 18, 19), ("0.3", "0.1", "0.5"))
FOREIGN = {4: ("0.1", "0.7", "0.7"), 12: ("0.2", "0.6", "0.6"), 20: ("0.3", "0.55", "0.55")}

# Right: 4 * 0.84 + 4 * 0.5 = 5.36. Wrong: 4 * 0.1 + 4 * 0.3 = 1.6. The rest of the eight: 1.04.
CHANGES = (
    "By verdict alone 8 labels will change: about 5 become right, 2 right ones become wrong, "
    "1 stays wrong."
)
# 0.3 + 0.4 + 0.45 = 1.15
REMOVALS = " 3 images will be removed, about 1 of them by mistake: they belong to a class."
UNCHECKED = (
    " These are the run's own estimates. Nothing in the run has checked them: it has no planted "
    "errors (--plant), or too few.\n"
)


@pytest.fixture
def judged(reviewed: Path) -> Path:
    """A run of which people have decided on two samples, with probabilities to sum up by hand."""
    path = reviewed / "audit" / "verdicts.csv"
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    for row, numbers in (DECIDED | UNSURE | MISLABELLED | FOREIGN).items():
        lines[row][5:8] = numbers
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])
    decide(reviewed, ([0], "keep"), ([1], "accept"))
    return reviewed


def test_it_says_what_verdicts_will_mend_and_spoil(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--auto", "0.5", "--out", judged.parent / "clean.csv", "--overwrite"]
    assert josrc("apply", judged, *options) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{CHANGES}{UNCHECKED}Wrote ")
    assert "9 relabelled (1 by decision, 8 by verdict), 0 removed, 1 kept" in said
    assert "\n3 more would be removed by verdict" in said
    assert josrc("apply", judged, *options, "--auto-remove") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{CHANGES}{REMOVALS}{UNCHECKED}Wrote ")
    assert "3 removed (3 by verdict)" in said
    assert "more would be removed" not in said


def test_the_numbers_are_fields_of_what_it_returns(judged: Path) -> None:
    out, console = judged.parent / "clean.csv", Terminal(quiet=True)
    found = apply_run(judged, out, auto=0.5, console=console).expected
    assert (found.relabelled, found.removed, found.removed_by_mistake) == (8, 0, 0)
    expected = pytest.approx((5.36, 1.6, 1.04))
    assert (found.become_right, found.become_wrong, found.stay_wrong) == expected
    removing = {"auto": 0.5, "auto_remove": True, "overwrite": True}
    found = apply_run(judged, out, **removing, console=console).expected  # type: ignore[arg-type]
    assert (found.removed, found.removed_by_mistake) == (3, pytest.approx(1.15))
    assert (found.become_right, found.become_wrong, found.stay_wrong) == expected


def test_it_is_said_before_anything_is_written(
    judged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise UserError("The disk is full.")

    monkeypatch.setattr("josrc.review.apply.write_csv_manifest", fails)
    assert josrc("apply", judged, "--auto", "0.5", "--out", judged.parent / "clean.csv") == 2
    assert CHANGES in capsys.readouterr().out
    assert not list(judged.parent.glob("clean*"))


def test_it_says_what_has_checked_the_estimates(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--auto", "0.5", "--out", judged.parent / "clean.csv", "--overwrite"]
    own = "These are the run's own estimates"
    measured = f"{own}, measured with 1,150 planted errors"
    for summary, told in (
        ({"planted": None}, UNCHECKED.strip()),
        ({"planted": None, "planted_unlike": True},
         f"{own}. Nothing in the run has checked them: the planted errors do not look like the "
         "wrong labels here."),
        (planted_summary(1150) | {"known_noise_rate": None}, f"{measured}."),
        (planted_summary(1150) | {"known_noise_rate": 0.1},
         f"{measured} and adjusted to the rate that the audit was given."),
    ):  # fmt: skip
        path = judged / "audit" / "summary.json"
        path.write_text(json.dumps(audit_summary(**summary)))
        assert josrc("apply", judged, *options) == 0
        said = capsys.readouterr().out
        assert f"{told}\n" in said
        assert said.count(own) == 1


def test_without_a_change_by_verdict_there_is_nothing_to_expect(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = judged.parent / "clean.csv"
    assert josrc("apply", judged, "--auto", "1", "--out", out) == 0
    assert capsys.readouterr().out.startswith("By verdict alone no label will change.\nWrote ")
    assert josrc("apply", judged, "--out", out, "--overwrite") == 0
    assert "By verdict alone" not in capsys.readouterr().out, "nobody asked for verdicts"


def test_rounded_numbers_add_up() -> None:
    found = ExpectedChanges()
    for _ in range(3):
        found.add("relabel", 0.5, 0.0, 0.5)  # 1.5 of 3 each
    assert found.sentences({}).startswith(
        "By verdict alone 3 labels will change: about 2 become right, 1 right one becomes wrong, "
        "0 stay wrong."
    )
