"""All that a run holds on its device: networks, optimizer, ledger, data, and the step over them.

All of its state is named tensors that are changed in place, never replaced. That is what lets a
captured step survive a new epoch, a resumed run and, in a benchmark, the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from josrc import distributed
from josrc.config import RunConfig
from josrc.data.features import FeatureLoader, FeatureSet, to_float
from josrc.data.images import Images, ImageSpec
from josrc.data.loaders import EvaluationSet, loader_for
from josrc.data.noise import Labels
from josrc.data.source import Source
from josrc.data.views import Normalise, create_stored_view, create_view
from josrc.engine.ledger import Ledger
from josrc.engine.metrics import Row, Truth, right_answers
from josrc.engine.optimizer import create_optimizer, parameters_of, set_optimizer
from josrc.engine.parallel import average_statistics, in_parallel, with_statistics
from josrc.engine.planting import Likeness, PlantedErrors, draw_errors, planting_epoch
from josrc.methods import Method, StepResult, get_method
from josrc.methods._survey import Survey
from josrc.models import create_model, mean_probabilities
from josrc.models.factory import Classifier

Tester = Callable[[nn.Module, EvaluationSet, Tensor], Tensor]


class TrainState:
    """Everything a run holds on its device.

    Attributes:
        method: the networks and what a step computes.
        optimizer: over the method's trained parameters.
        ledger: what is known of every sample.
        loader: the training data.
        scalars: the schedule's values for this epoch, as tensors the step reads.
        loss_sum: sum of the losses of this epoch's samples.
        tester: counts the right answers of a network.
        planted: errors that were put into the labels on purpose.
        surveyed: for how many epochs the method has looked at the whole training set.
        step_name: which function of the method is the step of this epoch.
        parallel: the method's step with gradients averaged over processes, where there are several.
        own: which samples this process wrote about since the processes last put all together.
    """

    def __init__(
        self,
        config: RunConfig,
        source: Source,
        device: torch.device,
        method: Method | None = None,
    ) -> None:
        """Set up a run at its beginning.

        Args:
            config: what is run.
            source: the data.
            device: where.
            method: the method with its first weights, if they have been drawn before.
        """
        self.device = device
        self.bfloat16 = uses_bfloat16(config, device)
        if method is None:
            method = create_method(config, source.spec, source.closed)
        method.settings = config.method  # with what only the data could tell
        method.prepare(source)
        self.method = with_statistics(method, config, device).to(device)
        self.method.to(memory_format=torch.channels_last)
        trained = [(name, p) for name, p in self.method.named_parameters() if p.requires_grad]
        self.optimizer = create_optimizer(trained, config.optimizer, device)
        self.ledger = Ledger(len(source), device)
        normalise = Normalise(source.spec, config.model.image_size, device, config.views.normalise)
        needs, workers = self.method.needs, config.data.workers
        self.frozen = config.model.train == "head"
        view = (
            create_stored_view(config.views, self.num_features, needs.views)
            if self.frozen
            else None
        )
        self.loader = (FeatureLoader if view else loader_for(source))(
            source,
            needs,
            view or create_view(config.views, source.size, needs.views, device),
            to_float if view else normalise,
            device,
            batch_size=config.batch_size,
            workers=workers,
            epoch_samples=config.data.epoch_samples,
        )

        def evaluation(images: Images, labels: Labels) -> EvaluationSet:
            if view is not None:
                return FeatureSet(labels, view.features, device)
            part = distributed.portion(len(labels))
            images, labels = portion_of(images, part), labels[part]
            return EvaluationSet(images, labels, normalise, source.size, device, workers)

        self.test_set = self.val_set = None
        if source.test_images is not None and source.test_labels is not None:
            self.test_set = evaluation(source.test_images, source.test_labels)
        if source.val is not None:
            self.val_set = evaluation(source.val.images, source.val.given)
            self.held = len(source.val)
        self.truth = Truth(source, device)
        self.loss_sum = torch.zeros((), device=device)
        self.surveyed = torch.zeros((), dtype=torch.long)
        self.planted = PlantedErrors(config.plant, source.given, device)
        self.own = torch.zeros(len(source), dtype=torch.bool, device=device)
        self.parallel = None if distributed.world() == 1 else in_parallel(self.method, device)
        self.tester: Tester = right_answers
        self.step_name = "step"
        self.survey_seed = config.seed
        exact = self.method.exact
        self.scalars = {
            name: torch.tensor(
                value, dtype=torch.float64 if name in exact else torch.float32, device=device
            )
            for name, value in self.method.schedule(0, config.epochs).items()
        }

    # --- an epoch --------------------------------------------------------------------------------

    def begin_epoch(self, config: RunConfig, epoch: int, position: int = 0) -> Row:
        """Set schedule, optimizer and data for an epoch; returns what was set."""
        if epoch == planting_epoch(config.epochs):
            self._plant(config.seed)
        schedule = self.method.schedule(epoch, config.epochs)
        for name, value in schedule.items():
            self.scalars[name].fill_(value)
        lr, self.momentum = config.optimizer.at(epoch, config.epochs)
        set_optimizer(self.optimizer, lr, self.momentum)
        self.loader.begin_epoch(config.seed, epoch, position)
        if position == 0:
            self.loss_sum.zero_()
        self.method.train()
        self.step_name = self.method.step_for(epoch, config.epochs).__name__
        self.survey_seed = config.seed * 1_000_003 + epoch
        self._survey(epoch)
        own = self.method.order(epoch, self.survey(self.survey_seed))
        if own is not None:
            self.loader.follow(own, config.seed, epoch, position)
        return {"epoch": epoch + 1, "lr": lr, "threshold": schedule.get("threshold")}

    @torch.no_grad()
    def _survey(self, epoch: int) -> None:
        """Let the method look at the whole set, unless it did before the run was stopped."""
        if int(self.surveyed) > epoch:
            return
        self._look(epoch, "before_epoch")
        self.surveyed.fill_(epoch + 1)

    @torch.no_grad()
    def _look(self, epoch: int, hook: str) -> None:
        getattr(self.method, hook)(epoch, self.survey(self.survey_seed))
        if getattr(type(self.method), hook) is not getattr(Method, hook):
            # Computed alike by all; to the last bit only if they take it from one of them.
            distributed.copy_from_main(self.method.state_dict().values())

    @torch.no_grad()
    def _plant(self, seed: int) -> None:
        """Plant errors, unless it was done before the run was stopped, or none are wanted.

        The ledger starts over: what it knew was found out with other labels.
        """
        planted = self.planted
        if planted.there or not len(planted):
            return
        probabilities = self.survey(seed).probabilities(self.trusted)
        likeness = Likeness.of(probabilities, self.loader.label)
        given, classes = self.loader.label.cpu().numpy(), probabilities.shape[1]
        drawn = distributed.broadcast(
            lambda: draw_errors(likeness, given, classes, len(planted), seed)
        )
        planted.set(*(torch.from_numpy(values) for values in drawn))
        self.loader.relabel(planted.index, planted.label)
        self.method.relabel(planted.index, planted.label)
        self.ledger.clear()

    @property
    def trusted(self) -> list[nn.Module]:
        """The networks whose answers count beyond training: the teacher, or those tested."""
        teacher = self.method.teacher
        return list(self.method.tested) if teacher is None else [teacher]

    @property
    def classifiers(self) -> list[Classifier]:
        """Those of them, or inside of them, that have features."""
        parts = (part for network in self.trusted for part in network.modules())
        return [part for part in parts if isinstance(part, Classifier)]

    @property
    def num_features(self) -> int:
        """How many features the head of a network takes."""
        return self.classifiers[0].num_features

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """What a head sees of images, ``(batch, features)``; frozen backbones are all the same."""
        self.method.eval()
        with self._autocast():
            found = self.classifiers[0].features(images)
        self.method.train()
        return found

    def unlearned_features(self) -> Tensor | None:
        """Of every image the mean over its stored views, if nothing is learned of features."""
        return self.loader.tiles.float().mean(dim=1) if self.frozen else None

    def survey(self, seed: int) -> Survey:
        """A look at the whole training set."""
        return Survey(self.loader, self._autocast, seed, self._reset_optimizer)

    def _reset_optimizer(self) -> None:
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    def forward(self, size: int) -> Tensor:
        """Views, loss and ledger of the next ``size`` samples: the part that can be compiled."""
        batch = self.loader.fetch(size)
        with self._autocast():
            found: StepResult
            if self.parallel is not None:
                found = self.parallel(self.step_name, batch, self.scalars)
            else:
                found = getattr(self.method, self.step_name)(batch, self.scalars)
        index, label = batch.index, batch.label
        if found.index is not None:
            index, label = found.index, self.loader.label[found.index]
        self.ledger.record(index, label, found)
        if len(self.planted):
            self.planted.record(index, found.mean_probabilities)
        if self.parallel and (distributed.is_divided() or distributed.is_main()):
            self.own[index] = True
        self.loss_sum += found.loss.detach() * size
        self.loader.cursor += size
        return found.loss

    def train_step(
        self,
        size: int,
        forward: Callable[[int], Tensor] | None = None,
        update: Callable[[], None] | None = None,
    ) -> None:
        """One whole training step."""
        with distributed.dividing(size, self.method.needs.unit):
            loss = (forward or self.forward)(size)
            loss.backward()
        (update or self.update)()
        self.optimizer.zero_grad()

    def update(self) -> None:
        """Move the networks along their gradients."""
        self.optimizer.step()
        self.method.after_update()

    def merge(self) -> None:
        """Put together what several processes know, so that each holds the state of the run."""
        if self.parallel is None:
            return
        average_statistics(self.method)
        self.ledger.merge(self.own)
        if self.planted.there:
            distributed.merge_rows(self.planted.seen, self.own[self.planted.index])
        for name, memory in self.method.named_buffers():
            if name in self.method.memory and len(self.own) in memory.shape:
                distributed.merge_rows(memory, self.own, memory.shape.index(len(self.own)))
        self.own.zero_()

    def end_epoch(self) -> Row:
        """The epoch's loss, selection and accuracies."""
        self.merge()
        self._look(int(self.surveyed) - 1, "after_epoch")
        self.method.eval()
        tested, teacher = self.method.tested, self.method.teacher
        accuracy: dict[str, Tensor] = {}
        if self.test_set is not None:
            accuracy["test_accuracy"] = self._test(tested, self.test_set)
            if teacher is not None:
                accuracy["teacher_accuracy"] = self._test([teacher], self.test_set)
        if self.val_set is not None:
            # Held-out labels are as doubtful as the others: this is agreement, and not accuracy.
            accuracy["agreement"] = self._test(tested, self.val_set)
        self.method.train()
        # The device has all its work before the host waits for a first result.
        group = self.ledger.fields["group"] if self.method.selects else None
        row = self.truth.metrics(self.ledger.fields["prediction"], group) | self.turned()
        row["loss"] = self.loss_sum.item() / len(self.loader)
        return row | {name: value.item() for name, value in accuracy.items()}

    def turned(self) -> Row:
        """How many labels the method has turned, and how many of these rightly."""
        labels = self.method.labels
        return {} if labels is None else self.truth.turned(labels)

    def _test(self, networks: Sequence[nn.Module], images: EvaluationSet) -> Tensor:
        """Mean accuracy of some networks in percent, on the device."""
        with self._autocast():
            right = [self.tester(network, images, images.labels) for network in networks]
        mean = torch.stack(right).double().mean()
        found, count = distributed.sums(mean, mean.new_full((), len(images.labels)))
        accuracy: Tensor = 100 * found / count
        return accuracy

    @torch.no_grad()
    def held_out_probabilities(self) -> Tensor | None:
        """What the teacher, or the tested networks, say of held-out images, ``(held, classes)``."""
        return self._over_held_out(lambda images: mean_probabilities(self.trusted, images))

    @torch.no_grad()
    def held_out_features(self, network: Classifier) -> Tensor | None:
        """What the head of a network sees of held-out images, ``(held, features)``."""
        return self._over_held_out(lambda images: network.features(images).float())

    def _over_held_out(self, answer: Callable[[Tensor], Tensor]) -> Tensor | None:
        if self.val_set is None:
            return None
        self.method.eval()
        with self._autocast():
            found = [answer(images) for images in self.val_set]
        self.method.train()
        return distributed.gather(torch.cat(found), distributed.portion(self.held), self.held)

    def _autocast(self) -> torch.autocast:
        # Without the cache: a cached copy of a weight must not outlive the step that captured it.
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.bfloat16, cache_enabled=False
        )

    def mark(self) -> tuple[Tensor, Tensor]:
        """The place in the epoch, to go back to if a step can't be carried out."""
        return self.loader.cursor.clone(), self.loss_sum.clone()

    def go_back(self, place: tuple[Tensor, Tensor]) -> None:
        """Undo what a failed step did to the place in the epoch; it updated no network."""
        self.loader.cursor.copy_(place[0])
        self.loss_sum.copy_(place[1])
        self.optimizer.zero_grad()

    # --- state -----------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name: networks, optimizer, ledger, running loss."""
        found = {f"method.{key}": value for key, value in self.method.state_dict().items()}
        for place, parameter in enumerate(parameters_of(self.optimizer)):
            for key, value in self.optimizer.state[parameter].items():
                found[f"optimizer.{place}.{key}"] = value
        found |= {f"ledger.{key}": value for key, value in self.ledger.fields.items()}
        found["loss_sum"] = self.loss_sum
        found["surveyed"] = self.surveyed
        return found | self.planted.tensors()

    @torch.no_grad()
    def load(self, values: dict[str, Tensor]) -> None:
        """Copy tensors into place; names and shapes must be these."""
        own = self.tensors()
        if own.keys() != values.keys():
            odd = sorted(own.keys() ^ values.keys())
            raise ValueError(f"the state does not belong to this run: {odd[0]}")
        for key, value in own.items():
            if value.shape != values[key].shape:
                raise ValueError(f"the state does not belong to this run: shape of {key}")
            value.copy_(values[key])
        if self.planted.there:
            self.planted.set(self.planted.index, self.planted.label)
            self.loader.relabel(self.planted.index, self.planted.label)

    @torch.no_grad()
    def restart(self, config: RunConfig, source: Source) -> None:
        """Begin a new run in place: new seed, images and labels, the same compiled code."""
        self.method.settings = config.method
        method = create_method(config, source.spec, source.closed)
        method.prepare(source)
        fresh = method.state_dict()
        state = {key: torch.zeros_like(value) for key, value in self.tensors().items()}
        state |= {f"method.{key}": value for key, value in fresh.items()}
        unwritten = Ledger(len(source), self.device).fields
        state |= {f"ledger.{key}": value for key, value in unwritten.items()}
        self.planted.clear(source.given)
        state |= self.planted.tensors()
        self.load(state)
        self.loader.refill(source)
        self.truth = Truth(source, self.device)


def uses_bfloat16(config: RunConfig, device: torch.device) -> bool:
    """Whether networks run in bfloat16: on a GPU, unless another precision is asked for."""
    wanted = "bfloat16" if device.type == "cuda" else "float32"
    return (wanted if config.precision == "auto" else config.precision) == "bfloat16"


def portion_of(images: Images, part: slice) -> Images:
    """Some images in a row; if it is all of them they are not copied."""
    whole = part == slice(0, len(images))
    return images if whole else images.take(np.arange(part.start, part.stop))


def create_method(config: RunConfig, spec: ImageSpec, classes: int) -> Method:
    """The method with freshly drawn networks, on the CPU: the same weights for every device.

    Args:
        config: which method and which network.
        spec: what the network sees of images.
        classes: how many it tells apart.
    """
    torch.manual_seed(config.seed)
    size = config.model.image_size
    image_size = (size, size) if size else spec.size

    def create_network() -> nn.Module:
        network = create_model(
            config.model.name,
            classes,
            in_channels=spec.channels,
            image_size=image_size,
            head=config.model.head,
            width=config.model.width,
            pretrained=config.model.pretrained,
            weights=config.model.weights,
        )
        if config.model.train == "head":
            network.freeze_backbone()
        return network

    return get_method(config.method.name)(config.method, create_network)
