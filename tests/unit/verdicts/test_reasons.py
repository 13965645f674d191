"""Reasons in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from josrc.verdicts.findings import held_out_findings
from josrc.verdicts.reasons import reasons
from josrc.verdicts.rule import judge, judge_held_out

Made = dict[str, Any]


NAMES = ["cat", "dog", "owl", "bee"]


def test_reasons_are_sentences_about_the_sample(made: Made) -> None:
    rows = np.array([0, 300, 360, 1, 2])
    findings = replace(
        made["findings"].part(rows),
        visits=np.array([50, 50, 50, 3, 0]),
        label_share=np.array([0.94, 0.0, 0.2, 1.0, 0.0]),
        rival=np.array([1, 1, 1, -1, -1]),
        rival_share=np.array([0.06, 0.97, 0.4, 0.0, 0.0]),
        confidence=np.array([0.8, 0.8, 0.314, 0.8, 0.0]),
    )
    verdicts = judge(made["findings"], made["given"])
    chosen = replace(verdicts.part(slice(5)), group=np.array([0, 1, 2, 0, 0]))
    reference = f"{100 * verdicts.reference.confidence:.0f} %"
    assert list(reasons(chosen, findings, np.zeros(5, dtype=int), NAMES)) == [
        'In the last epochs the model saw "cat", the given label, in 94 % of its looks and "dog" '
        "in 6 % of its looks.",
        'In the last epochs the model saw "dog" in 97 % of its looks and "cat", the given label, '
        "in none.",
        "In the last epochs the model was uncertain: its best guess had 31 % on "
        f"average, against {reference} for images whose label it believes.",
        'In its first 3 looks the model saw "cat", the given label, in all of its looks.',
        "The model has not seen this image yet.",
    ]


def test_reasons_of_held_out_images_say_that_they_were_held_out(made: Made) -> None:
    reference = judge(made["findings"], made["given"]).reference
    given = np.zeros(3, dtype=int)
    predicted = np.array([[0.8, 0.2, 0, 0], [0.05, 0.9, 0.05, 0], [0.2, 0.3, 0.25, 0.25]])
    findings = held_out_findings(predicted, given)
    verdicts = judge_held_out(findings, given, reference)
    first, second, third = reasons(verdicts, findings, given, NAMES)
    start = "Held out from training; the final model"
    assert first == f'{start} gives 80 % to "cat", the given label, and 20 % to "dog".'
    assert second == f'{start} gives 90 % to "dog", and 5 % to "cat", the given label.'
    assert third.startswith(f"{start} is uncertain: its best guess has 30 %, against")
