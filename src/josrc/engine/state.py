"""A program: networks, optimizer, ledger and data on one device, and the training step over them.

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
from josrc.data.image_files import ImageFiles
from josrc.data.loaders import EvaluationSet, loader_for
from josrc.data.noise import Labels
from josrc.data.source import Images, Source
from josrc.data.views import Normalise, create_view
from josrc.engine.ledger import Ledger
from josrc.engine.metrics import Row, Truth, right_answers
from josrc.engine.optimizer import create_optimizer, parameters_of, set_optimizer
from josrc.engine.parallel import average_statistics, in_parallel, with_statistics
from josrc.methods import Method, StepResult, get_method
from josrc.methods._survey import Survey
from josrc.models import create_model

Tester = Callable[[nn.Module, EvaluationSet, Tensor], Tensor]


class Program:
    """Everything a run holds on its device.

    Attributes:
        method: the networks and what a step computes.
        optimizer: over the method's trained parameters.
        ledger: what is known of every sample.
        loader: the training data.
        scalars: the schedule's values for this epoch, as tensors the step reads.
        loss_sum: sum of the losses of this epoch's samples.
        tester: counts the right answers of a network.
        surveyed: for how many epochs the method has looked at the whole training set.
        parallel: the method's step with gradients averaged over processes, where there are several.
        own: which samples this process wrote about since the processes last put all together.
    """

    def __init__(self, config: RunConfig, source: Source, device: torch.device) -> None:
        self.device = device
        self.bfloat16 = uses_bfloat16(config, device)
        self.method = with_statistics(create_method(config, source), config, device).to(device)
        self.method.to(memory_format=torch.channels_last)
        trained = [p for p in self.method.parameters() if p.requires_grad]
        self.optimizer = create_optimizer(trained, config.optimizer, device)
        self.ledger = Ledger(len(source), device)
        normalise = Normalise(source, config.model.image_size, device, config.views.normalise)
        views, workers = self.method.views, config.data.workers
        view = create_view(config.views, source.size, views)
        self.loader = loader_for(source)(
            source,
            view,
            views,
            config.batch_size,
            normalise,
            device,
            workers,
            self.method.draws,
            self.method.group_size,
            config.data.epoch_samples,
        )

        def evaluation(images: Images, labels: Labels) -> EvaluationSet:
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
        self.own = torch.zeros(len(source), dtype=torch.bool, device=device)
        self.parallel = None if distributed.world() == 1 else in_parallel(self.method, device)
        self.tester: Tester = right_answers
        self.scalars = {
            name: torch.tensor(float(value), device=device)
            for name, value in self.method.schedule(0, config.epochs).items()
        }

    # --- an epoch --------------------------------------------------------------------------------

    def begin_epoch(self, config: RunConfig, epoch: int, position: int = 0) -> Row:
        """Set schedule, optimizer and data for an epoch; returns what was set."""
        schedule = self.method.schedule(epoch, config.epochs)
        for name, value in schedule.items():
            self.scalars[name].fill_(value)
        lr, self.momentum = config.optimizer.at(epoch, config.epochs)
        set_optimizer(self.optimizer, lr, self.momentum)
        self.loader.begin_epoch(config.seed, epoch, position)
        if position == 0:
            self.loss_sum.zero_()
        self.method.train()
        self.method.phase = self.method.phase_at(epoch, config.epochs)
        self._survey(config.seed, epoch)
        return {"epoch": epoch + 1, "lr": lr, "threshold": schedule.get("threshold")}

    @torch.no_grad()
    def _survey(self, seed: int, epoch: int) -> None:
        """Let the method look at the whole set, unless it did before the run was stopped."""
        if int(self.surveyed) > epoch:
            return
        survey = Survey(self.loader, self._autocast, seed * 1_000_003 + epoch, self._forget_updates)
        self.method.before_epoch(epoch, survey)
        if type(self.method).before_epoch is not Method.before_epoch:
            # Computed alike by all; to the last bit only if they take it from one of them.
            distributed.copy_from_main(self.method.state_dict().values())
        self.surveyed.fill_(epoch + 1)

    def _forget_updates(self) -> None:
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    def forward(self, size: int) -> Tensor:
        """Views, loss and ledger of the next ``size`` samples: the part that can be compiled."""
        batch = self.loader.fetch(size)
        step = self.parallel or self.method.step
        with self._autocast():
            found: StepResult = step(batch, self.scalars)
        self.ledger.record(batch.index, batch.label, found)
        if self.parallel and (distributed.is_divided() or distributed.is_main()):
            self.own[batch.index] = True
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
        with distributed.dividing(size, self.loader.group_size):
            loss = (forward or self.forward)(size)
            loss.backward()
        (update or self.update)()
        self.optimizer.zero_grad(set_to_none=True)

    def update(self) -> None:
        """Move the networks along their gradients."""
        self.optimizer.step()
        self.method.after_update()

    def unite(self) -> None:
        """Put together what several processes know, so that each holds the state of the run."""
        if self.parallel is None:
            return
        average_statistics(self.method)
        self.ledger.unite(self.own)
        for name, memory in self.method.named_buffers():
            if name in self.method.memory and len(self.own) in memory.shape:
                distributed.unite(memory, self.own, memory.shape.index(len(self.own)))
        self.own.zero_()

    def end_epoch(self) -> Row:
        """The epoch's loss, selection and accuracies."""
        self.unite()
        self.method.eval()
        evaluated = self.method.evaluated()
        tested: dict[str, Tensor] = {}
        if self.test_set is not None:
            for name, networks in evaluated.items():
                tested[name] = self._test(networks, self.test_set)
        if self.val_set is not None:
            # Held-out labels are as doubtful as the others: this is agreement, and not accuracy.
            tested["agreement"] = self._test(evaluated["test_accuracy"], self.val_set)
        self.method.train()
        # The device has all its work before the host waits for a first result.
        group = self.ledger.fields["group"] if self.method.selects else None
        row = self.truth.metrics(self.ledger.fields["prediction"], group)
        row["loss"] = self.loss_sum.item() / len(self.loader)
        return row | {name: value.item() for name, value in tested.items()}

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
        if self.val_set is None:
            return None
        evaluated = self.method.evaluated()
        networks = evaluated.get("teacher_accuracy") or evaluated["test_accuracy"]
        self.method.eval()
        with self._autocast():
            found = [
                torch.stack([one(images).float().softmax(dim=1) for one in networks]).mean(dim=0)
                for images in self.val_set
            ]
        self.method.train()
        return distributed.gathered(torch.cat(found), distributed.portion(self.held), self.held)

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
        self.optimizer.zero_grad(set_to_none=True)

    # --- state -----------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """All state by name: networks, optimizer, ledger, running loss."""
        state = {f"method.{key}": value for key, value in self.method.state_dict().items()}
        for place, parameter in enumerate(parameters_of(self.optimizer)):
            for key, value in self.optimizer.state[parameter].items():
                state[f"optimizer.{place}.{key}"] = value
        state |= {f"ledger.{key}": value for key, value in self.ledger.fields.items()}
        state["loss_sum"] = self.loss_sum
        state["surveyed"] = self.surveyed
        return state

    @torch.no_grad()
    def load(self, values: dict[str, Tensor]) -> None:
        """Copy state into place; names and shapes must be this program's."""
        own = self.tensors()
        if own.keys() != values.keys():
            odd = sorted(own.keys() ^ values.keys())
            raise ValueError(f"the state does not belong to this run: {odd[0]}")
        for key, value in own.items():
            if value.shape != values[key].shape:
                raise ValueError(f"the state does not belong to this run: shape of {key}")
            value.copy_(values[key])

    @torch.no_grad()
    def restart(self, config: RunConfig, source: Source) -> None:
        """Begin a new run in place: new seed, images and labels, the same compiled code."""
        self.method.settings = config.method
        fresh = create_method(config, source).state_dict()
        state = {key: torch.zeros_like(value) for key, value in self.tensors().items()}
        state |= {f"method.{key}": value for key, value in fresh.items()}
        unwritten = Ledger(len(source), self.device).fields
        state |= {f"ledger.{key}": value for key, value in unwritten.items()}
        self.load(state)
        self.loader.refill(source)
        self.truth = Truth(source, self.device)


def uses_bfloat16(config: RunConfig, device: torch.device) -> bool:
    """Whether networks run in bfloat16: on a GPU, unless another precision is asked for."""
    wanted = "bfloat16" if device.type == "cuda" else "float32"
    return (wanted if config.precision == "auto" else config.precision) == "bfloat16"


def portion_of(images: Images, part: slice) -> Images:
    """Some images in a row."""
    if part == slice(0, len(images)):
        return images
    if isinstance(images, ImageFiles):
        return images.take(np.arange(part.start, part.stop))
    return images[part]


def create_method(config: RunConfig, source: Source) -> Method:
    """The method with freshly drawn networks, on the CPU: the same weights for every device."""
    torch.manual_seed(config.seed)
    size = config.model.image_size
    image_size = (size, size) if size else source.size

    def create_network() -> nn.Module:
        return create_model(
            config.model.name,
            source.closed,
            in_channels=source.images.shape[3],
            image_size=image_size,
            head=config.model.head,
            width=config.model.width,
            pretrained=config.model.pretrained,
            weights=config.model.weights,
        )

    method = get_method(config.method.name)(config.method, create_network)
    method.prepare(source)
    return method
