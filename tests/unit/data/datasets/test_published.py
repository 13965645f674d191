"""What the published data sets have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc.data.datasets import food101n
from josrc.data.datasets._published import describe_findings
from josrc.errors import UserError


def test_the_doctor_looks_at_both_food_sets(kitchen: Path) -> None:
    root = kitchen / "Food-101N_release"
    (kitchen / "food-101/images/apple_pie/0.jpg").unlink()
    with (root / "meta/verified_val.tsv").open("a") as text:
        text.write("apple_pie/x.jpg\t2\napple_pie/y.jpg\t1\n")
    lines = [line.text for line in food101n.findings(root) if line.fault]
    for words in (
        "classes.txt: 3, but 101 are published",
        "imagelist.tsv: 30, but 310,009 are published",
        "verified_train.tsv, of listed images: 9, but 52,867 are published",
        "1 lines say neither 0 nor 1: verified_val.tsv line 6",
        "2 checked labels of no listed image",
        "Food-101's test images: 6, but 25,250 are published",
        "1 images of Food-101's test images are missing: images/apple_pie/0.jpg",
    ):
        assert sum(words in line for line in lines) == 1, words
    with pytest.raises(UserError, match="Expected layout of Food101N"):
        list(describe_findings(food101n.findings(root), food101n.ADVICE))
