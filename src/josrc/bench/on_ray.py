"""What is missing of a suite, as tasks of Ray: as many at once as there are cores or GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.console import Console

from josrc._console import Terminal, say
from josrc.bench.progress import SuiteProgress
from josrc.bench.results import ResultKey
from josrc.bench.suite import SuiteRuns, SuiteWork
from josrc.config import RunConfig
from josrc.engine.cluster import connected
from josrc.errors import FolderInUseError, UserError, sentence

# So often a run goes on, from its checkpoint, after its worker was killed.
MAX_RETRIES = 5


def run_suite_on_ray(runs: SuiteRuns, console: Console, address: str | None) -> None:
    """Run what is missing; results and run folders are those that one process would leave.

    A run on a GPU has it to itself, one on a CPU has a core. A run that can't begin or go on stops
    no other; the first of them is reported when all have ended.
    """
    if not runs.missing:
        return
    runs = replace(runs, results=runs.results.absolute(), scratch=runs.scratch.absolute())
    with connected(address):
        import ray

        device = runs.configs[0].device
        gpus = 1 if device != "cpu" and ray.cluster_resources().get("GPU") else 0
        make: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MAX_RETRIES)(make_result)
        pairs = zip(runs.missing, runs.configs, strict=True)
        waiting = {make.remote(runs, key, config): key for key, config in pairs}
        problems: list[str] = []
        while waiting:
            (ended, *_), _ = ray.wait(list(waiting), num_returns=1)
            key = waiting.pop(ended)
            try:
                problem = ray.get(ended)
            except ray.exceptions.RayError as error:
                problem = f"its worker ended too often ({type(error).__name__})"
            place = f"{len(runs.missing) - len(waiting)} of {len(runs.missing)}"
            say(console, f"{key.path.with_suffix('')}: {problem or 'done'} ({place})")
            problems += [problem] if problem else []
    if problems:
        raise UserError(
            f"{len(problems)} of {len(runs.missing)} runs were not made. The first: "
            f"{problems[0]}\n"
            "Run the same command again to continue."
        )


def make_result(runs: SuiteRuns, key: ResultKey, config: RunConfig) -> str:
    """One result, in a worker; why it was not made, else an empty text."""
    progress = SuiteProgress(runs.title, 1)
    work = SuiteWork(runs.results, runs.scratch, Terminal(quiet=True), progress, runs.epochs)
    try:
        work.run(key, config)
    except FolderInUseError:
        return "in progress in another process"
    except (UserError, OSError) as error:
        return sentence(error) if isinstance(error, OSError) else str(error)
    return ""
