"""The columns of metrics.csv."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from josrc.data.registry import open_source
from josrc.engine.metrics import METRIC_COLUMNS, Truth
from josrc.runs.start import configure
from trainers import small, trainer


def test_turned_labels_by_hand() -> None:
    config = configure("digits-o", method="pencil", noise="symmetric", rate=0.5)
    source = open_source(config.data).take(np.arange(10))
    truth = Truth(source, torch.device("cpu"))
    label = truth.given.clone()
    assert truth.turned(label) == {"labels_turned": 0, "turned_right": None}
    wrong = ((truth.given != truth.true) & (truth.true < 8)).nonzero().squeeze(1)
    right = (truth.given == truth.true).nonzero().squeeze(1)
    label[wrong[:2]] = truth.true[wrong[:2]]  # two rightly, one wrongly
    label[right[0]] = (label[right[0]] + 1) % 8
    assert truth.turned(label) == {"labels_turned": 30, "turned_right": pytest.approx(200 / 3)}


def test_every_column_of_the_contract_is_there(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    made.run()
    rows = made.folder.read_metrics()
    assert list(rows[0]) == list(METRIC_COLUMNS)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    for row in rows:
        sizes = [row["n_clean"], row["n_id"], row["n_ood"]]
        assert sum(sizes) == 300  # type: ignore[arg-type]
        assert 0 <= row["test_accuracy"] <= 100  # type: ignore[operator]
    assert rows[0]["n_clean"] == 300, "the threshold is 0 in the first epoch"


def test_group_metrics_by_hand() -> None:
    _, source = small()
    kind = np.array([0, 0, 1, 1, 2, 2])
    true = np.array([0, 1, 2, 3, 8, 9])
    given = np.array([0, 1, 3, 4, 5, 6])
    tiny = replace(source.take(np.arange(6)), true=true, given=given)
    assert (tiny.kind == kind).all()
    prediction = torch.tensor([0, 2, 2, 4, 5, 1])
    group = torch.tensor([0, 0, 0, 1, 2, 1])

    row = Truth(tiny, torch.device("cpu")).metrics(prediction, group)

    assert (row["n_clean"], row["n_id"], row["n_ood"]) == (3, 2, 1)
    assert row["clean_precision"] == pytest.approx(200 / 3)
    assert (row["id_precision"], row["ood_precision"]) == (50, 100)
    assert (row["fit_clean"], row["fit_id"], row["fit_ood"]) == (50, 50, 50)
    assert row["recover_id"] == 50
