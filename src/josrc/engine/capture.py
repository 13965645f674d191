"""How training steps are carried out: eagerly, compiled, or replayed as one CUDA graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from josrc.data.loaders import EvaluationSet
from josrc.distributed import portion, world
from josrc.engine.metrics import right_answers
from josrc.engine.optimizer import FusedAdam
from josrc.engine.state import TrainState
from josrc.errors import InterruptedRunError, UserError
from josrc.kernels import fingerprint
from josrc.models import hardware

# Another thread may pin the next batches while this one captures; it takes no part in the graph.
# In torch's default mode its first call would end the capture, and itself.
CAPTURE_MODE = "thread_local"
# Trains on the next samples, this many.
Stepper = Callable[[int], None]


class CapturedStepper:
    """Forward and backward compiled, the whole step replayed as a CUDA graph.

    A graph is captured per batch size and kind of step; whatever else changes between epochs is
    read from tensors. (An optimizer that bakes its momentum into its kernels is captured again when
    that changes.) The first steps of each size and kind run without a graph, and train like any
    other: they let the libraries allocate what they need. The last, smaller batch is captured
    without compilation, which would cost more than it saves.
    """

    WARM_UP = 3
    # One choice for each kernel, not the fastest of several: the same code on every start, and
    # less time to compile.
    OPTIONS: ClassVar[dict[str, Any]] = {"deterministic": True}

    def __init__(self, state: TrainState) -> None:
        self.state = state
        _prepare_compiler()
        self.compiled: Callable[[int], Tensor] = torch.compile(
            state.forward, fullgraph=True, dynamic=False, options=self.OPTIONS
        )
        self.adam: FusedAdam | None = None
        one_rate = len(state.optimizer.param_groups) == 1
        if hardware.has_kernels() and one_rate and isinstance(state.optimizer, torch.optim.Adam):
            self.adam = FusedAdam(state.optimizer)
        self.graphs: dict[tuple[int, str, float], torch.cuda.CUDAGraph] = {}
        self.calls: Counter[tuple[int, str]] = Counter()
        self.stream = torch.cuda.Stream(state.device)
        # Graphs that run one after the other share their memory: none hands tensors to the next.
        self.pool = torch.cuda.graph_pool_handle()
        hardware.prepare_for_replay(state.method)

    def __call__(self, size: int) -> None:
        """Train on the next ``size`` samples."""
        if self.adam is not None:
            self.adam.set_beta1(self.state.momentum)
        kind = size, self.state.step_name
        if not self.ready(size) and self.calls[kind] < self.WARM_UP:
            self.calls[kind] += 1
            self._run_on_side_stream(size)
            return
        if not self.ready(size):
            self.graphs[self._key(size)] = self._capture(size)
        self.graphs[self._key(size)].replay()

    def ready(self, size: int) -> bool:
        """Whether a step of this size is captured, so that nothing can go wrong any more."""
        return self._key(size) in self.graphs

    def _key(self, size: int) -> tuple[int, str, float]:
        momentum = self.state.momentum if self.adam is None else 0.0
        return size, self.state.step_name, momentum

    def _forward(self, size: int) -> Tensor:
        whole = size == self.state.loader.step_size
        compiled = whole and self.state.method.compiles
        return self.compiled(size) if compiled else self.state.forward(size)

    def _update(self) -> None:
        if self.adam is not None and not self.adam.step():
            self.adam = None  # a parameter without gradient: a case for the optimizer itself
        if self.adam is None:
            self.state.optimizer.step()
        self.state.method.after_update()

    def _run_on_side_stream(self, size: int) -> None:
        current = torch.cuda.current_stream(self.state.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.state.train_step(size, self._forward, self._update)
        current.wait_stream(self.stream)

    def _capture(self, size: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, self.pool, self.stream, CAPTURE_MODE):
            self.state.train_step(size, self._forward, self._update)
        return graph


class CompiledStepper:
    """The step compiled and no graph captured: for several processes, which no CUDA graph spans.

    In one process it is compiled whole. In several it is that of each process's part of a batch,
    inside of what averages gradients; it may be compiled in pieces, between the sums over all of
    them. The last, smaller batch runs eagerly.
    """

    def __init__(self, state: TrainState) -> None:
        self.state = state
        _prepare_compiler()
        self.compiled: Callable[[int], Tensor] | None = None
        if state.parallel is None:
            self.compiled = torch.compile(state.forward, dynamic=False)
        else:
            unit, size = state.method.needs.unit, state.loader.step_size
            own = portion(size, unit)
            state.parallel.module.compile_step(own.stop - own.start)

    def __call__(self, size: int) -> None:
        """Train on the next ``size`` samples."""
        whole = size == self.state.loader.step_size
        self.state.train_step(size, self.compiled if whole else None)


def _prepare_compiler() -> None:
    # torch keeps eight versions of a function and no more; every run's state is one of its own.
    torch.compiler.reset()
    torch.compiler.config.cache_key_tag = f"josrc-{fingerprint()}"
    hardware.has_kernels()  # imported before anything is traced


class CapturedTester:
    """The test of each network, replayed as a CUDA graph from its second time on."""

    def __init__(
        self,
        pool: Any,
        stream: torch.cuda.Stream,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.pool, self.stream, self.notice = pool, stream, notice
        self.graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.calls: Counter[tuple[int, int]] = Counter()
        self.failed = False

    def __call__(self, network: nn.Module, images: EvaluationSet, labels: Tensor) -> Tensor:
        """How many answers are right; the tensor holds it until the next test of the network."""
        key = id(network), id(images)
        self.calls[key] += 1
        # Images that come from files have no place of their own on the device.
        if self.failed or images.tiles is None or self.calls[key] == 1:
            return right_answers(network, images, labels)
        if key not in self.graphs:
            try:
                self.graphs[key] = self._capture(network, images, labels)
            except Exception as error:  # a network of any make can do what a graph can't
                self.failed = True
                self.notice(
                    f"Testing can't be captured, so it runs eagerly and slower: {_first(error)}"
                )
                return right_answers(network, images, labels)
        graph, right = self.graphs[key]
        graph.replay()
        return right

    def _capture(
        self, network: nn.Module, images: EvaluationSet, labels: Tensor
    ) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        right = torch.zeros((), dtype=torch.long, device=labels.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, self.pool, self.stream, CAPTURE_MODE):
            right.copy_(right_answers(network, images, labels))
        return graph, right


class FallbackStepper:
    """Captured steps as long as they can be had; eager ones, with a word why, where they can't."""

    def __init__(self, captured: CapturedStepper, notice: Callable[[str], None]) -> None:
        self.captured, self.state, self.notice = captured, captured.state, notice
        self.failed = False

    def __call__(self, size: int) -> None:
        """Train on the next ``size`` samples."""
        if self.failed:
            self.state.train_step(size)
        elif self.captured.ready(size):
            self.captured(size)
        else:
            self._try(size)

    def _try(self, size: int) -> None:
        place = self.state.mark()
        try:
            self.captured(size)
        except (UserError, InterruptedRunError):
            raise
        except Exception as error:  # compilers and capture have errors of every kind
            self.failed = True
            self.state.go_back(place)
            self.notice(
                f"The step can't be captured, so it runs eagerly and slower: {_first(error)}"
            )
            self.state.train_step(size)


def _first(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def create_stepper(
    state: TrainState, engine: str, notice: Callable[[str], None] = lambda text: None
) -> Stepper:
    """What carries out the steps of a run.

    Args:
        state: whose steps.
        engine: ``eager``; ``captured``, which fails where that can't be; ``compiled``; or ``auto``.
        notice: told why ``auto`` went on eagerly on a GPU.
    """
    on_gpu = state.device.type == "cuda"
    if engine == "captured" and not on_gpu:
        raise UserError(
            "The captured engine replays CUDA graphs and needs a GPU. Use --engine auto."
        )
    if engine == "captured" and world() > 1:
        raise UserError(
            "The captured engine supports only a single process. With several: --engine compiled."
        )
    if engine == "compiled" and state.method.compiles:
        return CompiledStepper(state)
    if engine in ("eager", "compiled") or not on_gpu:
        return state.train_step
    if world() > 1:
        notice(
            "With several processes, steps run eagerly: capture supports one only. To compile "
            "them: --engine compiled."
        )
        return state.train_step
    captured = CapturedStepper(state)
    state.tester = CapturedTester(captured.pool, captured.stream, notice)
    return captured if engine == "captured" else FallbackStepper(captured, notice)
