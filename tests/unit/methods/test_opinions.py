"""What a network thinks of every sample, in little memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from josrc.methods._opinions import Opinions


def distributions(count: int, classes: int, concentration: float) -> torch.Tensor:
    drawn = np.random.default_rng(0).dirichlet(np.full(classes, concentration), count)
    return torch.tensor(drawn, dtype=torch.float32)


def test_opinions_in_half_precision_lose_a_2000th_and_what_is_tiny() -> None:
    given = distributions(200, 50, 0.05)
    memory = Opinions(*Opinions.tables(300, 50, 50), 50)
    index = torch.randperm(300)[:200]
    memory.write(index, given)
    read = memory.read(index)
    torch.testing.assert_close(read, given, rtol=1 / 2000, atol=3.1e-8)
    unseen = torch.ones(300, dtype=torch.bool)
    unseen[index] = False
    assert not memory.seen(unseen.nonzero().squeeze(1)).any()
    assert memory.read(unseen.nonzero().squeeze(1)).abs().sum() == 0


@pytest.mark.parametrize("concentration", [0.01, 0.1, 1.0])
def test_of_many_classes_the_likeliest_are_kept_and_the_rest_is_spread(concentration) -> None:
    given = distributions(100, 1000, concentration)
    memory = Opinions(*Opinions.tables(100, 1000, 128), 1000)
    index = torch.arange(100)
    memory.write(index, given)
    read = memory.read(index)
    torch.testing.assert_close(read.sum(dim=1), torch.ones(100), rtol=0, atol=1e-3)
    assert torch.equal(read.argmax(dim=1), given.argmax(dim=1))
    # What is lost: how the rest of the classes shared what was left.
    left = 1 - given.topk(128, dim=1).values.sum(dim=1)
    lost = (read - given).abs().sum(dim=1)
    assert (lost <= 2 * left + 2e-3).all()
    memory.write(index, torch.full((100, 1000), 1e-3))
    torch.testing.assert_close(memory.read(index).sum(dim=1), torch.ones(100), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("kept", "most"), [(1000, 2.0), (256, 1.5), (128, 0.75)])
def test_a_million_samples_with_a_thousand_classes_take_less_than_4_gib(kept, most) -> None:
    thousand = Opinions.tables(1000, 1000, kept)
    taken = sum(table.nbytes for table in thousand if table is not None) * 1000
    assert taken < most * 2**30 < 4 * 2**30
