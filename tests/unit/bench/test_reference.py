"""The plain training loop that speed is compared with."""

from __future__ import annotations

from itertools import islice

import torch

from bench_runs import CPU, small
from josrc.bench.reference import ViewsDataset, reference_steps


def test_the_reference_loop_trains_the_same_method() -> None:
    config, source = small("standard")
    losses = list(islice(reference_steps(config, source, CPU), 12))
    assert len(losses) == 12
    assert losses[-1] < losses[0], "64 samples are learned by heart in three epochs"


def test_the_reference_loop_draws_both_views_anew() -> None:
    config, source = small()
    views, label, index = ViewsDataset(source, config, 2)[3]
    assert (label, index) == (int(source.given[3]), 3)
    assert not torch.equal(*views)
    assert views[0].shape == (3, 8, 8)
