"""The captured engine computes what the eager one computes."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from josrc.data.loaders import Batch
from josrc.data.registry import open_source
from josrc.engine.capture import (
    CapturedStepper,
    CapturedTester,
    FallbackStepper,
    create_stepper,
)
from josrc.engine.metrics import right_answers
from josrc.engine.state import TrainState
from josrc.errors import UserError
from josrc.methods import method_names
from josrc.methods.base import Scalars, StepResult
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure


def state(method: str, device: str, **options: object) -> TrainState:
    config = configure("digits-o", noise="symmetric", rate=0.5, method=method, **options)
    source = open_source(config.data)
    config = with_noise_rate(config, source)
    built = TrainState(config, source, torch.device(device))
    built.begin_epoch(config, 20)
    return built


# The others are compiled by the slow tests.
QUICK = ("josrc", "standard")


@pytest.mark.parametrize(
    "method",
    [m if m in QUICK else pytest.param(m, marks=pytest.mark.slow) for m in method_names()],
)
def test_a_step_compiles_without_breaks_and_agrees_with_eager(method: str) -> None:
    torch.compiler.reset()  # eight versions of one function are all it keeps
    # The eager backend traces the step whole, which is what compilation needs, and costs little.
    # A step that takes gradients must also be traced operation by operation; of one label set.
    meta = method == "mlnt"
    layers = [{"method": {"synthetic": 1}}] if meta else []
    plain, traced = state(method, "cpu", layers=layers), state(method, "cpu", layers=layers)
    backend = "aot_eager" if meta else "eager"
    forward = torch.compile(traced.forward, fullgraph=True, dynamic=False, backend=backend)
    for size in (128, 128, 28):
        plain.train_step(size)
        traced.train_step(size, forward if size == 128 else None)
    for name, value in plain.tensors().items():
        torch.testing.assert_close(traced.tensors()[name], value, msg=name)


class HostTraffic(TorchDispatchMode):
    """Notes what a step takes from the host, and what it asks of the data."""

    FORBIDDEN = ("lift_fresh", "nonzero", "masked_select", "_unique2", "unique_dim")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if name in self.FORBIDDEN or by_mask:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", ["josrc", "posterior", "sed", "dividemix"])
def test_a_step_takes_nothing_from_the_host_and_no_shape_from_the_data(method: str) -> None:
    # Either ends a capture, which no CPU does: the last, smaller batch is captured as it is.
    built = state(method, "cpu")
    with HostTraffic() as traffic:
        built.forward(28).backward()
        with torch.no_grad():
            built.method.after_update()
        assert traffic.found == []
        torch.tensor([1.0])
    assert traffic.found == ["lift_fresh"]


@pytest.mark.gpu
@pytest.mark.parametrize("size", [128, 28])
@pytest.mark.parametrize("method", method_names())
def test_the_first_captured_and_eager_steps_agree_within_bfloat16(
    method: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One step without a graph, then one captured and replayed, then one replayed. By the third, a
    # method that ranks samples may have turned a rounding into another choice.
    monkeypatch.setattr(CapturedStepper, "WARM_UP", 1)
    # Roundings of bfloat16 change MLNT's loss by up to a tenth: its teacher knows nothing yet.
    layers = [{"precision": "float32"}] if method == "mlnt" else []
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # float32 to the last bit
    losses = {}
    for engine in ("eager", "captured"):
        built = state(method, "cuda", layers=layers)
        stepper = create_stepper(built, engine)
        history = []
        for _ in range(3):
            before = built.loss_sum.item()
            stepper(size)
            history.append((built.loss_sum.item() - before) / size)
        assert (built.ledger.fields["prediction"] >= 0).sum() == 3 * size
        losses[engine] = torch.tensor(history)
    captured, eager = losses["captured"], losses["eager"]
    torch.testing.assert_close(captured[:2], eager[:2], rtol=0.03, atol=0.03)
    torch.testing.assert_close(captured[2], eager[2], rtol=0.25, atol=0.03)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["josrc", "coteaching"])
def test_what_was_compiled_once_is_found_again(method: str) -> None:
    from torch._dynamo.utils import counters

    for _ in range(2):
        counters.clear()
        create_stepper(state(method, "cuda"), "captured")(128)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


@pytest.mark.gpu
def test_a_new_epoch_and_a_new_momentum_reach_the_captured_step() -> None:
    config = configure("digits-o", noise="symmetric", rate=0.5, epochs=40)
    built = TrainState(config, open_source(config.data), torch.device("cuda"))
    stepper = create_stepper(built, "captured")
    for epoch in (0, 1, 2, 3, 20):
        built.begin_epoch(config, epoch)
        for size in built.loader.sizes():
            stepper(size)
        assert built.loader.cursor.item() == len(built.loader)
    assert len(stepper.graphs) == 2  # type: ignore[attr-defined]
    assert stepper.adam.beta1.item() == pytest.approx(0.1)  # type: ignore[attr-defined]


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["josrc", "coteaching"])
def test_replayed_tests_give_the_accuracies_of_the_weights_of_the_hour(method: str) -> None:
    built = state(method, "cuda")
    create_stepper(built, "captured")
    prepared = [built.end_epoch() for _ in range(3)]
    assert prepared[0] == prepared[1] == prepared[2]
    assert isinstance(built.tester, CapturedTester)
    assert built.tester.graphs
    with torch.no_grad():
        for parameter in built.method.parameters():
            parameter.mul_(-1)
    replayed = built.end_epoch()
    built.tester = right_answers
    assert built.end_epoch() == replayed
    assert replayed["test_accuracy"] != prepared[0]["test_accuracy"]


@pytest.mark.gpu
def test_a_test_that_can_not_be_captured_runs_eagerly_and_says_why_once() -> None:
    built, said = state("standard", "cuda"), list[str]()
    create_stepper(built, "auto", said.append)
    network = built.method.tested[0]
    network.register_forward_hook(lambda module, inputs, logits: float(logits.max()) and None)
    accuracies = [built.end_epoch()["test_accuracy"] for _ in range(4)]
    assert len(set(accuracies)) == 1
    assert len(said) == 1
    assert "Testing can't be captured" in said[0]


class Broken:
    """A captured stepper of a step that can't be captured; it gets as far as the next batch."""

    def __init__(self, broken: TrainState) -> None:
        self.state = broken

    def ready(self, size: int) -> bool:
        return False

    def __call__(self, size: int) -> None:
        self.state.loader.cursor += size
        self.state.loss_sum += 1e9
        raise RuntimeError("data-dependent branch\nand a long story")


def test_a_step_that_can_not_be_captured_runs_eagerly_and_says_why_once() -> None:
    plain, broken, said = state("josrc", "cpu"), state("josrc", "cpu"), list[str]()
    stepper = FallbackStepper(Broken(broken), said.append)  # type: ignore[arg-type]
    for _ in range(2):
        plain.train_step(128)
        stepper(128)
    assert said == [
        "The step can't be captured, so it runs eagerly and slower: data-dependent branch"
    ]
    for name, value in plain.tensors().items():
        assert torch.equal(broken.tensors()[name], value), name


@pytest.mark.gpu
def test_a_method_that_looks_at_its_data_falls_back_on_the_gpu() -> None:
    built, said = state("standard", "cuda"), list[str]()
    step = built.method.step

    def looks(batch: Batch, at: Scalars) -> StepResult:
        found = step(batch, at)
        if found.loss.item() < 0:
            raise ValueError("a cross-entropy is never negative")
        return found

    built.method.step = looks  # type: ignore[method-assign]
    stepper = create_stepper(built, "auto", said.append)
    stepper(128)
    stepper(128)
    assert len(said) == 1
    assert built.loader.cursor.item() == 256


def test_the_captured_engine_needs_a_gpu() -> None:
    with pytest.raises(UserError, match="needs a GPU"):
        create_stepper(state("standard", "cpu"), "captured")


def test_a_new_kind_of_step_is_traced_anew() -> None:
    torch.compiler.reset()
    config = configure("digits-o", noise="symmetric", rate=0.5, method="dividemix")
    source = open_source(config.data)
    plain, traced = (TrainState(config, source, torch.device("cpu")) for _ in range(2))
    forward = torch.compile(traced.forward, fullgraph=True, dynamic=False, backend="eager")
    for epoch in (0, 20):
        for built in (plain, traced):
            built.begin_epoch(config, epoch)
        plain.train_step(128)
        traced.train_step(128, forward)
    for name, value in plain.tensors().items():
        torch.testing.assert_close(traced.tensors()[name], value, msg=name)
