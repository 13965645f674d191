"""The card of a model on a hub: what it was trained on, what was found there, and how good it is.

It claims what the run knows, and no more: which images a number is of, what chose the weights, and
no license, as that is for who publishes it to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from josrc._version import __version__
from josrc.config import PEOPLE, RunConfig
from josrc.engine.health import DISTRUST, ended_badly
from josrc.engine.metrics import Row
from josrc.runs.predictor import Predictor
from josrc.runs.run import Run

HEAD = """---
library_name: timm
pipeline_tag: image-classification
tags:
- image-classification
- timm
- noisy-labels
---
"""
USE = """## Use

```python
import timm

model = timm.create_model("local-dir:FOLDER", pretrained=True).eval()
transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
```

The classes are in the order of `label_names` in `config.json`.

## License

None is stated. Which one it may have depends on the images, and on the weights that it began with.
"""


def model_card(
    run: Run, predictor: Predictor, settings: Mapping[str, Any], *, last: bool = False
) -> str:
    """The card as Markdown.

    Args:
        run: which run it is.
        predictor: its network, with the weights that are published.
        settings: ``config.json`` of the published folder.
        last: they are the last ones, and not the best.
    """
    summary, name = run.summary, settings["architecture"]
    data = Path(str(summary["data"])).name
    row = next((row for row in run.metrics if row["epoch"] == predictor.epoch), None)
    parts = [
        f"{HEAD}# {name} trained by josrc on {json.dumps(data, ensure_ascii=False)}",
        f"{name}, {_beginning(run.config)}, {summary['epochs']} epochs of method "
        f"`{summary['method']}`, seed {summary['seed']}, josrc {__version__}. "
        f"{_chosen(run, predictor.epoch, row, last)}",
        "## Training data",
        f"{settings['num_classes']} classes: {', '.join(map(_quoted, predictor.class_names))}.",
        "\n".join([_labels(run.config), *_found(run.audit)]),
        "## Numbers",
        "\n".join(_numbers(run, row)),
        USE,
    ]
    return "\n\n".join(parts)


def _quoted(name: str) -> str:
    """A name as code, whatever is in it."""
    return f"`{name.replace('`', chr(39))}`"


def _beginning(config: RunConfig) -> str:
    """Which weights the network began with, and what of it was trained."""
    model, trained = config.model, "trained"
    if model.train == "head":
        trained = "its head alone trained"
    if model.weights is not None:
        return f"begun with the weights in {_quoted(Path(model.weights).name)}, {trained}"
    if model.pretrained:
        return f"begun with timm's pretrained weights of that name, {trained}"
    return "begun with random weights"


def _chosen(run: Run, epoch: int, row: Row | None, last: bool) -> str:
    """Of which epoch the weights are, and what chose it."""
    these = f"The weights are those of epoch {epoch}"
    if last or row is None:
        return f"{these}, the last one."
    if run.summary.get("val_chosen") is not None:
        return f"{these}, in which it agreed most with labels for validation that were checked."
    if row.get("test_accuracy") is not None:
        return (
            f"{these}, the best on the test images: these chose it, so its accuracy on them is "
            "slightly too high."
        )
    if row.get("agreement") is not None:
        return f"{these}, in which it agreed most with labels that were held out."
    return f"{these}."


def _labels(config: RunConfig) -> str:
    """Where the labels came from, and what was done to them."""
    data = config.data
    if data.noise_file is not None:
        text = f"The labels are those of the file {_quoted(Path(data.noise_file).name)}."
    elif data.noise in PEOPLE:
        text = f"The labels are those that people gave, the set {_quoted(data.noise)}."
    elif data.noise == "none":
        text = "The labels are those that the data came with."
    else:
        text = f"Labels were made wrong on purpose: {data.noise}, rate {data.rate:g}."
    if config.plant:
        text += (
            f" {config.plant:.1%} of them were set wrong during the training, to measure how well "
            "wrong ones are found."
        )
    return text


def _found(audit: Mapping[str, Any] | None) -> Iterator[str]:
    """What the run's own verdicts say of its labels."""
    if audit is None:
        return
    counts, low, high = audit["counts"], audit.get("noise_rate_low"), audit.get("noise_rate_high")
    share, of = f"{audit['noise_rate']:.1%}", f"the {audit['samples']:,} labels"
    if audit.get("known_noise_rate") is not None:
        yield f"By what josrc was given, {audit['known_noise_rate']:.1%} of {of} are wrong."
    elif audit.get("planted"):
        yield (
            f"josrc estimates that {share} of {of} are wrong (90 % interval: {low:.1%} to "
            f"{high:.1%}), measured by the errors that were planted."
        )
    else:
        least = "" if low is None else f", and at the least {low:.1%} are"
        yield f"By josrc's verdicts {share} of {of} look wrong{least}; nothing could measure them."
    yield (
        f"{counts['mislabelled']:,} images look mislabelled, {counts['out_of_distribution']:,} "
        "like none of the classes. The verdicts are an estimate: people have not checked them "
        "for this card."
    )


def _numbers(run: Run, row: Row | None) -> Iterator[str]:
    """Accuracy, with what it is of; no accuracy is not called one."""
    summary, row = run.summary, row or {}
    warning = ended_badly(summary)
    if warning:
        yield warning.removesuffix(f" {DISTRUST}")
    if summary.get("final") is not None:
        named = run.config.data.test
        what = f"in {_quoted(Path(named).name)}, their labels" if named else "of the data, whose"
        are = "are taken for right" if named else "labels are taken for right"
        yield f"Test accuracy on the test images {what} {are}:"
        yield ""
        numbers = {
            "these weights": row.get("test_accuracy"),
            "mean of the last epochs (10 at most)": summary.get("last10_mean"),
            "last epoch": summary["final"],
        }
        yield "| | test accuracy |"
        yield "|---|---:|"
        for name, value in numbers.items():
            if value is not None:
                yield f"| {name} | {value:.2f} % |"
        return
    agreement = row.get("agreement")
    if agreement is not None:
        yield (
            f"These weights agree with {agreement:.2f} % of the given labels of images that were "
            "held out of training, right or wrong labels. That is no accuracy."
        )
    yield "There were no test images, so no accuracy is known."
