"""CIFAR-10N and CIFAR-100N, from small files in the published form."""

from __future__ import annotations

import hashlib
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torchvision.datasets import CIFAR10, CIFAR100

from commands import josrc
from josrc.data.datasets.cifar_n import KEYS
from josrc.data.registry import describe_data, open_source
from josrc.data.source import Source, with_noise
from josrc.errors import UserError

BATCH, TESTED = 60, 40
PEOPLE10 = ["aggregate", "random1", "random2", "random3", "worst"]
HOME = "github.com/UCSC-REAL/cifar-10-100n"


def entry(count: int, classes: int, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    name = "labels" if classes == 10 else "fine_labels"
    return {
        "data": generator.integers(0, 256, (count, 3072), dtype=np.uint8),
        name: generator.permutation(np.arange(count) % classes).tolist(),
    }


def write(folder: Path, contents: dict[str, Any]) -> dict[str, str]:
    """Pickled files, and their md5 sums."""
    folder.mkdir()
    sums = {}
    for name, content in contents.items():
        raw = pickle.dumps(content, protocol=2)
        (folder / name).write_bytes(raw)
        sums[name] = hashlib.md5(raw).hexdigest()
    return sums


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small CIFAR-10 and CIFAR-100 that torchvision accepts, and people's labels beside them."""
    root = tmp_path / "data"
    root.mkdir()
    batches = {f"data_batch_{n}": entry(BATCH, 10, seed=n) for n in range(1, 6)}
    meta = {"batches.meta": {"label_names": [f"thing {n}" for n in range(10)]}}
    tests = {"test_batch": entry(TESTED, 10, seed=6)}
    sums = write(root / CIFAR10.base_folder, batches | tests | meta)
    monkeypatch.setattr(CIFAR10, "train_list", [[name, sums[name]] for name in batches])
    monkeypatch.setattr(CIFAR10, "test_list", [[name, sums[name]] for name in tests])
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": sums["batches.meta"]})
    files = {"train": entry(300, 100, seed=7), "test": entry(100, 100, seed=8)}
    names = {"meta": {"fine_label_names": [f"fine thing {n}" for n in range(100)]}}
    fine = write(root / CIFAR100.base_folder, files | names)
    monkeypatch.setattr(CIFAR100, "train_list", [["train", fine["train"]]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", fine["test"]]])
    monkeypatch.setattr(CIFAR100, "meta", CIFAR100.meta | {"md5": fine["meta"]})
    true = np.concatenate([np.array(batch["labels"]) for batch in batches.values()])
    torch.save(people(true, 10, PEOPLE10), root / "CIFAR-10_human.pt")
    torch.save(
        people(np.array(files["train"]["fine_labels"]), 100, ["human"]), root / "CIFAR-100_human.pt"
    )
    return root


def people(true: np.ndarray, classes: int, kinds: list[str]) -> dict[str, np.ndarray]:
    """What a published file holds; each kind has other errors."""
    found = {"clean_label": true.copy()}
    for place, kind in enumerate(kinds):
        wrong = np.random.default_rng(place).random(len(true)) < 0.3
        found[KEYS[kind]] = np.where(wrong, (true + 1 + place) % classes, true)
    return found


def load(name: str, root: Path | None, noise: str = "none", **settings: Any) -> Source:
    return open_source(describe_data(name, root=root, noise=noise, **settings))


def change(root: Path, **labels: Any) -> Path:
    """Other values in the file of CIFAR-10N; those that are none are left out."""
    path = root / "CIFAR-10_human.pt"
    found = torch.load(path, weights_only=False) | labels
    torch.save({key: value for key, value in found.items() if value is not None}, path)
    return path


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PEOPLE10)
def test_each_kind_of_cifar10n_has_the_labels_of_its_array(root, kind):
    source = load("cifar10n", root, kind)
    found = torch.load(root / "CIFAR-10_human.pt", weights_only=False)
    np.testing.assert_array_equal(source.given, found[KEYS[kind]])
    np.testing.assert_array_equal(source.true, found["clean_label"])
    assert source.given.dtype == np.int64
    assert (source.closed, len(source), len(source.test_images)) == (10, 5 * BATCH, TESTED)
    assert source.class_names == [f"thing {n}" for n in range(10)]


def test_cifar100n_has_one_kind(root):
    source = load("cifar100n", root, "human")
    found = torch.load(root / "CIFAR-100_human.pt", weights_only=False)
    np.testing.assert_array_equal(source.given, found["noisy_label"])
    np.testing.assert_array_equal(source.true, found["clean_label"])
    assert (source.closed, len(source)) == (100, 300)


@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
def test_either_folder_may_be_named(root, below):
    assert (load("cifar10n", root / below, "worst").kind == 1).any()


@pytest.mark.parametrize("name", ["cifar10n", "cifar100n"])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_true_labels_and_drawn_noise_need_no_file_of_people(root, name, rate):
    for path in root.glob("*.pt"):
        path.unlink()
    drawn = {"noise": "symmetric", "rate": rate} if rate else {}
    source = load(name, root, **drawn)
    assert (source.given != source.true).any() == (rate > 0)


def test_an_open_source_takes_the_labels_of_any_kind(root):
    source = load("cifar10n", root)
    for kind in ("worst", "random1", "none"):
        config = describe_data("cifar10n", root=root, noise=kind)
        expected = load("cifar10n", root, kind).given
        np.testing.assert_array_equal(with_noise(source, config).given, expected)


def test_labels_of_a_run_come_from_its_noise_file(root, tmp_path):
    given = load("cifar10n", root, "worst").given
    np.savez(tmp_path / "noise.npz", given=given)
    again = load("cifar10n", root, noise_file=tmp_path / "noise.npz")
    np.testing.assert_array_equal(again.given, given)


@pytest.mark.parametrize("form", ["numpy 1", "lists", "tensors", "column", "before zip"])
def test_labels_are_read_in_whatever_form_torch_saved_them(root, form):
    path = root / "CIFAR-10_human.pt"
    expected = load("cifar10n", root, "worst").given
    found = torch.load(path, weights_only=False)
    if form == "numpy 1":  # as arrays were pickled when the file was published
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content.replace(b"numpy._core.", b"numpy.core."))
        assert b"numpy.core.multiarray" in path.read_bytes()
    elif form == "before zip":
        torch.save(found, path, _use_new_zipfile_serialization=False)
    else:
        make = {"lists": np.ndarray.tolist, "tensors": torch.tensor}
        column = make.get(form, lambda labels: labels[:, None])
        torch.save({key: column(labels) for key, labels in found.items()}, path)
    np.testing.assert_array_equal(load("cifar10n", root, "worst").given, expected)


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind", "classes"), [("cifar10n", "worst", 10),
                                                       ("cifar100n", "human", 100)])  # fmt: skip
def test_a_missing_file_is_named_with_where_to_fetch_it(root, name, kind, classes):
    path = root / f"CIFAR-{classes}_human.pt"
    path.unlink()
    with pytest.raises(UserError) as caught:
        load(name, root, kind)
    message = str(caught.value)
    for part in (f"{path} is missing", HOME, f"data/{path.name}", f"--data-root {root}"):
        assert part in message


def test_a_missing_cifar10_is_named_with_what_to_unpack(root):
    (root / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(UserError, match=r"CIFAR-10 was not found.*missing: data_batch_3") as caught:
        load("cifar10n", root, "worst")
    for part in ("cifar-10-python.tar.gz", "batches.meta", "--data-root"):
        assert part in str(caught.value)


@pytest.mark.parametrize("where", ["all", "a label", "an array", "no archive"])
def test_a_file_with_code_is_refused_and_nothing_is_executed(root, bomb, where):
    path = root / "CIFAR-10_human.pt"
    found = torch.load(path, weights_only=False)
    if where == "no archive":
        path.write_bytes(pickle.dumps(bomb))
    else:
        objects = np.array([bomb] * len(found["worse_label"]), dtype=object)
        labels = {"a label": bomb, "an array": objects}.get(where)
        torch.save(bomb if where == "all" else found | {"worse_label": labels}, path)
    with pytest.raises(UserError, match=r"never executes[\s\S]*Fetch data/CIFAR-10_human\.pt"):
        load("cifar10n", root, "worst")
    assert not bomb.went_off()


def test_what_may_be_unpickled_is_allowed_for_no_longer_than_reading(root):
    load("cifar10n", root, "worst")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(root / "CIFAR-10_human.pt", weights_only=True)


def test_labels_in_another_order_are_refused(root):
    clean = torch.load(root / "CIFAR-10_human.pt", weights_only=False)["clean_label"]
    swapped = clean.copy()
    first, second = 0, int(np.flatnonzero(clean != clean[0])[0])
    swapped[[first, second]] = clean[[second, first]]
    change(root, clean_label=swapped)
    with pytest.raises(UserError, match=r"another order than the images: 2 of its 300 labels"):
        load("cifar10n", root, "worst")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"worse_label": None}, "lacks 'worse_label': it holds clean_label"),
        ({"clean_label": None}, "lacks 'clean_label'"),
        ({"worse_label": np.zeros(7, dtype=np.int64)}, "7 labels, but the data has 300"),
        ({"worse_label": np.full(300, 10)}, "label 10 of sample 0 is out of range"),
        ({"worse_label": np.full(300, 0.5)}, "whole numbers"),
        ({"worse_label": [[1], [2, 3]]}, "'worse_label' is not a list of labels"),
    ],
)
def test_a_file_without_sound_labels_is_refused(root, labels, message):
    path = change(root, **labels)
    with pytest.raises(UserError, match=message) as caught:
        load("cifar10n", root, "worst")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_refused(root, content):
    (root / "CIFAR-10_human.pt").write_bytes(content)
    with pytest.raises(UserError, match="can't be read as labels"):
        load("cifar10n", root, "worst")
    torch.save([1, 2], root / "CIFAR-10_human.pt")
    with pytest.raises(UserError, match="holds no labels by name"):
        load("cifar10n", root, "worst")


@pytest.mark.parametrize(
    ("name", "kind", "owner"),
    [("digits-o", "worst", "cifar10n"), ("cifar10n", "human", "cifar100n"),
     ("cifar100n", "aggregate", "cifar10n"), ("cifar100n-c", "human", "cifar100n")],
)  # fmt: skip
def test_people_gave_their_labels_to_one_data_set(name, kind, owner):
    with pytest.raises(ValidationError, match=f"people gave to {owner}, not to {name}"):
        describe_data(name, noise=kind)


def test_labels_of_people_have_no_rate():
    with pytest.raises(ValidationError, match="'worst' has no rate"):
        describe_data("cifar10n", noise="worst", rate=0.4)
    assert describe_data("cifar10n", noise="worst", rate=0).rate == 0
    with pytest.raises(ValidationError, match="needs a rate"):
        describe_data("cifar10n", noise="instance")


# --- the command line ----------------------------------------------------------------------------


def test_noise_and_training_through_the_command_line(root, tmp_path, capsys):
    file, run = tmp_path / "labels.npz", tmp_path / "run"
    options = ["cifar10n", "--noise", "worst", "--data-root", root]
    assert josrc("noise", *options, "--out", file) == 0
    expected = load("cifar10n", root, "worst")
    wrong = int((expected.given != expected.true).sum())
    assert f"{300 - wrong} correct labels, {wrong} wrong" in capsys.readouterr().out
    small = ["model.width=0.125", "--epochs", "1", "--method", "standard", "--device", "cpu"]
    assert josrc("train", *options, *small, "--quiet", "--out", run) == 0
    for path in (file, run / "noise.npz"):
        with np.load(path) as written:
            np.testing.assert_array_equal(written["given"], expected.given)
            np.testing.assert_array_equal(written["true"], expected.true)
            np.testing.assert_array_equal(written["kind"], expected.kind)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["data"], summary["noise"], summary["rate"]) == ("cifar10n", "worst", 0)


def test_a_mistake_is_told_before_any_file_is_read(tmp_path, capsys):
    options = ["--data-root", tmp_path / "nowhere", "--out", tmp_path / "n.npz"]
    assert josrc("noise", "cifar10n", "--noise", "human", *options) == 2
    assert "people gave to cifar100n" in capsys.readouterr().err
    assert josrc("noise", "cifar10n", "--noise", "wurst", *options) == 2
    assert "Did you mean 'worst'" in capsys.readouterr().err


def test_the_doctor_looks_at_images_and_at_the_labels_of_people(root, capsys):
    assert josrc("doctor", "data", "cifar10n", root) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in ("data_batch_5: md5", "batches.meta: md5", "worst, ", "% of the labels wrong"):
        assert part in said
    assert josrc("doctor", "data", "cifar100n", root) == 0
    assert "human, " in capsys.readouterr().out
    (root / "CIFAR-10_human.pt").unlink()
    assert josrc("doctor", "data", "cifar10n", root) == 2
    assert "CIFAR-10_human.pt is missing" in " ".join(capsys.readouterr().err.split())


def test_arrays_in_one_file_do_as_well(tmp_path):
    generator = np.random.default_rng(0)
    true = np.tile(np.arange(10), 3).astype(np.uint8)
    people_said = np.roll(true, 1)
    images = generator.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    arrays = {
        "train_images": images,
        "train_labels": true,
        "test_images": images[:10],
        "test_labels": true[:10],
        "names": np.array([f"class {number}" for number in range(10)]),
        "worst": people_said,
    }
    np.savez(tmp_path / "cifar10.npz", **arrays)
    source = load("cifar10n", tmp_path, "worst")
    assert (source.given == people_said).all()
    assert (source.true == true).all()
    assert source.class_names[3] == "class 3"
    assert (source.images.tiles(np.arange(30)) == images).all()
    assert len(source.test_labels) == 10
    with pytest.raises(UserError, match="but no array 'aggregate'"):
        load("cifar10n", tmp_path, "aggregate")
