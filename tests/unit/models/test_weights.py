"""Weights from and to files."""

from __future__ import annotations

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
    with pytest.raises(UserError, match=r"w\.pt does not contain a state dict"):
        fresh(tmp_path / "w.pt")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.pt does not exist"):
        fresh(tmp_path / "nowhere.pt")
