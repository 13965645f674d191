"""josrc trains image classifiers on labels that can't be trusted.

    import josrc

    run = josrc.train("digits-o", noise="symmetric", rate=0.5)
    run.summary["last10_mean"]

The same from a shell: ``josrc train digits-o --noise symmetric --rate 0.5``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from josrc._version import __version__

if TYPE_CHECKING:
    from josrc.estimator import NoisyLabelClassifier
    from josrc.runs.audit import audit, report
    from josrc.runs.run import Run
    from josrc.runs.scan import scan
    from josrc.runs.start import resume, train

__all__ = [
    "NoisyLabelClassifier",
    "Run",
    "__version__",
    "audit",
    "report",
    "resume",
    "scan",
    "train",
]

# Where each public name lives. torch takes seconds to import: `josrc --help` must not wait for it.
_HOMES = {
    "NoisyLabelClassifier": "josrc.estimator",
    "Run": "josrc.runs.run",
    "audit": "josrc.runs.audit",
    "report": "josrc.runs.audit",
    "resume": "josrc.runs.start",
    "scan": "josrc.runs.scan",
    "train": "josrc.runs.start",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'josrc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
