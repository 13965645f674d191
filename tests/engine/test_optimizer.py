"""Adam in one kernel moves parameters as PyTorch's Adam does."""

from __future__ import annotations

import pytest
import torch

from josrc.config import OptimizerConfig
from josrc.engine.optimizer import FusedAdam, create_optimizer, set_optimizer
from josrc.engine.plain_optimizers import PlainAdam
from josrc.models.hardware import has_kernels, move_towards

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def named(parameters: list[torch.nn.Parameter]) -> list[tuple[str, torch.nn.Parameter]]:
    return [(f"network.head.{place}", each) for place, each in enumerate(parameters)]


def test_a_backbone_may_have_a_lower_rate_through_the_whole_run() -> None:
    names = ["network.backbone.a", "network.head.b", "second_network.backbone.c"]
    parameters = [(name, torch.nn.Parameter(torch.zeros(2))) for name in names]
    config = OptimizerConfig(lr=0.5, backbone_factor=0.1)
    optimizer = create_optimizer(parameters, config, torch.device("cpu"))
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 1]
    for rate in (0.5, 0.2):
        set_optimizer(optimizer, rate, 0.9)
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([rate / 10, rate])
    (group,) = create_optimizer(parameters, OptimizerConfig(), torch.device("cpu")).param_groups
    assert len(group["params"]) == 3


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_agrees_with_torch_also_after_beta1_has_changed(weight_decay: float) -> None:
    torch.manual_seed(0)
    shapes = [(4, 3), (5,), (2, 3, 3, 3), (50, 50)]  # the last is more than one chunk
    config = OptimizerConfig(lr=0.01, weight_decay=weight_decay)
    first = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    ours, theirs = (
        [torch.nn.Parameter(p.detach().clone().to(DEVICE)) for p in first] for _ in range(2)
    )
    wanted = create_optimizer(named(theirs), config, torch.device(DEVICE))
    held = create_optimizer(named(ours), config, torch.device(DEVICE))
    assert isinstance(held, torch.optim.Adam | PlainAdam)
    held.param_groups[0]["lr"] = torch.tensor(0.01, device=DEVICE)
    adam = FusedAdam(held)
    for step in range(6):
        gradients = [torch.randn(shape, device=DEVICE) for shape in shapes]
        if step == 3:
            wanted.param_groups[0]["betas"] = (0.1, 0.999)
            adam.set_beta1(0.1)
        for mine, other, gradient in zip(ours, theirs, gradients, strict=True):
            # A gradient in another memory format is the same gradient.
            mine.grad = (
                gradient.to(memory_format=torch.channels_last) if gradient.ndim == 4 else gradient
            )
            other.grad = gradient
        wanted.step()
        assert adam.step()
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    for parameter, other in zip(ours, theirs, strict=True):
        for key, value in wanted.state[other].items():
            torch.testing.assert_close(held.state[parameter][key], value, rtol=1e-5, atol=1e-6)


def test_a_parameter_without_gradient_is_left_to_torch() -> None:
    parameters = [torch.nn.Parameter(torch.ones(3, device=DEVICE)) for _ in range(2)]
    optimizer = create_optimizer(named(parameters), OptimizerConfig(), torch.device(DEVICE))
    assert isinstance(optimizer, torch.optim.Adam | PlainAdam)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.01, device=DEVICE)
    parameters[0].grad = torch.ones(3, device=DEVICE)
    assert not FusedAdam(optimizer).step()
    assert torch.equal(parameters[0].detach().cpu(), torch.ones(3))


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_teacher_moves_a_share_of_the_way(
    monkeypatch: pytest.MonkeyPatch, everywhere: bool
) -> None:
    monkeypatch.setattr("josrc.models.hardware.available", lambda x: everywhere and has_kernels())
    torch.manual_seed(0)
    targets = [torch.randn(3, 700, device=DEVICE), torch.randn(2, device=DEVICE)]
    sources = [torch.randn(3, 700, device=DEVICE), torch.randn(2, device=DEVICE)]
    wanted = [0.75 * t + 0.25 * s for t, s in zip(targets, sources, strict=True)]
    move_towards(targets, sources, 0.25)
    for target, value in zip(targets, wanted, strict=True):
        torch.testing.assert_close(target, value)
