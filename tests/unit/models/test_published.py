"""Where weights are published."""

from __future__ import annotations

import pytest
import timm

from josrc.models.published import find_published_weights

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
