"""What sits on top of a backbone."""

from torch import nn


def create_head(kind: str, features: int, classes: int) -> nn.Module:
    """A classifier head.

    ``linear`` is one layer. ``mlp`` is the head of the published Jo-SRC code: a hidden layer twice
    as wide as the features with batch norm, Kaiming-normal weights and zero biases.
    """
    if kind == "linear":
        return nn.Linear(features, classes)
    if kind != "mlp":
        raise ValueError(f"unknown head {kind!r}")
    hidden, last = nn.Linear(features, 2 * features), nn.Linear(2 * features, classes)
    for layer in (hidden, last):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(hidden, nn.BatchNorm1d(2 * features), nn.ReLU(inplace=True), last)
