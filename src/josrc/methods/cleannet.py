"""CleanNet: learn from a few labels that people checked which of the others are right.

Lee, He, Zhang and Yang, CleanNet: Transfer Learning for Scalable Image Classifier Training with
Label Noise, CVPR 2018; "code" is what the authors published.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.errors import UserError
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe
from josrc.models import Classifier

NOT_CHECKED, WRONG, RIGHT = -1, 0, 1
# code
WEIGHT_DECAY = 1e-4
KMEANS_STARTS, KMEANS_STEPS = 10, 50


class CleanNetSettings(MethodSettings):
    """Settings of CleanNet; "paper" and "code" name the source of a default."""

    name: str = "cleannet"
    # paper: both; soft is the better one on both data sets
    variant: Literal["soft", "hard"] = Field("soft", description="weigh samples, or leave some out")
    # ours: a stand-in for people, for data that knows its truth. Food101N has about 0.17.
    verified_share: float | None = Field(
        None, gt=0, le=1, description="share of labels checked against the truth, drawn by seed"
    )
    # ours: the paper trains a classifier to its end, then CleanNet, and repeats both
    warm_up: int = phase(20, description="epochs on all labels before CleanNet is first trained")
    refresh: int = phase(40, description="epochs until CleanNet is trained again; 0: never")
    # ours: 2,000 each time. Code: 60,000 in one go, on features that are not standardised; so do
    # the recipes of real data.
    updates: int = Field(2000, ge=1, description="updates of CleanNet each time it is trained")
    standardise: bool = Field(
        True, description="standardise features; else all classes look alike for many updates"
    )
    # code: 0.01, a tenth of it for the second half; momentum 0.9
    learning_rate: float = Field(
        0.01, gt=0, description="learning rate of CleanNet's own optimizer"
    )
    # code: 32 of each
    pairs: int = Field(
        32, ge=1, description="checked samples per update, and as many unchecked ones"
    )
    # paper and code: 32
    references: int = Field(32, ge=1, description="k-means centres per class")
    # code: 0.1
    margin: float = Field(0.1, ge=-1, le=1, description="similarity above which a label is right")
    # code: 5, 0.1 and 0.1
    wrong_weight: float = Field(5.0, ge=0, description="weight of labels checked and wrong")
    unchecked_weight: float = Field(0.1, ge=0, description="weight of labels nobody checked")
    reconstruction: float = Field(0.1, ge=0, description="weight of the query's reconstruction")


class CleanNet(Method):
    """A second, small network compares each image with what stands for its label's class.

    Between epochs it is trained on features of the classifier; its similarities then weigh the
    samples (soft) or leave them out (hard).
    """

    Settings = CleanNetSettings
    title = "CleanNet"
    reference = "Lee et al., CleanNet: Transfer Learning for Scalable Image Classifier Training"
    settings: CleanNetSettings
    network: Classifier
    verified: Tensor
    similarity: Tensor
    cleaner: Comparison

    def check(self, source: Source, noisy: bool) -> None:
        """Somebody must have checked labels, or a share of the truth stand in for that."""
        check_verified(source, self.settings.verified_share, noisy)

    def prepare(self, source: Source) -> None:
        """Take or draw the checked labels; until CleanNet is trained all labels count alike."""
        self.classes = source.closed
        checked = verification(source, self.settings.verified_share)
        self.remember("verified", torch.from_numpy(checked))
        self.remember("similarity", torch.ones(len(source)))
        # Trained between epochs by an optimizer of its own, and not with the classifier.
        self.remember("cleaner", Comparison(self.network.num_features).requires_grad_(False))

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Train CleanNet on the present features, and compare every sample with its class."""
        since = epoch - self.settings.warm_up
        again = since % self.settings.refresh == 0 if self.settings.refresh else since == 0
        if since < 0 or not again:
            return
        # Features are not negative behind a ReLU, and long-tailed: centres are found first.
        features = survey.features(self.network).clamp(min=0)
        references = class_references(
            features, survey.labels, self.classes, self.settings.references
        ).log1p()
        features = features.log1p()
        if self.settings.standardise:
            middle, spread = features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)
            features, references = (features - middle) / spread, (references - middle) / spread
        generator = torch.Generator().manual_seed(survey.seed)
        with torch.enable_grad():
            self._train_cleaner(features, references, survey.labels, generator)
        found = [
            self.cleaner(some, references, label)[0]
            for some, label in zip(features.split(4096), survey.labels.split(4096), strict=True)
        ]
        self.similarity.copy_(torch.cat(found))

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy, each sample weighed by its similarity to its label's class."""
        logits = self.network(batch.images).float()
        similarity = self.similarity[batch.index]
        right = similarity > self.settings.margin
        weight = right.float() if self.settings.variant == "hard" else similarity.clamp(min=0)
        losses = F.cross_entropy(logits, batch.label, reduction="none")
        return StepResult(
            batch_mean(weight * losses),
            **describe(logits, batch.label),
            clean_likelihood=similarity.clamp(0, 1),
            # The method knows no foreign samples.
            group=torch.where(right, CLEAN, ID),
        )

    def _train_cleaner(
        self, features: Tensor, references: Tensor, labels: Tensor, generator: torch.Generator
    ) -> None:
        s = self.settings
        checked = self.verified.cpu() != NOT_CHECKED
        pairs = draw_pairs(labels.cpu(), checked, s.pairs, generator)
        self.cleaner.requires_grad_(True)
        optimizer = torch.optim.SGD(self.cleaner.groups(), lr=s.learning_rate, momentum=0.9)
        for update, index in zip(range(s.updates), pairs, strict=False):
            if update == s.updates // 2:
                for group in optimizer.param_groups:
                    group["lr"] = s.learning_rate / 10
            index = index.to(features.device)
            query, label = features[index], labels[index]
            similarity, rebuilt = self.cleaner(query, references, label)
            # The second half stands for labels nobody checked, whatever is known of them.
            verified = self.verified[index].clone()
            verified[s.pairs :] = NOT_CHECKED
            loss = verification_loss(similarity, verified, s)
            loss = loss + s.reconstruction * (query - rebuilt).square().sum(dim=1)
            optimizer.zero_grad(set_to_none=True)
            loss.mean().backward()
            optimizer.step()
        self.cleaner.requires_grad_(False)
        self.cleaner.zero_grad(set_to_none=True)


class Comparison(nn.Module):
    """CleanNet proper: an encoder of images, one of classes, and the cosine between them.

    Layer sizes are the code's for features of a ResNet-50, and so are the first weights and the
    tanh behind every layer but the scores of the attention. There is no dropout, which is the
    default of its command line (its example has 0.2).
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.query = nn.Sequential(
            nn.Linear(features, 256), nn.Tanh(), nn.Linear(256, 128), nn.Tanh()
        )
        self.rebuild = nn.Sequential(
            nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, features), nn.Tanh()
        )
        self.reference = nn.Sequential(
            nn.Linear(features, 512), nn.Tanh(), nn.Linear(512, 256), nn.Tanh()
        )
        self.attention = nn.Sequential(
            nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1, bias=False)
        )
        self.summary = nn.Sequential(nn.Linear(256, 128), nn.Tanh())
        for layer in self._layers():
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        bound = (6 / 512) ** 0.5  # to the code its context is a vector: 256 in, 256 out
        nn.init.uniform_(self._context, -bound, bound)

    @property
    def _context(self) -> Tensor:
        """What the attention looks for."""
        return self.attention[2].get_parameter("weight")

    def _layers(self) -> list[nn.Linear]:
        """All that have a bias, and whose weights decay."""
        found = (layer for layer in self.modules() if isinstance(layer, nn.Linear))
        return [layer for layer in found if layer.bias is not None]

    def groups(self) -> list[dict[str, Any]]:
        """Parameters for an optimizer: in the code weights decay, biases and context do not."""
        layers = self._layers()
        free = [self._context, *(layer.bias for layer in layers)]
        return [
            {"params": [layer.weight for layer in layers], "weight_decay": WEIGHT_DECAY},
            {"params": free, "weight_decay": 0.0},
        ]

    def forward(self, features: Tensor, references: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Similarity of each image to its label's class, and the image's features rebuilt.

        Args:
            features: of the images, ``(batch, features)``.
            references: what stands for each class, ``(classes, references, features)``.
            label: ``(batch,)``.
        """
        encoded = self.reference(references)
        weight = self.attention(encoded).softmax(dim=1)
        classes = self.summary((weight * encoded).sum(dim=1))
        query = self.query(features)
        return F.cosine_similarity(query, classes[label], dim=1), self.rebuild(query)


def draw_pairs(
    labels: Tensor, checked: Tensor, count: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Samples of one update after the other, without end, as the code draws them.

    Args:
        labels: given, ``(N,)``.
        checked: whose labels were checked, ``(N,)`` bool.
        count: of either half: checked ones in random order, each again only when all have had
            their turn; then any, of classes that are equally likely.
        generator: draws them.
    """
    known = (checked if checked.any() else ~checked).nonzero().squeeze(1)
    members = [part for part in labels.argsort().split(labels.bincount().tolist()) if len(part)]
    sizes = torch.tensor([len(part) for part in members])
    every, starts = torch.cat(members), sizes.cumsum(0) - sizes
    left = known[:0]
    while True:
        while len(left) < count:
            left = torch.cat([left, known[torch.randperm(len(known), generator=generator)]])
        of_class = torch.randint(len(members), (count,), generator=generator)
        place = (torch.rand(count, generator=generator) * sizes[of_class]).long()
        yield torch.cat([left[:count], every[starts[of_class] + place]])
        left = left[count:]


def verification_loss(similarity: Tensor, verified: Tensor, settings: CleanNetSettings) -> Tensor:
    """What a similarity costs, given whether its label was checked, ``(batch,)``.

    A label nobody checked counts as right where the similarity says so already.
    """
    unchecked = verified == NOT_CHECKED
    right = torch.where(unchecked, similarity.detach() >= settings.margin, verified == RIGHT)
    too_like = settings.wrong_weight * (similarity - settings.margin).clamp(min=0)
    loss = torch.where(right, 1 - similarity, too_like)
    return torch.where(unchecked, settings.unchecked_weight, 1.0) * loss


def class_references(features: Tensor, labels: Tensor, classes: int, count: int) -> Tensor:
    """Centres of each class's features by k-means, ``(classes, count, features)``.

    A class with fewer samples repeats them; one without any is all zeros.
    """
    from sklearn.cluster import KMeans

    centres = features.new_zeros(classes, count, features.shape[1])
    values, own = features.cpu().numpy(), labels.cpu().numpy()
    for number in range(classes):
        members = values[own == number]
        if len(members) > count:
            found = KMeans(count, n_init=KMEANS_STARTS, max_iter=KMEANS_STEPS, random_state=0)
            found = found.fit(members)
            members = found.cluster_centers_
        if len(members):
            rows = np.resize(np.arange(len(members)), count)
            centres[number] = torch.from_numpy(members[rows]).to(centres)
    return centres


def check_verified(source: Source, share: float | None, noisy: bool = False) -> None:
    """Raise an error unless labels were checked, or can be compared with the truth.

    Args:
        source: the data.
        share: of labels to compare.
        noisy: whether its truth may still become known.
    """
    if source.verified is not None:
        return
    if share is None:
        raise UserError(
            "cleannet learns from labels that people have checked, and this data has none. On data "
            "that knows its truth a share of it can stand in for them: method.verified_share=0.1. "
            "Otherwise choose a method that needs none, such as deepself."
        )
    if source.true is None and not noisy:
        raise UserError(
            "method.verified_share compares labels with the truth, and this data does not know it. "
            "cleannet needs labels that people have checked: choose a method that needs none."
        )


def verification(source: Source, share: float | None) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Which labels were checked, and what came out: -1, 0 wrong, 1 right, ``(N,)``.

    Args:
        source: the data; its own checked labels win.
        share: of labels to check against the data's truth where it has none of its own.
    """
    check_verified(source, share)
    if source.verified is not None:
        return source.verified
    assert share is not None
    assert source.kind is not None
    drawn = torch.randperm(len(source))[: max(1, round(share * len(source)))].numpy()
    checked = np.full(len(source), NOT_CHECKED, dtype=np.int8)
    checked[drawn] = np.where(source.kind[drawn] == CLEAN, RIGHT, WRONG)
    return checked
