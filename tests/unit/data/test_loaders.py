from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from josrc.data.loaders import Batch, Needs, ResidentLoader
from josrc.data.views import Normalise, WeakView

CPU = torch.device("cpu")
MakeLoader = Callable[..., ResidentLoader]


@pytest.fixture
def make_loader(make_source) -> MakeLoader:
    def make(count: int = 23, batch_size: int = 5, views: int = 2, pad: int = 2, flip: bool = True):
        source = make_source(count=count)
        view = WeakView(pad, flip, source.images.shape[1:3])
        normalise = Normalise(source.spec, None, CPU)
        return ResidentLoader(source, Needs(views), view, normalise, CPU, batch_size=batch_size)

    return make


def batches(
    loader: ResidentLoader, seed: int = 0, epoch: int = 0, position: int = 0
) -> Iterator[Batch]:
    loader.begin_epoch(seed, epoch, position)
    for size in loader.sizes(position):
        yield loader.fetch(size)
        loader.cursor += size


def epoch_of(loader: ResidentLoader, **plan: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample numbers and images of an epoch in the order in which training sees them."""
    seen = list(batches(loader, **plan))
    return torch.cat([b.index for b in seen]), torch.cat([b.images for b in seen])


@pytest.mark.parametrize("count", [2, 5, 6, 20, 21, 22, 23])
def test_an_epoch_visits_every_sample_once(make_loader, count):
    index, images = epoch_of(make_loader(count=count))
    assert sorted(index.tolist()) == list(range(count))
    assert len(images) == 2 * count


def test_samples_come_in_a_new_order_each_epoch(make_loader):
    loader = make_loader()
    orders = [epoch_of(loader, epoch=epoch)[0].tolist() for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert list(range(23)) not in orders


def test_seed_and_epoch_alone_decide_an_epoch(make_loader):
    loader, fresh = make_loader(), make_loader()
    torch.manual_seed(1)
    epoch_of(loader, seed=8, epoch=2)
    index, images = epoch_of(loader, seed=7, epoch=3)
    torch.manual_seed(2)
    again, images_again = epoch_of(fresh, seed=7, epoch=3)
    assert torch.equal(index, again)
    assert torch.equal(images, images_again)


@pytest.mark.parametrize(
    "other", [{"seed": 7, "epoch": 4}, {"seed": 8, "epoch": 3}, {"seed": 8, "epoch": 2}]
)
def test_another_seed_or_epoch_gives_another_order_and_other_views(make_loader, other):
    # One batch holds all samples, so that sorting by sample shows the views alone.
    loader = make_loader(batch_size=23, views=1)
    (index, images), (index_too, images_too) = (
        epoch_of(loader, seed=7, epoch=3),
        epoch_of(loader, **other),
    )
    assert not torch.equal(index, index_too)
    assert not torch.equal(images[index.argsort()], images_too[index_too.argsort()])


def test_the_plan_does_not_touch_the_global_generator(make_loader):
    loader = make_loader()
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    epoch_of(loader)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("count", [20, 21, 23])
def test_going_on_from_a_position_yields_the_batches_an_uninterrupted_epoch_would(
    make_loader, count
):
    whole = list(batches(make_loader(count=count), seed=1, epoch=2))
    position = 0
    for done, batch in enumerate(whole):
        rest = list(batches(make_loader(count=count), seed=1, epoch=2, position=position))
        assert len(rest) == len(whole) - done
        for resumed, straight in zip(rest, whole[done:], strict=True):
            assert torch.equal(resumed.index, straight.index)
            assert torch.equal(resumed.images, straight.images)
            assert torch.equal(resumed.label, straight.label)
        position += len(batch.index)


@pytest.mark.parametrize(
    ("count", "batch_size", "expected"),
    [
        (20, 5, [5, 5, 5, 5]),
        (23, 5, [5, 5, 5, 5, 3]),
        (22, 5, [5, 5, 5, 5, 2]),
        (21, 5, [5, 5, 5, 6]),
        (6, 5, [6]),
        (5, 5, [5]),
        (4, 5, [4]),
        (3, 2, [3]),
        (5, 2, [2, 3]),
        (2, 128, [2]),
    ],
)
def test_the_last_batch_is_kept_and_never_holds_a_single_sample(
    make_loader, count, batch_size, expected
):
    assert make_loader(count=count, batch_size=batch_size).sizes() == expected


def test_a_finished_epoch_has_no_batches_left(make_loader):
    assert make_loader(count=20).sizes(position=20) == []


def test_a_batch_carries_the_given_labels_of_its_samples(make_loader, make_source):
    source = make_source(count=23)
    assert (source.given != source.true).any()
    for batch in batches(make_loader()):
        np.testing.assert_array_equal(batch.label, source.given[batch.index])


def test_the_first_view_of_all_samples_comes_before_the_second(make_loader, make_source):
    # Without crops and flips both views are the image itself, and tell whose they are.
    source = make_source(count=23)
    pixels = torch.from_numpy(source.images.pixels.transpose(0, 3, 1, 2))
    expected = Normalise(source.spec, None, CPU)(pixels)
    for batch in batches(make_loader(pad=0, flip=False)):
        first, second = batch.images.chunk(2)
        assert torch.equal(first, expected[batch.index])
        assert torch.equal(second, expected[batch.index])


def test_two_views_of_a_sample_are_drawn_independently(make_loader):
    loader = make_loader(count=200, batch_size=200)
    first, second = epoch_of(loader)[1].chunk(2)
    same = (first == second).flatten(1).all(dim=1).float().mean()
    # 25 crops and two flips: one pair in fifty coincides.
    assert same < 0.1


def test_the_batch_size_changes_neither_the_order_nor_the_views(make_loader):
    small, large = (list(batches(make_loader(batch_size=size))) for size in (5, 23))
    assert torch.equal(torch.cat([b.index for b in small]), large[0].index)
    for view in (0, 1):
        images = torch.cat([b.images.chunk(2)[view] for b in small])
        assert torch.equal(images, large[0].images.chunk(2)[view])


def test_more_views_leave_the_order_of_the_samples_alone(make_loader):
    order = [epoch_of(make_loader(views=views))[0] for views in (1, 3)]
    assert torch.equal(*order)


def test_padding_is_black_before_normalisation(make_loader, make_source):
    source = make_source(count=23)
    black = -np.array(source.mean) / np.array(source.std)
    loader = make_loader(batch_size=23, pad=30)
    _, images = epoch_of(loader)
    # Crops from far outside hold nothing but padding.
    empty = (images == images[:, :, :1, :1]).flatten(1).all(dim=1)
    assert empty.any()
    expected = np.broadcast_to(black[None, :, None, None], images[empty].shape)
    np.testing.assert_allclose(images[empty], expected, rtol=0, atol=1e-5)
