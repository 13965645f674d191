import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torchvision.datasets import CIFAR100

from josrc.data.datasets import cifar, digits
from josrc.data.registry import DATASETS, describe_data, open_source
from josrc.data.source import Source
from josrc.errors import UserError

# --- digits-o ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits_source() -> Source:
    return digits.open_source(describe_data("digits-o"))


def test_digits_have_eight_classes_and_two_open_ones(digits_source):
    assert digits_source.closed == 8
    assert digits_source.closed_names == list("01234567")
    assert set(digits_source.test_labels) == set(range(8))
    assert set(digits_source.true) == set(range(10))


def test_all_open_digits_are_training_samples(digits_source):
    everything = load_digits().target
    for digit in (8, 9):
        assert (digits_source.true == digit).sum() == (everything == digit).sum()


def test_digits_are_grey_bytes_of_the_full_range(digits_source):
    for images in (digits_source.images.pixels, digits_source.test_images.pixels):
        assert images.dtype == np.uint8
        assert images.shape[1:] == (8, 8, 1)
        assert (images.min(), images.max()) == (0, 255)
    assert len(digits_source.images) == len(digits_source.true) == len(digits_source)
    assert len(digits_source.test_images) == len(digits_source.test_labels)


def rows(images: np.ndarray, labels: np.ndarray) -> list[bytes]:
    return [image.tobytes() + bytes([label]) for image, label in zip(images, labels, strict=True)]


def test_training_and_test_digits_together_are_the_data_set(digits_source):
    whole = load_digits()
    pixels = np.round(whole.images / 16 * 255).astype(np.uint8)
    train = rows(digits_source.images.pixels, digits_source.true)
    test = rows(digits_source.test_images.pixels, digits_source.test_labels)
    assert sorted(train + test) == sorted(rows(pixels, whole.target))
    assert not set(train) & set(test)


def test_digits_to_test_on_are_those_that_scikit_learn_draws(digits_source):
    whole = load_digits()
    known = np.flatnonzero(whole.target < 8)
    _, tested = train_test_split(
        known, test_size=0.25, random_state=0, stratify=whole.target[known]
    )
    pixels = np.round(whole.images[np.sort(tested)] * (255 / 16)).astype(np.uint8)
    np.testing.assert_array_equal(digits_source.test_images.pixels[..., 0], pixels)
    np.testing.assert_array_equal(digits_source.test_labels, whole.target[np.sort(tested)])


def test_the_split_is_the_same_every_time_whatever_the_global_generator_holds(digits_source):
    np.random.seed(5)
    again = digits.open_source(describe_data("digits-o"))
    np.testing.assert_array_equal(again.images.pixels, digits_source.images.pixels)
    np.testing.assert_array_equal(again.test_images.pixels, digits_source.test_images.pixels)
    np.testing.assert_array_equal(again.true, digits_source.true)


def test_the_statistics_of_digits_standardise_them(digits_source):
    scaled = (digits_source.images.pixels / 255 - digits_source.mean) / digits_source.std
    assert scaled.mean() == pytest.approx(0, abs=0.01)
    assert scaled.std() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("noise", "rate"), [("none", 0.0), ("symmetric", 0.5), ("block", 0.4)])
def test_noisy_digits_carry_labels_of_the_task_only(digits_source, noise, rate):
    source = open_source(describe_data("digits-o", noise=noise, rate=rate))
    assert source.given.max() == 7
    np.testing.assert_array_equal(source.true, digits_source.true)
    np.testing.assert_array_equal(source.kind == 2, source.true >= 8)
    np.testing.assert_array_equal(source.kind == 0, source.given == source.true)
    assert (source.kind == 1).any() == (rate > 0)


def test_the_noise_summary_counts_every_sample_once(digits_source):
    open_digits = int((digits_source.true >= 8).sum())
    assert open_source(describe_data("digits-o")).noise_summary() == (
        f"{len(digits_source) - open_digits:,} correct labels, 0 wrong, "
        f"{open_digits} out of distribution"
    )


# --- CIFAR-100, from small files in the published format -----------------------------------------

# The taxonomy as its authors list it; the classes are numbered in alphabetical order.
TAXONOMY = """
    beaver dolphin otter seal whale
    aquarium_fish flatfish ray shark trout
    orchid poppy rose sunflower tulip
    bottle bowl can cup plate
    apple mushroom orange pear sweet_pepper
    clock keyboard lamp telephone television
    bed chair couch table wardrobe
    bee beetle butterfly caterpillar cockroach
    bear leopard lion tiger wolf
    bridge castle house road skyscraper
    cloud forest mountain plain sea
    camel cattle chimpanzee elephant kangaroo
    fox porcupine possum raccoon skunk
    crab lobster snail spider worm
    baby boy girl man woman
    crocodile dinosaur lizard snake turtle
    hamster mouse rabbit shrew squirrel
    maple_tree oak_tree palm_tree pine_tree willow_tree
    bicycle bus motorcycle pickup_truck train
    lawn_mower rocket streetcar tank tractor
"""
NAMES = sorted(TAXONOMY.split())


def cifar_entry(count: int, seed: int) -> dict[str, object]:
    generator = np.random.default_rng(seed)
    return {
        "data": generator.integers(0, 256, (count, 3072), dtype=np.uint8),
        "fine_labels": generator.permutation(np.arange(count) % 100).tolist(),
    }


TRAIN, TEST = cifar_entry(400, seed=1), cifar_entry(200, seed=2)


@pytest.fixture
def cifar_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds a small CIFAR-100 whose md5 sums torchvision accepts."""
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    sums = {}
    contents = {"train": TRAIN, "test": TEST, "meta": {"fine_label_names": NAMES}}
    for name, content in contents.items():
        raw = pickle.dumps(content, protocol=2)
        (folder / name).write_bytes(raw)
        sums[name] = hashlib.md5(raw).hexdigest()
    monkeypatch.setattr(CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(CIFAR100, "meta", CIFAR100.meta | {"md5": sums["meta"]})
    return tmp_path


def load_cifar(name: str, root: Path | None, **noise: object) -> Source:
    return open_source(describe_data(name, root=root, **noise))


def channels_last(entry: dict[str, object]) -> np.ndarray:
    return np.moveaxis(np.reshape(entry["data"], (-1, 3, 32, 32)), 1, 3)


@pytest.mark.parametrize("below", ["", "cifar-100-python"])
def test_cifar100n_c_is_the_whole_data_set_in_file_order(cifar_root, below):
    source = load_cifar("cifar100n-c", cifar_root / below)
    assert source.closed == 100
    assert source.class_names == NAMES
    np.testing.assert_array_equal(source.images.pixels, channels_last(TRAIN))
    np.testing.assert_array_equal(source.true, TRAIN["fine_labels"])
    np.testing.assert_array_equal(source.given, TRAIN["fine_labels"])
    np.testing.assert_array_equal(source.test_images.pixels, channels_last(TEST))
    np.testing.assert_array_equal(source.test_labels, TEST["fine_labels"])
    assert source.noise_summary() == "400 correct labels, 0 wrong, 0 out of distribution"


@pytest.mark.parametrize("noise", [{}, {"noise": "symmetric", "rate": 0.8}])
def test_cifar80n_o_keeps_all_training_images_and_tests_on_the_first_eighty_classes(
    cifar_root, noise
):
    source = load_cifar("cifar80n-o", cifar_root, **noise)
    assert source.closed == 80
    assert source.closed_names == NAMES[:80]
    np.testing.assert_array_equal(source.images.pixels, channels_last(TRAIN))
    np.testing.assert_array_equal(source.true, TRAIN["fine_labels"])
    assert source.given.max() < 80
    assert (source.kind == 2).sum() == 80
    known = np.array(TEST["fine_labels"]) < 80
    np.testing.assert_array_equal(source.test_images.pixels, channels_last(TEST)[known])
    np.testing.assert_array_equal(source.test_labels, np.array(TEST["fine_labels"])[known])


def test_superclass_noise_flips_to_the_next_closed_class_of_the_published_taxonomy(cifar_root):
    following = {}
    for family in TAXONOMY.strip().splitlines():
        members = [NAMES.index(name) for name in family.split()]
        members = sorted(member for member in members if member < 80)
        following |= dict(zip(members, members[1:] + members[:1], strict=True))
    source = load_cifar("cifar80n-o", cifar_root, noise="superclass", rate=1.0)
    known = source.true < 80
    expected = [following[label] for label in source.true[known]]
    np.testing.assert_array_equal(source.given[known], expected)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["train", "test", "meta"])
@pytest.mark.parametrize("harm", ["missing", "md5"])
def test_a_missing_or_damaged_cifar_file_gives_an_error_that_says_what_to_put_where(
    cifar_root, name, harm
):
    folder = cifar_root / "cifar-100-python"
    Path.unlink(folder / name) if harm == "missing" else damage(folder / name)
    with pytest.raises(UserError) as caught:
        load_cifar("cifar80n-o", cifar_root)
    message = str(caught.value)
    assert (f"missing: {name}" if harm == "missing" else "md5") in message
    for part in (str(folder), "cifar-100-python.tar.gz", "train, test, meta", "--data-root"):
        assert part in message


def test_a_data_root_without_cifar_names_every_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"missing: train, test, meta"):
        load_cifar("cifar80n-o", tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_a_cifar_file_with_a_wrong_md5_is_never_unpickled(cifar_root, bomb, name):
    (cifar_root / "cifar-100-python" / name).write_bytes(pickle.dumps(bomb))
    with pytest.raises(UserError, match="md5"):
        load_cifar("cifar80n-o", cifar_root)
    assert not bomb.went_off()


@pytest.fixture
def failing_download(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def download(url: str, *_: object, **__: object) -> None:
        asked.append(url)
        raise OSError("no route to host")

    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", download)
    return asked


def test_without_a_data_root_cifar_comes_from_the_folder_in_the_environment(
    cifar_root, monkeypatch, failing_download
):
    monkeypatch.setenv("JOSRC_DATA", str(cifar_root))
    assert len(load_cifar("cifar100n-c", None)) == 400
    assert failing_download == []


def test_a_failed_download_says_why_and_what_to_put_where(tmp_path, monkeypatch, failing_download):
    monkeypatch.setenv("JOSRC_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"no route to host[\s\S]*--data-root"):
        load_cifar("cifar100n-c", None)
    assert len(failing_download) == 1


def test_a_given_data_root_is_never_downloaded_into(tmp_path, failing_download):
    with pytest.raises(UserError):
        load_cifar("cifar100n-c", tmp_path)
    assert failing_download == []
    assert list(tmp_path.iterdir()) == []


def test_downloads_go_to_the_users_cache_unless_the_environment_says_otherwise(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("JOSRC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cifar.default_root() == tmp_path / "josrc"
    monkeypatch.setenv("JOSRC_DATA", str(tmp_path / "data"))
    assert cifar.default_root() == tmp_path / "data"


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar80n", "Did you mean 'cifar80n-o'"),
        ("digit-o", "Did you mean 'digits-o'"),
        ("xyz", f"Known: {', '.join(DATASETS)}"),
    ],
)
def test_an_unknown_data_set_is_refused_with_a_suggestion(name, message):
    with pytest.raises(UserError, match=f"'{name}'.*{message}"):
        open_source(describe_data(name))


def test_noise_by_superclass_is_refused_where_there_are_none():
    with pytest.raises(UserError, match="no superclasses"):
        open_source(describe_data("digits-o", noise="superclass", rate=0.2))
