"""josrc trains image classifiers on labels that can't be trusted.

    import josrc

    run = josrc.train("digits-o", noise="symmetric", rate=0.5)
    run.summary["last10_mean"]

The same from a shell: ``josrc train digits-o --noise symmetric --rate 0.5``.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["NoisyLabelClassifier", "Run", "__version__", "resume", "train"]

if TYPE_CHECKING:
    from josrc.estimator import NoisyLabelClassifier
    from josrc.runs import Run, resume, train


def __getattr__(name: str) -> Any:
    # torch takes seconds to import: `josrc --help` must not wait for it.
    if name in ("Run", "resume", "train"):
        from josrc import runs

        return getattr(runs, name)
    if name == "NoisyLabelClassifier":
        from josrc.estimator import NoisyLabelClassifier

        return NoisyLabelClassifier
    raise AttributeError(f"module 'josrc' has no attribute {name!r}")
