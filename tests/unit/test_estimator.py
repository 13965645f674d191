"""The Python side: arrays and paths in, runs and scikit-learn's classifier out."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import josrc
from josrc import NoisyLabelClassifier
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError, UserError
from josrc.runs.run import Run
from josrc.runs.start import plan

DATA = load_digits(n_class=4)
X = np.round(DATA.images[:240] * 15.9).astype(np.uint8)
NAMES = np.array(["zero", "one", "two", "three"])
Y = NAMES[DATA.target[:240]]
QUICK = {"method": "standard", "epochs": 12, "batch_size": 32, "device": "cpu"}
STILL = {"views.flip": False, "model.width": 0.25}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Trained on arrays, with others to test on."""
    out = tmp_path_factory.mktemp("runs") / "arrays"
    test = (X[200:], Y[200:])
    return josrc.train((X[:200], Y[:200]), test=test, settings=STILL, out=out, **QUICK)


def test_a_run_on_arrays(run: Run) -> None:
    assert run.config.data.name == "arrays"
    assert run.config.model.image_size == 8
    assert run.config.views.pad == 1
    assert run.summary["best"] > 70
    assert [row["epoch"] for row in run.metrics] == list(range(1, 13))
    with np.load(run.path / "noise.npz") as labels:
        # Classes are numbered in the order of their names.
        assert (np.sort(NAMES)[labels["given"]] == Y[:200]).all()


def test_a_run_predicts_what_it_was_tested_with(run: Run) -> None:
    predictions = np.array(run.predict(X[200:]))
    assert 100 * (predictions == Y[200:]).mean() == pytest.approx(run.summary["best"])
    assert not run.model.training
    loaded = josrc.Run.load(run.path)
    assert loaded.predict(X[200:]) == predictions.tolist()
    assert run.predict(X[:0]) == []


def test_floats_are_pixels_from_zero_to_one(run: Run) -> None:
    assert run.predict(X[:20] / 255) == run.predict(X[:20])


def test_paths_with_labels(tmp_path: Path) -> None:
    paths = []
    for number, image in enumerate(X[:80]):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(image).save(paths[-1])
    (tmp_path / "broken.png").write_bytes(b"")
    options = {**QUICK, "epochs": 2, "val": 0.1, "out": tmp_path / "run"}
    run = josrc.train(([*paths, tmp_path / "broken.png"], [*Y[:80], "one"]), **options)
    assert run.metrics[-1]["agreement"] is not None
    assert "broken.png,the file is empty" in (run.path / "skipped.csv").read_text()
    from_files, from_pixels = run.predict(paths[:5]), run.predict(X[:5])
    assert from_files == from_pixels, "pixels of another size are resized as files are"
    with pytest.raises(UserError, match=r"broken\.png"):
        run.predict([tmp_path / "broken.png"])


def test_held_out_images_can_be_asked_about(tmp_path: Path) -> None:
    config, source = plan((X, Y), val=0.25, **QUICK)
    assert source is not None
    assert source.val is not None
    trainer = Trainer(config, source, RunFolder(tmp_path))
    row = trainer.state.begin_epoch(config, 0) | trainer.state.end_epoch()
    probabilities = trainer.state.held_out_probabilities()
    assert probabilities is not None
    assert probabilities.shape == (60, 4)
    agreed = (probabilities.argmax(dim=1).numpy() == source.val.given).mean()
    assert row["agreement"] == pytest.approx(100 * agreed)


def test_a_network_of_timm_is_given_pixels_as_it_expects_them() -> None:
    colour = np.stack([X, X, X], axis=-1)
    for model, mean in (("test_resnet", (0.5, 0.5, 0.5)), ("cnn7", None)):
        _, source = plan((colour, Y), model=model)
        assert source is not None
        assert source.mean == (mean or pytest.approx([X.mean() / 255] * 3))


def test_noise_on_purpose(tmp_path: Path) -> None:
    noise = {"inject": "symmetric:0.4"}
    run = josrc.train((X, Y), **noise, **{**QUICK, "epochs": 1}, out=tmp_path / "run")
    assert run.metrics[0]["fit_id"] is not None


@pytest.mark.slow
def test_a_stopped_run_on_arrays_goes_on_when_it_gets_them_again(tmp_path: Path) -> None:
    options = {**QUICK, "epochs": 3, "test": (X, Y)}
    whole = josrc.train((X, Y), **options, out=tmp_path / "whole")

    def stop(trainer: object, *arguments: object) -> None:
        raise InterruptedRunError(15, tmp_path, "on purpose")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("josrc.engine.trainer.CHECKPOINT_PATIENCE", 0)
        patch.setattr("josrc.engine.trainer.Trainer._save_weights", _after(2, stop))
        with pytest.raises(InterruptedRunError):
            josrc.train((X, Y), **options, out=tmp_path / "stopped")
    with pytest.raises(UserError, match=r"data=\(X, y\)"):
        josrc.resume(tmp_path / "stopped")
    with pytest.raises(UserError, match=r"tested on images that are missing now.*test=\(X_test"):
        josrc.resume(tmp_path / "stopped", data=(X, Y))
    resumed = josrc.resume(tmp_path / "stopped", data=(X, Y), test=(X, Y))
    assert [row["loss"] for row in resumed.metrics] == [row["loss"] for row in whole.metrics]


def _after(epochs: int, action: object) -> object:
    """What takes the place of a trainer's method and acts once so many epochs are done."""

    def method(trainer: object, *arguments: object) -> None:
        if trainer.epoch >= epochs:  # type: ignore[attr-defined]
            action(trainer, *arguments)  # type: ignore[operator]

    return method


# --- scikit-learn --------------------------------------------------------------------------------


def classifier(**parameters: object) -> NoisyLabelClassifier:
    return NoisyLabelClassifier(**{**QUICK, "settings": STILL, **parameters})


@pytest.fixture(scope="module")
def fitted() -> NoisyLabelClassifier:
    return classifier().fit(X[:200], DATA.target[:200])


def test_a_classifier_learns(fitted: NoisyLabelClassifier) -> None:
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.score(X[200:], DATA.target[200:240]) > 0.7
    probabilities = fitted.predict_proba(X[200:])
    assert probabilities.shape == (40, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert (fitted.predict(X[200:]) == probabilities.argmax(axis=1)).all()


def test_a_classifier_says_which_labels_it_doubts() -> None:
    wrong = np.arange(0, 200, 10)
    given = DATA.target[:200].copy()
    given[wrong] = (given[wrong] + 1 + wrong // 10 % 3) % 4
    fitted = classifier(epochs=20).fit(X[:200], given)
    assert len(fitted.verdicts_) == 200
    assert fitted.verdicts_["given_label"].astype(int).tolist() == given.tolist()
    doubted = np.flatnonzero(fitted.verdicts_["verdict"] != "clean")
    assert len(np.intersect1d(doubted, wrong)) / len(wrong) > 0.7
    assert len(np.intersect1d(doubted, wrong)) / len(doubted) > 0.7
    assert fitted.noise_rate_ == pytest.approx(0.1, abs=0.05)


def test_columns_are_in_the_order_of_the_classes() -> None:
    # As words, -1 and 10 sort before 2: as numbers they don't.
    values = np.array([10, 2, -1, 300])[DATA.target[:240]]
    fitted = classifier().fit(X, values)
    assert fitted.classes_.tolist() == [-1, 2, 10, 300]
    assert (fitted.predict(X) == values).mean() > 0.7


def test_the_constructor_stores_and_clone_copies() -> None:
    made = classifier(seed=7, epochs=3)
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    assert copy.settings == STILL
    assert not hasattr(copy, "classes_")
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_it_works_in_a_pipeline_and_in_cross_validation() -> None:
    brighter = FunctionTransformer(lambda images: images // 2 + 100)
    pipeline = make_pipeline(brighter, classifier())
    assert cross_val_score(pipeline, X, Y, cv=2).mean() > 0.6


def test_a_fitted_classifier_can_be_pickled(fitted: NoisyLabelClassifier) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X[:9]), fitted.predict_proba(X[:9]))


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, None, 1],
        ["a", "b", float("nan"), "a"],
        np.array([0, 1, np.nan, 1]),
        np.array([[0], [1], [np.nan], [1]]),
        pd.Series(["a", "b", None, "a"]),
        pd.Series([0, 1, None, 1], dtype="Int64"),
        pd.Series(pd.to_datetime(["2020", "2021", None, "2020"])),
    ],
    ids=str,
)
def test_missing_labels_are_a_value_error(labels: object) -> None:
    with pytest.raises(ValueError, match=r"1 of 4 labels are missing .* image 2,"):
        classifier().fit(X[:4], labels)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (X.reshape(240, -1), Y, r"shape \(240, 64\)"),
        (X.astype(np.int64), Y, "not int64"),
        (X.astype(np.float32), Y, "between 0 and 1, and these range from 0 to"),
        (X, Y[:9], "240 images and 9 labels"),
        (X[:9], ["a"] * 9, "one class, 'a'"),
        (["a.png", "a.png"], ["x", "y"], "same id 'a.png'"),
        (["a.png", "b.png"], ["x", "y"], "contains no images"),
        (X[:0], [], "contains no images"),
        (X[:4], ["a", None, "b", float("nan")], "2 of 4 labels are missing .* image 1,"),
    ],
)
def test_mistakes_are_told(images: object, labels: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        josrc.train((images, labels), out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()
