"""Orders of samples other than a random one."""

from __future__ import annotations

import torch

from josrc.data.orders import balanced_order, grouped_order


def test_samples_of_one_label_stand_together() -> None:
    label = torch.randint(0, 5, (203,), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    order = grouped_order(torch.randperm(203, generator=generator), label, 4, generator)
    assert sorted(order.tolist()) == list(range(203))
    groups = sum(int((label == c).sum()) // 4 for c in range(5))
    together = label[order[: 4 * groups]].view(-1, 4)
    assert (together == together[:, :1]).all()
    assert len(set(together[:20, 0].tolist())) > 1, "groups of all classes are mixed"
    left = label[order[4 * groups :]]
    assert all(int((left == c).sum()) < 4 for c in range(5))


def test_as_many_of_every_class_as_there_are() -> None:
    label = torch.tensor([0] * 10 + [1] * 5 + [2])
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    chosen = balanced_order(order, label, 9)
    assert label[chosen].bincount().tolist() == [4, 4, 1]
    assert len(set(chosen.tolist())) == 9
    # They come as mixed as all of them do.
    places = [order.tolist().index(sample) for sample in chosen.tolist()]
    assert places == sorted(places)
