"""What sits on top of a backbone."""

from torch import nn

from josrc.errors import UserError

# 8 GiB in float32; the head of cnn7 has this many above 360 pixels.
MAX_WEIGHTS = 2**31


def create_head(kind: str, features: int, classes: int) -> nn.Module:
    """A classifier head.

    ``linear`` is one layer. ``mlp`` is the head of the published Jo-SRC code: a hidden layer twice
    as wide as the features with batch norm, Kaiming-normal weights and zero biases.
    """
    if kind == "linear":
        return nn.Linear(features, classes)
    if kind != "mlp":
        raise ValueError(f"unknown head {kind!r}")
    weights = 2 * features * (features + classes)
    if weights > MAX_WEIGHTS:
        raise UserError(
            f"The head over {features:,} features would have {weights:.1e} weights: use a "
            "smaller --image-size, model.head=linear, or a timm network, which pools at the end."
        )
    hidden, last = nn.Linear(features, 2 * features), nn.Linear(2 * features, classes)
    for layer in (hidden, last):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(hidden, nn.BatchNorm1d(2 * features), nn.ReLU(inplace=True), last)
