"""The command line as people use it: results, errors without tracebacks, kill and resume."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from commands import josrc
from josrc import __version__

FAST = ["--epochs", "2", "--device", "cpu", "--batch-size", "256", "--quiet"]
NOISY = ["--noise", "symmetric", "--rate", "0.5"]


def process(*arguments: str | Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "josrc", *(str(argument) for argument in arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=environment, **{**pipes, **options})  # type: ignore[call-overload,no-any-return]


def metrics(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One short run of the whole command."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert josrc("train", "digits-o", *NOISY, *FAST, "--seed", "3", "--out", folder) == 0
    return folder


def test_a_run_leaves_the_folder_of_the_contract(run: Path) -> None:
    files = """
        config.yaml environment.json noise.npz metrics.csv summary.json checkpoint
        weights/last.safetensors weights/best.safetensors plots/accuracy.png plots/selection.png
        plots/threshold.png plots/groups.png plots/views.png audit/verdicts.csv audit/summary.json
    """
    for name in files.split():
        assert (run / name).exists(), name
    written = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    assert max(written, key=written.__getitem__) in (run / "summary.json", run / ".lock")
    summary = json.loads((run / "summary.json").read_text())
    keys = """
        method variant recipe data noise rate noise_seed seed epochs last10_mean last10_std best
        best_epoch final seconds_total seconds_per_epoch peak_memory_mib device versions
    """
    assert set(summary) == set(keys.split())
    assert (summary["method"], summary["variant"], summary["seed"]) == ("josrc", "full", 3)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["data"]["rate"], config["method"]["warm_up"]) == (0.5, 1)
    header = (run / "metrics.csv").read_text().splitlines()[0]
    assert header == (
        "epoch,lr,threshold,loss,test_accuracy,n_clean,n_id,n_ood,clean_precision,id_precision,"
        "ood_precision,fit_clean,fit_id,fit_ood,recover_id,seconds,teacher_accuracy,agreement,"
        "labels_turned,turned_right"
    )


def test_a_noise_file_is_what_training_draws(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "noise.npz"
    assert josrc("noise", "digits-o", *NOISY, "--out", file) == 0
    with np.load(file) as written, np.load(run / "noise.npz") as used:
        assert set(written) == {"given", "true", "kind"}
        for name in written:
            assert (written[name] == used[name]).all()


def test_training_on_a_noise_file_equals_training_on_its_noise(run: Path, tmp_path: Path) -> None:
    file, again = run / "noise.npz", tmp_path / "again"
    arguments = ["--noise-file", file, *FAST, "--seed", "3", "--out", again]
    assert josrc("train", "digits-o", *arguments) == 0
    assert metrics(again) == metrics(run)


def test_an_existing_run_is_not_overwritten_silently(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "metrics.csv").read_bytes()
    assert josrc("train", "digits-o", *NOISY, *FAST, "--out", run) == 2
    assert "contains a run" in capsys.readouterr().err
    assert (run / "metrics.csv").read_bytes() == before


def test_overwrite_never_touches_a_folder_with_files_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("of: another program")
    (tmp_path / "thesis.tex").write_text("years of work")
    assert josrc("train", "digits-o", *NOISY, *FAST, "--overwrite", "--out", tmp_path) == 2
    assert "thesis.tex, which is not part of a run" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "thesis.tex"]


def test_overwrite_replaces_a_run_once_the_new_one_can_begin(tmp_path: Path) -> None:
    arguments = ["train", "digits-o", *NOISY, *FAST, "--epochs", "1", "--out", tmp_path / "run"]
    assert josrc(*arguments) == 0
    assert josrc(*arguments, "--overwrite", "--model", "resnet81") == 2
    summary = tmp_path / "run" / "summary.json"
    assert json.loads(summary.read_text())["method"] == "josrc"
    assert josrc(*arguments, "--overwrite", "--method", "standard") == 0
    assert json.loads(summary.read_text())["method"] == "standard"
    assert not (tmp_path / "run" / "plots" / "selection.png").exists()


def test_a_start_that_was_killed_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / "noise.npz.partial").write_bytes(b"half")
    short = [*NOISY, *FAST, "--epochs", "1", "--method", "standard"]
    assert josrc("train", "digits-o", *short, "--out", tmp_path) == 0


def test_runs_without_a_name_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        short = [*NOISY, *FAST, "--epochs", "1", "--method", "standard"]
        assert josrc("train", "digits-o", *short) == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "digits-o-symmetric-0.5-standard-seed0",
        "digits-o-symmetric-0.5-standard-seed0-2",
    ]


def test_settings_reach_the_run(tmp_path: Path) -> None:
    file, out = tmp_path / "mine.yaml", tmp_path / "run"
    file.write_text("method: {alpha: 0.1, threshold: 0.6}\nmodel: {head: linear}\n")
    pairs = ["method.alpha=0.3", "method.variant=ci", "epochs=1", "optimizer.name=sgd"]
    arguments = ["--config", file, "--out", out, "--batch-size", "256", "--quiet"]
    assert josrc("train", "digits-o", *pairs, *arguments) == 0
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert (config["method"]["alpha"], config["method"]["threshold"]) == (0.3, 0.6)
    assert (config["model"]["head"], config["epochs"]) == ("linear", 1)


BAD_LABELS = np.full(1436, 8)
MISTAKES = {
    "unknown data": (["train", "digit-o"], "Did you mean 'digits-o'"),
    "rate above 1": (["train", "digits-o", "--rate", "1.5"], "data.rate=1.5"),
    "rate below 0": (["noise", "digits-o", "--rate", "-0.1", "--out", "n.npz"], "data.rate=-0.1"),
    "rate of none": (
        ["train", "digits-o", "--rate", "0.2"],
        "Rate 0.2: no kind of noise is given. Add --noise",
    ),
    "noise without rate": (["train", "digits-o", "--noise", "block"], "needs a rate"),
    "noise twice": (
        ["train", "digits-o", "--noise-file", "eights.npy", "--noise", "block", "--rate", "0.1"],
        "not both",
    ),
    "noise kind": (["train", "digits-o", "--noise", "symetric"], "Did you mean 'symmetric'"),
    "no superclasses": (
        ["train", "digits-o", "--noise", "superclass", "--rate", "0.1"],
        "superclasses",
    ),
    "unknown method": (["train", "digits-o", "--method", "jo-src"], "Did you mean 'josrc'"),
    "unknown model": (["train", "digits-o", "--model", "resnet81"], "Unknown model 'resnet81'"),
    "unknown key": (["train", "digits-o", "method.alfa=1"], "Did you mean 'method.alpha'"),
    "unknown section": (["train", "digits-o", "methods.alpha=1"], "Did you mean 'method'"),
    "hidden section": (["train", "digits-o", "data=3"], "'data' is a section"),
    "hidden key": (["train", "digits-o", "epochs.x=1", "--epochs", "1"], "Unknown key 'epochs.x'"),
    "yes for a number": (["train", "digits-o", "epochs=yes"], "epochs=True is not valid"),
    "yes for a rate": (["train", "digits-o", "optimizer.lr=yes"], "optimizer.lr=True is not valid"),
    "no data": (["train", ""], "path of the data is empty"),
    "huge head": (["train", "digits-o", "--image-size", "1000"], "a smaller --image-size"),
    "no results": (["bench", "render", "--results", "nowhere"], "nowhere does not exist"),
    "rate of noise none": (
        ["noise", "digits-o", "--noise", "none", "--rate", "0.4", "--out", "n.npz"],
        "Rate 0.4: Noise 'none' has no rate. Add --noise",
    ),
    "held out of digits": (
        ["train", "digits-o", "--val", "0.1"],
        "--val is for your own images",
    ),
    "no key=value": (["train", "digits-o", "fast"], "key=value"),
    "wrong type": (["train", "digits-o", "epochs=many"], "epochs='many'"),
    "no epoch": (["train", "digits-o", "--epochs", "0"], "epochs=0"),
    "unknown device": (["train", "digits-o", "--device", "tpu9"], "device 'tpu9'"),
    "no config file": (["train", "digits-o", "--config", "no.yaml"], "no.yaml does not exist"),
    "no noise file": (["train", "digits-o", "--noise-file", "no.npz"], "no.npz does not exist"),
    "label range": (["train", "digits-o", "--noise-file", "eights.npy"], "out of range"),
    "label count": (["train", "digits-o", "--noise-file", "short.npy"], "10 labels"),
    "noise suffix": (["noise", "digits-o", "--out", "noise.txt"], "must end in .npz"),
    "no such run": (["resume", "nowhere"], "not a josrc run folder"),
    "no weights": (["train", "digits-o", "--weights", "no.pt"], "no.pt does not exist"),
    "unknown recipe": (["recipes", "cifar"], "There is no recipe 'cifar'"),
    "recipe of data": (["train", "digits-o", "--recipe", "plain"], "no recipe 'plain'"),
    "missing data": (["train", "cifar80n-o", "--data-root", "empty"], "cifar-100-python"),
    "small images": (["train", "digits-o", "--image-size", "6"], "at least 8x8"),
    "out in a file": (["train", "digits-o", "--out", "eights.npy/run"], "Not a directory"),
    "binary config": (["train", "digits-o", "--config", "eights.npy"], "not valid YAML"),
    "numbered cpu": (["train", "digits-o", "--device", "cpu:3"], "cpu:3"),
    "nesterov": (
        ["train", "digits-o", "optimizer.nesterov=true", "optimizer.momentum=0"],
        "needs an optimizer.momentum",
    ),
    "captured on a CPU": (
        ["train", "digits-o", "--engine", "captured", "--device", "cpu"],
        "needs a GPU",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("eights.npy", BAD_LABELS)
    np.save("short.npy", np.zeros(10, dtype=int))
    (tmp_path / "empty").mkdir()
    arguments, message = MISTAKES[name]
    assert josrc(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


FOUR_EPOCHS = ("train", "digits-o", *NOISY, "--epochs", "4", "--device", "cpu", "model.width=0.25")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four epochs that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert josrc(*FOUR_EPOCHS, "--quiet", "--out", folder) == 0
    return folder


@pytest.mark.parametrize(  # SIGTERM: own images
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_stopped_run_resumes_to_the_same_end(
    whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    stopped = tmp_path / "stopped"
    running = process(*FOUR_EPOCHS, "--out", stopped)
    assert running.stdout is not None
    for line in running.stdout:
        if "epoch 2/4" in line:
            break
    running.send_signal(number)
    output = running.stdout.read()
    code = running.wait()
    running.stdout.close()

    assert not (stopped / "summary.json").exists()
    if number != signal.SIGKILL:
        assert code == 128 + number
        assert f"josrc resume {stopped}" in output
    assert josrc("resume", stopped, "--quiet") == 0
    assert metrics(stopped) == metrics(whole)
    assert json.loads((stopped / "summary.json").read_text())["epochs"] == 4


def test_resuming_a_finished_run_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "summary.json").read_bytes()
    assert josrc("resume", run) == 0
    assert "has finished" in capsys.readouterr().out
    assert (run / "summary.json").read_bytes() == before


def test_a_report_that_a_stop_prevented_is_written_by_resume(run: Path) -> None:
    (run / "audit" / "report.html").unlink()
    assert josrc("resume", run, "--quiet") == 0
    assert (run / "audit" / "report.html").is_file()


def test_two_processes_never_write_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = process("train", "digits-o", *NOISY, "--epochs", "50", "--out", tmp_path / "run")
    assert first.stdout is not None
    for line in first.stdout:
        if "epoch 1/50" in line:
            break
    again = ["train", "digits-o", "--out", tmp_path / "run"]
    predict = ["predict", tmp_path / "run", tmp_path]
    for command in (["resume", tmp_path / "run"], again, [*again, "--overwrite"], predict):
        assert josrc(*command) == 2
        error = capsys.readouterr().err
        assert "in use by another josrc process" in error
        assert "josrc resume" not in error
    first.kill()
    first.communicate()


def test_help_answers_without_importing_torch() -> None:
    code = (
        "import sys; from josrc.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'matplotlib', 'timm')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout


def test_small_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("--version") == 0
    assert josrc("methods") == 0
    assert josrc("recipes") == 0
    assert josrc("recipes", "own-images") == 0
    assert josrc("recipes", "cifar80n-o") == 0
    output = capsys.readouterr().out
    assert f"josrc {__version__}" in output
    assert "Jo-SRC" in output
    assert "# josrc train cifar80n-o --noise symmetric --rate 0.2" in output
    assert "its settings follow from the images" in output


@pytest.mark.usefixtures("small_cifar")
def test_the_papers_command_runs_with_a_timm_backbone(tmp_path: Path) -> None:
    arguments = ["--noise", "asymmetric", "--rate", "0.4", "--model", "resnet10t"]
    size = ["--image-size", "32", "--epochs", "1", "--quiet"]
    assert josrc("train", "cifar80n-o", *arguments, *size, "--out", tmp_path / "run") == 0
    assert (tmp_path / "run" / "summary.json").is_file()


def interrupted(tmp_path: Path, *arguments: str) -> Path:
    """A run that was stopped in its second epoch."""
    folder = tmp_path / "stopped"
    running = process("train", "digits-o", *arguments, "--epochs", "5", "--out", folder)
    assert running.stdout is not None
    for line in running.stdout:
        if "epoch 1/5" in line:
            break
    running.terminate()
    running.communicate()
    return folder


@pytest.mark.slow
def test_a_run_goes_on_only_as_what_it_began(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "w.safetensors"
    first = tmp_path / "first"
    short = [*NOISY, *FAST, "--epochs", "1", "--method", "standard"]
    assert josrc("train", "digits-o", *short, "--out", first) == 0
    (first / "weights" / "last.safetensors").rename(weights)
    run = interrupted(tmp_path, *NOISY, "--method", "standard", "--weights", str(weights))
    config = (run / "config.yaml").read_text()

    (run / "config.yaml").write_text(config.replace("lr: 0.001", "lr: 0.01"))
    assert josrc("resume", run, "--quiet") == 2
    assert "optimizer.lr was 0.001 and is now 0.01" in capsys.readouterr().err

    # Neither the weights it began with nor its noise file are needed to go on.
    (run / "config.yaml").write_text(config)
    weights.unlink()
    (run / "noise.npz").unlink()
    assert josrc("resume", run, "--quiet") == 0
    assert (run / "noise.npz").is_file()
    assert len(metrics(run)) == 5
    assert (run / "plots" / "accuracy.png").is_file()


def test_a_path_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "[bold]:smile:[/b] ü"
    arguments = ["--epochs", "1", "--batch-size", "256", "--method", "standard"]
    assert josrc("train", "digits-o", *NOISY, *arguments, "--out", run) == 0
    assert f"Run folder: {run}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_reader_who_leaves_does_not_end_the_training(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["--epochs", "2", "--method", "standard", "--out", run]
    running = process("train", "digits-o", *NOISY, *arguments, stderr=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.close()
    assert running.wait() == 0, running.stderr.read() if running.stderr else ""
    assert running.stderr is not None
    running.stderr.close()
    assert (run / "summary.json").is_file()


@pytest.mark.slow
def test_a_terminal_shows_a_bar_that_fits(tmp_path: Path) -> None:
    code = (
        "import os, pty, sys\n"
        "os.environ.update(COLUMNS='80', TERM='xterm')\n"
        "os.environ.pop('NO_COLOR', None)\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    )
    command = [sys.executable, "-m", "josrc", "train", "digits-o", *NOISY, "--epochs", "2"]
    arguments = ["--out", str(tmp_path / "run"), "--batch-size", "256"]
    done = subprocess.run(
        [sys.executable, "-c", code, *command, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "epoch 2/2" in done.stdout
    assert "left" in done.stdout
    assert "clean" in done.stdout
