"""Errors that are planted: which samples get them, who hears of them, and who must not."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import josrc as library
from josrc.engine.planting import (
    Likeness,
    PlantedErrors,
    count_to_plant,
    draw_errors,
    planting_epoch,
)
from josrc.methods import get_method
from josrc.runs.auto import fewest_to_plant_in, plant_share_for
from josrc.runs.intro import describe_planting
from josrc.verdicts.calibration import MIN_PLANTED

DIGITS = load_digits()
X, Y = (DIGITS.images[:400] * 15).astype(np.uint8), DIGITS.target[:400]


def likeness(samples: int = 1000, classes: int = 5, seed: int = 1) -> tuple[Likeness, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(samples, classes, generator=generator).pow(3)
    probabilities /= probabilities.sum(dim=1, keepdim=True)
    given = torch.randint(classes, (samples,), generator=generator)
    return Likeness.of(probabilities, given), given.numpy()


def test_every_error_is_one_and_no_sample_gets_two() -> None:
    found, given = likeness()
    index, label = draw_errors(found, given, 5, 100, seed=0)
    assert len(set(index.tolist())) == 100
    assert (label != given[index]).all()
    assert ((label >= 0) & (label < 5)).all()


def test_the_second_half_calls_believed_images_what_they_look_like() -> None:
    found, given = likeness()
    index, label = draw_errors(found, given, 5, 100, seed=0)
    alike = index[50:]
    assert (found.own[alike] > found.probability[alike]).all(), "only labels the network believes"
    np.testing.assert_array_equal(label[50:], found.alike[alike])
    believed = found.own > found.probability
    assert found.probability[alike].mean() > found.probability[believed].mean() + 0.03
    assert len(set(label[:50].tolist())) == 5, "errors of any sort go anywhere"


def test_likeness_by_hand() -> None:
    predicted = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    found = Likeness.of(predicted, torch.tensor([0, 1]))
    np.testing.assert_allclose(found.own, [0.7, 0.3])
    np.testing.assert_array_equal(found.alike, [1, 2])
    np.testing.assert_allclose(found.probability, [0.2, 0.6])


def test_the_draw_repeats_and_is_not_that_of_noise_with_the_same_seed() -> None:
    found, given = likeness()
    first, again, other = (draw_errors(found, given, 5, 100, seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert set(first.tolist()) != set(other.tolist())
    usual = np.random.RandomState(0).choice(1000, 50, replace=False)
    assert len(set(first[:50].tolist()) & set(usual.tolist())) < 20


def test_they_come_after_a_tenth_of_the_run_and_never_too_late() -> None:
    assert [planting_epoch(epochs) for epochs in (1, 2, 3, 10, 40, 200)] == [0, 1, 1, 1, 4, 20]


@pytest.mark.parametrize(
    ("samples", "share"),
    [(100, 0.0), (389, 0.0), (390, 0.1), (2000, 0.075), (5000, 0.03), (10**6, 0.03)],
)
def test_small_sets_get_more_of_them_but_never_more_than_a_tenth(
    samples: int, share: float
) -> None:
    assert plant_share_for(samples) == pytest.approx(share)
    assert count_to_plant(share, samples) % 2 == 0
    # Those of any sort are half of them, and calibration wants so many.
    assert not share or count_to_plant(share, samples) // 2 >= MIN_PLANTED
    assert fewest_to_plant_in() == 390


def test_the_start_of_a_training_says_what_is_planted_and_how_to_plant_nothing() -> None:
    state = SimpleNamespace(planted=range(40))
    told = describe_planting(state, range(400))  # type: ignore[arg-type]
    assert told[0].startswith("40 labels (10.0 %) are made wrong in training alone")
    assert "--plant 0" in told[0]
    state.planted = ()
    assert "No errors are planted" in describe_planting(state, range(389))[0]  # type: ignore[arg-type]
    assert not describe_planting(state, range(390))  # type: ignore[arg-type]


def test_training_notes_what_it_finds_for_the_labels_they_came_with() -> None:
    planted = PlantedErrors(0.5, np.array([0, 1, 2, 0]), torch.device("cpu"))
    assert not planted.there
    planted.record(torch.tensor([0, 1]), torch.eye(3)[[0, 1]])
    assert planted.seen.sum() == 0, "nothing is planted yet"
    planted.set(torch.tensor([3, 1]), torch.tensor([1, 2]))
    planted.record(torch.tensor([1, 2, 3]), torch.tensor([[0.2, 0.5, 0.3]] * 3))
    planted.record(torch.tensor([3]), torch.tensor([[0.6, 0.2, 0.2]]))
    torch.testing.assert_close(planted.seen, torch.tensor([[0.8, 2.0], [0.5, 1.0]]))

    # A captured step goes on reading the same tensors in the next run.
    places = [value.data_ptr() for value in planted.tensors().values()]
    planted.clear(np.array([1, 1, 1, 1]))
    assert not planted.there
    planted.record(torch.tensor([1, 3]), torch.eye(3)[[1, 1]])
    assert planted.seen.sum() == 0
    assert [value.data_ptr() for value in planted.tensors().values()] == places


@pytest.mark.parametrize("method", ["pencil", "joint-optim", "deepself"])
def test_methods_that_keep_labels_forget_those_that_were_replaced(method: str) -> None:
    # Found by its files: whoever adds a method with labels of its own has to think of it.
    assert "relabel" in vars(get_method(method))


def test_nobody_reads_a_planted_label_as_the_user_s_own(tmp_path: Path) -> None:
    given = Y.copy()
    options = {"settings": {"model.width": 0.1}, "epochs": 3, "plant": 0.1}
    run = library.train((X, given), out=tmp_path / "run", **options)
    np.testing.assert_array_equal(given, Y)
    np.testing.assert_array_equal(np.load(run.path / "noise.npz")["given"], Y)
    planted = np.load(run.path / "planted.npz")
    assert len(planted["index"]) == 40
    assert (planted["label"] != Y[planted["index"]]).all()
    with (run.path / "audit" / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["given_label"]) for line in lines] == Y.tolist()
    own = [lines[row] for row in planted["index"]]
    assert all(line["reason"].startswith("Trained with a planted error") for line in own)
    others = set(range(len(Y))) - set(planted["index"].tolist())
    assert not any("planted" in lines[row]["reason"] for row in others)
    assert run.audit["planted"]["count"] == 40


def test_named_data_has_none_unless_asked(tmp_path: Path) -> None:
    options = {"settings": {"model.width": 0.1}, "epochs": 1}
    plain = library.train("digits-o", out=tmp_path / "plain", **options)
    assert plain.config.plant == 0
    assert not (plain.path / "planted.npz").exists()
    assert plain.audit["planted"] is None


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_digits_are_called_clean_if_they_are_and_errors_are_found_if_not(
    tmp_path: Path, rate: float
) -> None:
    pixels, true = (DIGITS.images * 15).astype(np.uint8), DIGITS.target
    generator = np.random.default_rng(11)
    given, wrong = true.copy(), generator.choice(len(true), round(rate * len(true)), replace=False)
    given[wrong] = (true[wrong] + generator.integers(1, 10, len(wrong))) % 10
    run = library.train((pixels, given), out=tmp_path / "run", epochs=40)
    with (run.path / "audit" / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        accused = np.array([line["verdict"] != "clean" for line in csv.DictReader(file)])
    assert run.audit["noise_rate"] == pytest.approx(rate, abs=0.03)
    if not rate:
        assert accused.mean() <= 0.02
        return
    right = (accused & (given != true)).sum()
    assert right / accused.sum() >= 0.8
    assert right / (given != true).sum() >= 0.8
