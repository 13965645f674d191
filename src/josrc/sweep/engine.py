"""A sweep on Ray Tune: what is missing of it is run, what is there is the record."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from josrc._console import say
from josrc._reading import regular
from josrc.engine.cluster import check_ray, check_resources, connected
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.sweep.plan import METRICS, SweepPlan, Trial, read_plan, trials_of
from josrc.sweep.record import STOPPED, Record, SweepFolder
from josrc.sweep.table import show, write_table
from josrc.sweep.trial import train_trial

# So often a run goes on after its worker was killed before it is left to the next start.
MAX_FAILURES = 5
OWN_NAMES = {"plan.yaml", "runs", "records", "tune", "table.csv", "parallel.png", ".lock"}


def sweep(
    path: Path,
    out: Path | None,
    console: Console,
    *,
    address: str | None = None,
    cpus: int | None = None,
) -> SweepFolder:
    """Run what is missing of a plan, and write its table and its picture.

    Args:
        path: the plan.
        out: folder of the sweep; ``runs/NAME`` of the plan by default.
        console: where progress is reported.
        address: of a Ray cluster that is running; none starts Ray here.
        cpus: cores of this machine to use.
    """
    plan = read_plan(path)
    trials = trials_of(plan)
    check_ray("josrc sweep")
    folder = SweepFolder((out or Path("runs") / path.stem).absolute())
    _check_folder(folder.path)
    with RunFolder(folder.path).locked():
        _announce(plan, trials, folder, console)
        missing = [trial for trial in trials if not folder.has_ended(trial.name)]
        if missing:
            shutil.copyfile(regular(path), folder.path / "plan.yaml")
            with connected(address, cpus):
                check_resources(plan.cpus, plan.gpus)
                _run(plan, trials, missing, folder, console)
        show(write_table(plan, trials, folder), plan, folder, console)
    _check_all_ended(trials, folder)
    return folder


def _check_folder(path: Path) -> None:
    """Raise an error if a sweep can't go there."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; --out names a folder.")
    foreign = sorted({entry.name for entry in path.iterdir()} - OWN_NAMES) if path.is_dir() else []
    if foreign:
        raise UserError(
            f"{path} holds {foreign[0]}, which is not part of a sweep. Name another --out."
        )


def _announce(
    plan: SweepPlan, trials: Sequence[Trial], folder: SweepFolder, console: Console
) -> None:
    done = sum(folder.has_ended(trial.name) for trial in trials)
    said = f"{len(trials):,} runs, {done:,} of them already done; sweep folder: {folder.path}"
    if plan.metric is not None:
        said += (
            "\n"
            f"Runs are compared by {plan.metric} ({METRICS[plan.metric]}), never by test "
            "accuracy: test images can't judge what they have chosen."
        )
    say(console, said)


def _check_all_ended(trials: Sequence[Trial], folder: SweepFolder) -> None:
    """Raise an error that tells the first of the runs that could not come to an end."""
    left = [trial for trial in trials if not folder.has_ended(trial.name)]
    if not left:
        return
    told = Record.read(folder.record(left[0].name)).message
    why = told or f"its worker ended {MAX_FAILURES + 1} times; Ray's logs are in /tmp/ray"
    raise UserError(
        f"{len(left):,} of {len(trials):,} runs did not finish. The first, {left[0].title}: "
        f"{why}\n"
        "Run the same command again to continue."
    )


def _run(
    plan: SweepPlan,
    trials: Sequence[Trial],
    missing: Sequence[Trial],
    folder: SweepFolder,
    console: Console,
) -> None:
    """Start Tune on the missing trials."""
    from ray import tune

    shutil.rmtree(folder.path / "tune", ignore_errors=True)  # of an earlier session: not needed
    for trial in missing:
        if Record.read(folder.record(trial.name)).message:
            folder.mark(trial.name, message="")
    scheduler = None
    if plan.scheduler is not None:
        scheduler = _create_asha(plan, trials, folder)
    known, metric = {trial.name: trial for trial in missing}, plan.metric

    def train(config: dict[str, str]) -> None:
        train_trial(known[config["run"]], folder, metric)

    tune.Tuner(
        tune.with_resources(train, {"cpu": plan.cpus, "gpu": plan.gpus}),
        param_space={"run": tune.grid_search(list(known))},
        tune_config=tune.TuneConfig(
            scheduler=scheduler,
            trial_name_creator=_name_of,
            trial_dirname_creator=_name_of,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.path),
            failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
            callbacks=[_create_teller(trials, folder, console)],
            verbose=0,
        ),
    ).fit()


def _name_of(trial: Any) -> str:
    """The name of Tune's trial, which is that of ours."""
    return str(trial.config["run"])


def _create_asha(plan: SweepPlan, trials: Sequence[Trial], folder: SweepFolder) -> Any:
    """ASHA that keeps its decisions, and knows what trials of earlier sessions reached."""
    from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler

    assert plan.scheduler is not None

    class KeptASHA(AsyncHyperBandScheduler):
        def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
            decision: str = super().on_trial_result(tune_controller, trial, result)
            if decision == TrialScheduler.STOP:
                folder.mark(_name_of(trial), end=STOPPED)
            return decision

    longest = max(trial.epochs for trial in trials)
    asha: Any = KeptASHA(
        time_attr="epoch",
        metric="value",
        mode="max",
        max_t=longest + 1,  # a run that reaches its last epoch ends by itself
        grace_period=min(plan.scheduler.grace, longest),
        reduction_factor=plan.scheduler.reduction,
    )
    for ended in (trial for trial in trials if folder.has_ended(trial.name)):
        known = SimpleNamespace(trial_id=f"ended-{ended.name}")
        asha.on_trial_add(None, known)
        for epoch, value in folder.reports(ended.name):
            report = {"epoch": epoch, "value": value}
            super(KeptASHA, asha).on_trial_result(None, known, report)  # nothing to keep of it
    return asha


def _create_teller(trials: Sequence[Trial], folder: SweepFolder, console: Console) -> Any:
    """Says a line whenever a run has come to its end."""
    from ray.tune import Callback

    class Teller(Callback):
        tell: Callable[[str], None]

        def __getstate__(self) -> dict[str, Any]:
            return {}  # Tune keeps its callbacks in a file, and a terminal can't be kept

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            self.tell(_name_of(trial))

    # Its methods are kept with whatever they see of this function: they see nothing of it.
    teller = Teller()
    teller.tell = partial(_tell_end, trials=trials, folder=folder, console=console)
    return teller


def _tell_end(name: str, trials: Sequence[Trial], folder: SweepFolder, console: Console) -> None:
    reports = folder.reports(name)
    reached = f", {reports[-1][1]:.4g} after epoch {reports[-1][0]}" if reports else ""
    done = sum(folder.has_ended(one.name) for one in trials)
    (title,) = (one.title for one in trials if one.name == name)
    say(console, f"{title}: {folder.state(name)}{reached} ({done:,} of {len(trials):,})")
