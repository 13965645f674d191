"""Strong views against torchvision's operations on PIL's pictures, picture by picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import chisquare
from torchvision.transforms import AutoAugment, AutoAugmentPolicy, InterpolationMode, RandAugment
from torchvision.transforms.autoaugment import _apply_op

from josrc.config import ViewConfig
from josrc.data.policies import (
    AUTOAUGMENT,
    LEVELS,
    NUMBER,
    OPERATIONS,
    RANDAUGMENT,
    Choice,
    augment,
    autoaugment_table,
    moved,
    recoloured,
)
from josrc.data.views import create_view

SIDE, COUNT = 32, 24
MOVING = ("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
COLOURING = OPERATIONS[len(MOVING) :]
AUTO = AutoAugment(AutoAugmentPolicy.CIFAR10)


def pictures() -> np.ndarray:
    """Smooth ones, as photographs are, with some noise, and one of a single colour."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (COUNT, 6, 6, 3), dtype=np.uint8)
    fine = [
        np.asarray(Image.fromarray(c).resize((SIDE, SIDE), Image.Resampling.BICUBIC))
        for c in coarse
    ]
    noisy = np.stack(fine).astype(int) + generator.integers(-8, 9, (COUNT, SIDE, SIDE, 3))
    noisy[-1] = 77
    return noisy.clip(0, 255).astype(np.uint8)


PICTURES = pictures()
IMAGES = torch.from_numpy(PICTURES).permute(0, 3, 1, 2).float()


def theirs(name: str, level: int, sign: int) -> np.ndarray:
    """torchvision's result for every picture."""
    magnitudes, signed = AUTO._augmentation_space(LEVELS + 1, (SIDE, SIDE))[name]
    magnitude = float(magnitudes[level]) if magnitudes.ndim else 0.0
    magnitude *= sign if signed else 1
    done = [
        _apply_op(Image.fromarray(p), name, magnitude, InterpolationMode.BILINEAR, [128.0] * 3)
        for p in PICTURES
    ]
    return np.stack([np.asarray(picture) for picture in done]).astype(int)


def choice(name: str, level: int, sign: int) -> Choice:
    full = torch.full((COUNT,), 1.0)
    return Choice(torch.full((COUNT,), NUMBER[name]), full * level / LEVELS, full * sign)


def ours(name: str, level: int, sign: int) -> np.ndarray:
    picked = choice(name, level, sign)
    seen = recoloured(moved(IMAGES, [picked, choice("Identity", 0, 1)]), picked)
    return seen.permute(0, 2, 3, 1).numpy().astype(int)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("level", [0, 1, 4, 5, 7, 9])
@pytest.mark.parametrize("name", [*COLOURING, "TranslateX", "TranslateY"])
def test_what_does_not_interpolate_differs_by_a_rounding_at_most(name, level, sign) -> None:
    if name in ("Posterize", "Solarize", "AutoContrast", "Equalize", "Invert") and sign < 0:
        sign = 1
    difference = np.abs(ours(name, level, sign) - theirs(name, level, sign))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.002


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("level", [1, 4, 9])
@pytest.mark.parametrize("name", ["ShearX", "ShearY", "Rotate"])
def test_what_interpolates_differs_little_and_at_the_border_alone(name, level, sign) -> None:
    difference = np.abs(ours(name, level, sign) - theirs(name, level, sign)).max(axis=3)
    # Where an image ends PIL repeats its last pixels, and ours fades into the grey around it.
    assert (difference > 2).mean() < 0.06
    inner = difference[:, 12:20, 12:20]
    assert inner.max() <= 2


def test_the_policy_is_torchvisions() -> None:
    plain = [
        tuple((name, p, level or 0) for name, p, level in pair)
        for pair in AUTO._get_policies(AutoAugmentPolicy.CIFAR10)
    ]
    assert list(AUTOAUGMENT) == plain
    space = RandAugment()._augmentation_space(31, (SIDE, SIDE))
    assert set(space) == set(OPERATIONS[:RANDAUGMENT])


def test_every_sub_policy_is_drawn_with_its_probabilities() -> None:
    from josrc.data.policies import _autoaugment

    draws = torch.rand(100_000, 6, generator=torch.Generator().manual_seed(0))
    chosen = _autoaugment(draws, autoaugment_table())
    policy = (draws[:, 0] * len(AUTOAUGMENT)).long()
    assert chisquare(policy.bincount()).pvalue > 0.001
    for number, pair in enumerate(AUTOAUGMENT):
        for place, (name, probability, level) in enumerate(pair):
            own = chosen[place].operation[policy == number]
            assert set(own.tolist()) <= {NUMBER[name], 0}
            share = (own == NUMBER[name]).double().mean().item()
            assert share == pytest.approx(probability, abs=0.03)
            levels = chosen[place].level[policy == number]
            torch.testing.assert_close(levels, torch.full_like(levels, level / LEVELS))


def test_two_operations_follow_each_other() -> None:
    # The sub-policy ShearY, then TranslateY, is the last of the fourth.
    draws = torch.zeros(COUNT, 6)
    # Both upwards: nothing that the first moves out of the picture comes back by the second.
    draws[:, 0], draws[:, 3] = 3.5 / len(AUTOAUGMENT), 0.9
    found = augment(IMAGES, draws, autoaugment_table()).permute(0, 2, 3, 1).numpy()
    expected = []
    space = AUTO._augmentation_space(LEVELS + 1, (SIDE, SIDE))
    for picture in PICTURES:
        image = Image.fromarray(picture)
        for name, level, sign in (("ShearY", 8, 1), ("TranslateY", 9, -1)):
            magnitude = sign * float(space[name][0][level])
            image = _apply_op(image, name, magnitude, InterpolationMode.BILINEAR, [128.0] * 3)
        expected.append(np.asarray(image))
    difference = np.abs(found - np.stack(expected)).max(axis=3)
    assert (difference > 3).mean() < 0.06


@pytest.mark.parametrize("policy", ["autoaugment", "randaugment"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_strong_view_of_a_policy_spares_the_first(policy: str, channels: int) -> None:
    tiles = torch.randint(0, 256, (40, 16, 12, channels), dtype=torch.uint8)
    plain = create_view(ViewConfig(pad=0), (16, 12), views=2)
    strong = create_view(ViewConfig(pad=0, strong="last", policy=policy), (16, 12), views=2)
    index = torch.arange(40).repeat(2)
    draws = torch.rand(80, strong.draws, generator=torch.Generator().manual_seed(0))
    (first, second), weak = strong(tiles, index, draws).chunk(2), plain(tiles, index, draws)
    assert torch.equal(first, weak[:40].float())
    changed = (second != weak[40:]).flatten(1).any(dim=1)
    assert changed.float().mean() > 0.5
    assert torch.equal(second, second.round())
    assert 0 <= second.min() <= second.max() <= 255


def test_each_image_of_a_batch_is_changed_as_it_is_alone() -> None:
    draws = torch.rand(COUNT, 6, generator=torch.Generator().manual_seed(2))
    together = augment(IMAGES, draws, None)
    alone = [augment(IMAGES[i : i + 1], draws[i : i + 1], None) for i in range(COUNT)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1)
