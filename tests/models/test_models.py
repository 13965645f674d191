"""Networks: the CNN of the paper, timm's backbones, heads, and weights from files."""

from __future__ import annotations

import math
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from josrc.errors import UserError
from josrc.models import Classifier, create_model
from josrc.models.head import create_head

CONVOLUTIONS = [(64, 64), (128, 128), (196, 16)]
CONVOLUTION_BIASES = 64 + 64 + 128 + 128 + 196 + 16  # ours has none; the published counts do


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# --- cnn7 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "head", "published"),
    [(100, "linear", 541_280), (80, "linear", 536_140), (100, "mlp", 699_488)],
)
def test_cnn7_has_the_published_parameters_without_convolution_biases(
    classes: int, head: str, published: int
) -> None:
    model = create_model("cnn7", classes, head=head)
    assert count(model) == published - CONVOLUTION_BIASES
    assert all(m.bias is None for m in model.modules() if isinstance(m, nn.Conv2d))


@pytest.mark.parametrize(
    ("channels", "size", "features"), [(3, (32, 32), 256), (1, (8, 8), 16), (3, (32, 16), 128)]
)
def test_cnn7_halves_the_image_after_every_two_convolutions(
    channels: int, size: tuple[int, int], features: int
) -> None:
    model = create_model("cnn7", 10, in_channels=channels, image_size=size)
    shapes: list[tuple[int, ...]] = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.MaxPool2d):
            module.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape[1:])))
    logits = model(torch.rand(2, channels, *size))
    height, width = size
    expected = []
    for block in CONVOLUTIONS:
        expected += [(outputs, height, width) for outputs in block]
        height, width = height // 2, width // 2
        expected.append((block[-1], height, width))
    assert shapes == expected
    assert model.backbone.num_features == features
    assert logits.shape == (2, 10)


def test_cnn7_refuses_images_that_three_poolings_would_empty() -> None:
    with pytest.raises(UserError, match=r"at least 8x8.*\(7, 32\)"):
        create_model("cnn7", 10, image_size=(7, 32))


def test_a_file_takes_the_place_of_pretrained_weights(tmp_path: Path) -> None:
    saved = create_model("cnn7", 10).state_dict()
    torch.save(saved, tmp_path / "weights.pt")
    model = create_model("cnn7", 10, pretrained=True, weights=tmp_path / "weights.pt")
    assert all(torch.equal(value, saved[key]) for key, value in model.state_dict().items())


def test_cnn7_has_no_pretrained_weights() -> None:
    with pytest.raises(UserError, match="no pretrained weights for cnn7; use --weights"):
        create_model("cnn7", 10, pretrained=True)


# --- heads ---------------------------------------------------------------------------------------


def test_the_mlp_head_is_initialised_as_kaiming_normal_with_zero_biases() -> None:
    torch.manual_seed(0)
    head = create_head("mlp", 256, 100)
    layers = [m for m in head.modules() if isinstance(m, nn.Linear)]
    assert [tuple(m.weight.shape) for m in layers] == [(512, 256), (100, 512)]
    for layer in layers:
        std = math.sqrt(2 / layer.in_features)
        assert layer.weight.std().item() == pytest.approx(std, rel=0.02)
        assert layer.weight.mean().item() == pytest.approx(0, abs=std / 50)
        beyond = (layer.weight.abs() > 2 * std).float().mean().item()
        assert beyond == pytest.approx(math.erfc(math.sqrt(2)), abs=0.005)  # none, were it uniform
        assert layer.bias.count_nonzero() == 0


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(ValueError, match="'cosine'"):
        create_head("cosine", 8, 2)


# --- timm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["mlp", "linear"])
@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224", "test_convnext"]
)
def test_a_timm_backbone_trains_at_32_pixels(name: str, head: str) -> None:
    model = create_model(name, 7, head=head)
    logits = model(torch.rand(3, 3, 32, 32))
    assert logits.shape == (3, 7)
    logits.logsumexp(dim=1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_timm_backbone_takes_images_of_one_channel() -> None:
    model = create_model("test_resnet", 7, in_channels=1, image_size=(8, 8))
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "meant"), [("resnet_18", "resnet18"), ("cnn9", "cnn7"), ("resnet18x.tv", "resnet18")]
)
def test_a_misspelt_model_is_answered_with_near_ones(name: str, meant: str) -> None:
    with pytest.raises(UserError, match=rf"Unknown model '{name}'.*{meant}"):
        create_model(name, 10)


def test_a_backbone_that_can_not_see_images_so_small_is_a_mistake_with_a_message() -> None:
    with pytest.raises(UserError, match="test_vit"):
        create_model("test_vit", 10, image_size=(8, 8))(torch.rand(2, 3, 8, 8))


# --- weights from a file -------------------------------------------------------------------------

State = dict[str, Tensor]


def equal(first: State, second: State) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def part(model: nn.Module, name: str) -> State:
    return {k: v for k, v in model.state_dict().items() if k.startswith(f"{name}.")}


@pytest.fixture
def trained() -> Classifier:
    model = create_model("cnn7", 5, image_size=(8, 8))
    model(torch.rand(4, 3, 8, 8))  # running statistics unlike those of a fresh model
    return model


def fresh(weights: Path, classes: int = 5, **options: Any) -> Classifier:
    options = {"image_size": (8, 8)} | options
    return create_model("cnn7", classes, weights=weights, **options)


def save_torch(state: State, path: Path) -> None:
    torch.save(state, path)


@pytest.mark.parametrize(
    ("name", "save"), [("w.safetensors", save_file), ("w.pt", save_torch), ("w.pth", save_torch)]
)
def test_weights_survive_the_way_through_a_file(
    name: str, save: Callable[..., None], trained: Classifier, tmp_path: Path
) -> None:
    save(trained.state_dict(), tmp_path / name)
    assert equal(fresh(tmp_path / name).state_dict(), trained.state_dict())


@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "network.", "module.network."])
def test_wrapped_and_prefixed_weights_are_found(
    wrapper: str, prefix: str, trained: Classifier, tmp_path: Path
) -> None:
    state = {f"{prefix}{key}": value for key, value in trained.state_dict().items()}
    torch.save({wrapper: state, "epoch": 3}, tmp_path / "w.pt")
    assert equal(fresh(tmp_path / "w.pt").state_dict(), trained.state_dict())


def test_weights_of_a_plain_backbone_leave_the_head_fresh(
    trained: Classifier, tmp_path: Path
) -> None:
    torch.save(trained.backbone.state_dict(), tmp_path / "w.pt")
    model = fresh(tmp_path / "w.pt")
    assert equal(part(model, "backbone"), part(trained, "backbone"))
    assert not torch.equal(model.head[0].weight, trained.head[0].weight)


@pytest.mark.parametrize("change", [{"classes": 6}, {"head": "linear"}], ids=str)
def test_a_head_that_does_not_fit_stays_fresh_and_the_backbone_is_kept(
    change: dict[str, Any], trained: Classifier, tmp_path: Path
) -> None:
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    model = fresh(tmp_path / "w.pt", **change)
    assert equal(part(model, "backbone"), part(trained, "backbone"))
    new, old = ([m for m in x.head.modules() if isinstance(m, nn.Linear)] for x in (model, trained))
    assert not any(torch.equal(a.weight, b.weight) for a in new for b in old)


def test_a_backbone_of_another_shape_is_an_error_that_names_the_tensor(
    trained: Classifier, tmp_path: Path
) -> None:
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    message = r"w.pt does not fit.*layers.0.weight.*\(64, 3, 3, 3\) there.*\(64, 1, 3, 3\) here"
    with pytest.raises(UserError, match=message):
        fresh(tmp_path / "w.pt", in_channels=1)


def test_a_backbone_that_lacks_a_tensor_is_an_error_that_names_it(
    trained: Classifier, tmp_path: Path
) -> None:
    state = trained.state_dict()
    del state["backbone.layers.3.weight"]
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(UserError, match=r"w.safetensors does not fit.*lacks layers\.3\.weight"):
        fresh(tmp_path / "w.safetensors")


def test_a_deeper_backbone_does_not_pass_for_a_shallower_one(tmp_path: Path) -> None:
    # Every tensor of a ResNet-18 has a namesake of its shape in a ResNet-34.
    save_file(create_model("resnet34", 5).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="does not fit"):
        create_model("resnet18", 5, weights=tmp_path / "w.safetensors")


def test_batch_counters_may_be_missing(trained: Classifier, tmp_path: Path) -> None:
    # Files from before PyTorch 0.4.1 have none, and PyTorch itself loads them.
    state = trained.state_dict()
    torch.save({k: v for k, v in state.items() if "num_batches" not in k}, tmp_path / "w.pt")
    model = fresh(tmp_path / "w.pt")
    assert torch.equal(model.backbone.layers[0].weight, trained.backbone.layers[0].weight)


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("inside", ["zip", "plain"])
def test_a_malicious_pickle_is_refused_and_not_executed(inside: str, tmp_path: Path) -> None:
    victim, file = tmp_path / "executed", tmp_path / "w.pt"
    content = {"weight": Malicious(victim)}
    if inside == "zip":
        torch.save(content, file)
    else:
        file.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(UserError, match=r"w\.pt can't be read as weights"):
        fresh(file)
    assert not victim.exists()
    raw = zipfile.ZipFile(file).read("w/data.pkl") if inside == "zip" else file.read_bytes()
    pickle.loads(raw)  # the trap is real
    assert victim.exists()


def test_a_refused_file_is_not_answered_with_the_advice_to_execute_it(tmp_path: Path) -> None:
    torch.save({"weight": Malicious(tmp_path / "executed")}, tmp_path / "w.pt")
    with pytest.raises(UserError) as caught:
        fresh(tmp_path / "w.pt")
    assert "trust" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html>",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"PK\x03\x04 a cut archive",
        b"\x00" * 100,
        b"hello",
        b"a,b\n1,2\n",
    ],
    ids=repr,
)
def test_a_file_of_something_else_is_an_error_that_names_it(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(content)
    with pytest.raises(UserError, match=r"w\.pt can't be read as weights"):
        fresh(tmp_path / "w.pt")


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff" * 64], ids=repr)
def test_a_broken_safetensors_file_is_an_error_that_names_it(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"w\.safetensors can't be read as weights"):
        fresh(tmp_path / "w.safetensors")


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {"state_dict": {"a": 1}}], ids=str)
def test_a_file_without_a_state_dict_is_an_error_that_says_so(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(UserError, match=r"w\.pt does not hold a state dict"):
        fresh(tmp_path / "w.pt")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.pt does not exist"):
        fresh(tmp_path / "nowhere.pt")


# --- preactresnet18 ------------------------------------------------------------------------------


def test_preactresnet18_has_as_many_weights_as_its_layers_say() -> None:
    stages = [(64, 64), (64, 128), (128, 256), (256, 512)]
    convolutions = 3 * 64 * 9
    norms = 2 * 512
    for inputs, outputs in stages:
        convolutions += 9 * (inputs * outputs + 3 * outputs * outputs)
        convolutions += inputs * outputs if inputs != outputs else 0
        norms += 2 * (inputs + 3 * outputs)
    model = create_model("preactresnet18", 100, head="linear")
    assert count(model) == convolutions + norms + 512 * 100 + 100
    assert model.num_features == 512


@pytest.mark.parametrize(("size", "channels"), [((32, 32), 3), ((8, 8), 1)])
def test_preactresnet18_takes_small_images(size: tuple[int, int], channels: int) -> None:
    model = create_model("preactresnet18", 7, in_channels=channels, image_size=size).eval()
    features = model.backbone(torch.randn(2, channels, *size))
    assert features.shape == (2, 512)
    assert (features >= 0).all()
    with pytest.raises(UserError, match="no pretrained weights for preactresnet18"):
        create_model("preactresnet18", 7, pretrained=True)
