"""Settings for a person's own images, from what they are: each has its reason beside it."""

from __future__ import annotations

from itertools import count

import torch

from josrc.config import OWN_IMAGES
from josrc.data.source import Source
from josrc.engine.planting import count_to_plant
from josrc.losses import smooth_labels
from josrc.runs.network import Network
from josrc.runs.resolve import Values
from josrc.selection import clean_likelihood
from josrc.verdicts.calibration import MIN_PLANTED

# P_clean of an undecided prediction with the paper's smoothing of 0.6 and 100 classes.
UNDECIDED_LIKELIHOOD = 0.795


def sized_values(source: Source, network: Network, epochs: int | None = None) -> Values:
    """Values that stand where a named data set has its recipe; the user's own go over them.

    ``learned`` among them is not a setting: it says whether weights begin as learned elsewhere.

    Args:
        source: the images.
        network: what is trained on them.
        epochs: length of the run; none: as the number of images has it.
    """
    samples = len(source)
    epochs = epochs or epochs_for(samples, network.learned)
    size, head = network.image_size, network.train == "head"
    return {
        "recipe": OWN_IMAGES,
        "model": {
            "name": network.name,
            "pretrained": network.pretrained,
            "train": network.train,
            "image_size": size,
            # Over features that are learned one layer is enough, and learns fewer wrong labels.
            "head": "linear" if head else "mlp",
        },
        # Tiles of files are larger than a crop by themselves. Arrays are padded as CIFAR's images
        # are, by an eighth.
        "views": {"pad": min(source.size) // 8 if source.images.in_memory else 0},
        "epochs": epochs,
        "learned": network.learned,
        "plant": plant_share_for(samples),
        "batch_size": batch_size_for(samples, 0 if head else size),
        # Adam's usual rate; a tenth where there is something learned to lose. A head that is new
        # on top of it has nothing to lose.
        "optimizer": {
            "lr": 1e-4 if network.learned and network.own else 1e-3,
            "backbone_factor": 0.1 if network.learned and not network.own else 1.0,
        },
        "methods": {
            "josrc": {
                "method": {
                    "smoothing": smoothing_for(source.closed),
                    # As for the digits: with few classes the labels are sharper, and above 0.9
                    # nearly nothing would be left of the clean set.
                    "threshold_max": 0.9 if source.closed < 50 else 0.95,
                    # A tenth of the epochs, as for the digits.
                    "warm_up": max(1, round(epochs / 10)),
                }
            }
        },
    }


def epochs_for(samples: int, learned: bool) -> int:
    """Enough for five million images to be seen, half a million where weights are learned.

    CIFAR has seen half of its ten million when its threshold has done most of its way; Clothing1M
    is trained for 10 to 20 epochs by most.
    """
    if learned:
        return min(40, max(10, round(500_000 / samples)))
    return min(100, max(20, round(5_000_000 / samples)))


def fewest_to_plant_in() -> int:
    """The least number of images in which errors are planted by default."""
    return next(samples for samples in count(2) if plant_share_for(samples))


def plant_share_for(samples: int) -> float:
    """Three percent; more of a small set, as fewer than 150 errors say little, but a tenth at most.

    Half of them are of any sort. Of fewer than twenty such there is nothing to learn, and none are
    planted.
    """
    share = min(0.1, max(0.03, 150 / samples))
    return share if count_to_plant(share, samples) // 2 >= MIN_PLANTED else 0.0


def batch_size_for(samples: int, size: int) -> int:
    """Twenty steps per epoch or more; the paper's 128 at most, half of it for large images."""
    batch = 64 if size > 96 else 128
    while batch > 8 and batch * 20 > samples:
        batch //= 2
    return batch


def smoothing_for(classes: int) -> float:
    """Jo-SRC's epsilon with which an undecided prediction scores as it does in the paper.

    The fewer classes, the nearer is a smoothed label to a uniform prediction: with the paper's 0.6
    and 8 classes, a network that has learned nothing takes every sample for clean.
    """
    uniform, label = torch.full((1, classes), 1 / classes), torch.zeros(1, dtype=torch.long)
    fits = [
        step / 100
        for step in range(5, 61)
        if clean_likelihood(uniform, smooth_labels(label, classes, step / 100)).item()
        <= UNDECIDED_LIKELIHOOD
    ]
    return fits[-1] if fits else 0.05
