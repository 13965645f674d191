"""The kernels agree with PyTorch's layers: on a GPU for real, elsewhere in an interpreter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from josrc.models import hardware
from josrc.models.cnn7 import CNN7
from josrc.models.hardware import prepare_for_replay

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _everywhere_and_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hardware.has_kernels()  # imports them, as is done before a step is compiled
    monkeypatch.setattr(hardware, "available", lambda x: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def images(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3 + 2
    return drawn.to(DEVICE, dtype).to(memory_format=torch.channels_last)


def norm_layer(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels).to(DEVICE)
    generator = torch.Generator().manual_seed(1)
    norm.weight.data.copy_(torch.randn(channels, generator=generator))  # negative ones too
    norm.bias.data.copy_(torch.randn(channels, generator=generator))
    return norm


def reference(x: Tensor, norm: nn.BatchNorm2d, pool: bool) -> Tensor:
    """PyTorch's layers, in float64."""
    weight, bias = norm.weight.double(), norm.bias.double()
    y = F.relu(F.batch_norm(x, None, None, weight, bias, training=True, eps=norm.eps))
    return F.max_pool2d(y, 2) if pool else y


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(
    "shape", [(6, 16, 8, 8), (4, 80, 12, 10), (2, 208, 4, 4), (40, 64, 16, 16)]
)
def test_norm_relu_and_pool_and_their_gradients(shape: tuple[int, ...], pool: bool) -> None:
    norm, x = norm_layer(shape[1]), images(*shape).requires_grad_()
    y, _ = hardware.norm_relu(x, norm, pool)
    exact = x.detach().double().requires_grad_()
    wanted = reference(exact, norm, pool)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y.double(), wanted, rtol=1e-5, atol=1e-5)

    slope = torch.randn_like(y)
    inputs = (x, norm.weight, norm.bias)
    found = torch.autograd.grad(y, inputs, slope)
    expected = torch.autograd.grad(wanted, (exact, norm.weight, norm.bias), slope.double())
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-4, atol=1e-4)


def test_channels_added_for_the_hardware_stay_zero_and_get_no_gradient() -> None:
    norm = norm_layer(5)
    x = F.pad(images(3, 5, 8, 8), (0, 0, 0, 0, 0, 11)).requires_grad_()
    y, _ = hardware.norm_relu(x, norm, pool=True)
    plain, _ = hardware.norm_relu(x[:, :5], norm, pool=True)
    torch.testing.assert_close(y[:, :5], plain)
    assert not y[:, 5:].any()
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert gradient[:, :5].any()
    assert not gradient[:, 5:].any()


def test_of_equal_values_in_a_window_the_first_gets_the_gradient() -> None:
    norm = nn.BatchNorm2d(1).to(DEVICE)
    values = torch.tensor([[3.0, 3, 1, 2], [3, 0, 2, 2], [0, 0, 9, 0], [0, 0, 0, 9]])
    x = values.to(DEVICE)[None, None].contiguous(memory_format=torch.channels_last)
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    hardware.norm_relu(ours, norm, pool=True)[0].sum().backward()
    reference(theirs, norm, pool=True).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_bfloat16_rounds_like_bfloat16() -> None:
    norm, x = norm_layer(32), images(8, 32, 8, 8, dtype=torch.bfloat16)
    y, _ = hardware.norm_relu(x, norm, pool=False)
    assert y.dtype == torch.bfloat16
    wanted = reference(x.double(), norm, pool=False)
    torch.testing.assert_close(y.double(), wanted, rtol=2**-7, atol=1e-3)


def test_the_same_sums_to_the_bit_every_time() -> None:
    norm, x = norm_layer(64), images(32, 64, 16, 16)
    first, again = (hardware.norm_relu(x, norm, pool=True) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


@pytest.mark.parametrize(("channels", "size", "width"), [(3, 16, 0.25), (1, 8, 0.3)])
def test_the_network_computes_and_learns_the_same_either_way(
    channels: int, size: int, width: float
) -> None:
    torch.manual_seed(0)
    fast = CNN7(channels, (size, size), width).to(DEVICE, memory_format=torch.channels_last)
    plain = CNN7(channels, (size, size), width).to(DEVICE, memory_format=torch.channels_last)
    plain.load_state_dict(fast.state_dict())
    prepare_for_replay(fast)
    x, other = images(6, channels, size, size), images(4, channels, size, size).flip(0)

    features = fast(x)
    features.square().sum().backward()
    fast.eval()
    tested = fast(other)
    expected = plain(x)
    expected.square().sum().backward()
    torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=5e-3, atol=5e-3)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)
    torch.testing.assert_close(tested, plain.eval()(other), rtol=1e-3, atol=1e-4)
