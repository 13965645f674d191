"""``NoisyLabelClassifier``: josrc as a classifier of scikit-learn."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from josrc.data.readers.arrays import check_labels
from josrc.runs.run import Run
from josrc.runs.start import train


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An image classifier for labels that can't be trusted.

    X is an array of images, ``(N, height, width)`` or ``(N, height, width, channels)``, uint8 or
    float from 0 to 1; or a list of paths. y holds a class for each.

    Args:
        method: see ``josrc methods``.
        model: ``cnn7`` or any timm model.
        pretrained: start from timm's weights.
        weights: start from the weights in this file.
        image_size: height and width that the network sees.
        epochs: ``None``: follows from the number of images; so do others that are ``None``.
        batch_size: samples per step.
        seed: of weights, order and views.
        device: ``auto``, ``cpu``, ``cuda`` ...
        settings: any other configuration keys, ``{"method.alpha": 0.3}``. ``{"plant": 0}`` plants
            no errors: of 390 images or more at least 3 % of the labels are made wrong in training,
            by which ``noise_rate_`` is measured.
        out: keep the run folder here; ``None``: it is deleted after ``fit``.
        quiet: show no progress.

    Attributes:
        classes_: the classes, sorted.
        metrics_: a mapping per epoch, with the columns of ``metrics.csv``.
        verdicts_: a pandas frame with a row per sample of X, in its order: ``verdict``,
            ``suggested_label`` and the other columns of ``audit/verdicts.csv``.
        noise_rate_: estimated share of labels in y that are wrong.
    """

    def __init__(
        self,
        method: str = "josrc",
        model: str = "cnn7",
        *,
        pretrained: bool = False,
        weights: str | Path | None = None,
        image_size: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        quiet: bool = True,
    ) -> None:
        self.method = method
        self.model = model
        self.pretrained = pretrained
        self.weights = weights
        self.image_size = image_size
        self.epochs = epochs
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.settings = settings
        self.out = out
        self.quiet = quiet

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on images and their doubtful labels."""
        check_labels(y)
        self.classes_ = np.unique(np.asarray(y))
        options = {
            name: getattr(self, name)
            for name in ("method", "model", "pretrained", "weights", "image_size", "epochs")
        }
        options |= {name: getattr(self, name) for name in ("batch_size", "seed", "device")}
        with tempfile.TemporaryDirectory() as folder:
            run = train(
                (X, y),
                out=self.out or Path(folder) / "run",
                overwrite=self.out is not None,
                settings=self.settings,
                quiet=self.quiet,
                **options,
            )
            self._keep(run)
        return self

    def _keep(self, run: Run) -> None:
        """Keep what is needed once the run folder is gone."""
        self.metrics_ = run.metrics
        self.verdicts_ = run.verdicts()
        assert run.audit is not None
        self.noise_rate_: float = run.audit["noise_rate"]
        self._predictor = run.predictor()
        place = {name: number for number, name in enumerate(self._predictor.class_names)}
        self._columns = [place[str(name)] for name in self.classes_.tolist()]

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Probability of each class of ``classes_``, ``(N, classes)``."""
        check_is_fitted(self)
        return self._predictor.probabilities(X)[:, self._columns]

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most likely class of each image, ``(N,)``."""
        place = self.predict_proba(X).argmax(axis=1)
        likely: NDArray[Any] = self.classes_[place]
        return likely
