"""Networks: the paper's 7-layer CNN and every backbone of timm, under one ``create_model``."""

from josrc.models.ensemble import mean_probabilities
from josrc.models.factory import Classifier, create_model

__all__ = ["Classifier", "create_model", "mean_probabilities"]
