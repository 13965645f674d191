"""Which process this is, by what launchers say; and one run under each of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from commands import josrc
from josrc import distributed
from josrc._launch import Place, find_place
from josrc.errors import UserError

ROOT = Path(__file__).parents[1]
MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
SRUN = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", **MEETING}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, Place()),
        ({"RANK": "1", "WORLD_SIZE": "1"}, Place()),
        ({"RANK": "3"}, Place()),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Place(1, 2, 1, 2)),
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            Place(5, 8, 1, 4),
        ),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1"}, Place(1, 2, 1, 2)),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_ID": "0",
                "SLURM_PROCID": "6",
                "SLURM_NTASKS": "7",
                "SLURM_LOCALID": "0",
                "SLURM_NODEID": "2",
                "SLURM_STEP_TASKS_PER_NODE": "3(x2),1",
            },
            Place(6, 7, 0, 1),
        ),
        # The script of a job knows of its tasks, and is none of them.
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, Place()),
        # Each task is a run of its own.
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "WORLD_SIZE": "1"}, Place()),
        # torchrun under srun: a process of torchrun is what counts.
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "3", "WORLD_SIZE": "4"},
            Place(3, 4, 3, 4),
        ),
        # A job script that exports WORLD_SIZE and leaves the rank to srun.
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "WORLD_SIZE": "2"}, Place(1, 2, 1, 2)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            Place(2, 4, 0, 2),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Place(1, 2, 1, 2)),
    ],
)
def test_launchers_say_which_process_this_is(told: dict[str, str], expected: Place) -> None:
    assert find_place(told | MEETING) == expected


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "WORLD_SIZE=2.*MASTER_ADDR is not set.*WORLD_SIZE=1"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "SLURM_NTASKS=2.*MASTER_ADDR is not set"),
        ({"WORLD_SIZE": "2", **MEETING}, "Set RANK too"),
        ({"RANK": "one", "WORLD_SIZE": "2", **MEETING}, "RANK='one' is not a whole number"),
        ({"RANK": "2", "WORLD_SIZE": "2", **MEETING}, "RANK=2 is not possible with WORLD_SIZE=2"),
        (
            {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "WORLD_SIZE": "4", **MEETING},
            "WORLD_SIZE=4, but SLURM_NTASKS=2",
        ),
        (SRUN | {"SLURM_NODEID": "one"}, "SLURM_NODEID='one' is not a whole number"),
        (SRUN | {"SLURM_NODEID": "-1"}, "SLURM_NODEID=-1 is not possible"),
        (SRUN | {"SLURM_LOCALID": "2"}, "SLURM_LOCALID=2 is not possible with 2 processes"),
        (SRUN | {"MASTER_PORT": "0"}, "MASTER_PORT=0: a port is a number"),
        (SRUN | {"MASTER_PORT": "http"}, "MASTER_PORT='http' is not a whole number"),
    ],
)
def test_what_makes_no_sense_is_an_error(told: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_place(told)


def test_a_step_of_endless_nodes_takes_no_memory() -> None:
    tasks = {"SLURM_STEP_TASKS_PER_NODE": "2(x999999999999)", "SLURM_NODEID": "1"}
    assert find_place(SRUN | tasks) == Place(1, 2, 1, 2)


def test_the_place_is_asked_when_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"RANK": "1", "WORLD_SIZE": "2", **MEETING}.items():
        monkeypatch.setenv(key, value)
    assert (distributed.rank(), distributed.world()) == (1, 2)
    assert not distributed.is_main()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert distributed.is_main()


def test_a_group_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    """Of one process here, which trains alone though its environment speaks of two."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for key, value in {"RANK": "1", "WORLD_SIZE": "2", **MEETING}.items():
                patch.setenv(key, value)
            with distributed.joined():
                assert distributed.place() == Place()
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_processes_that_can_not_meet_say_so_on_the_command_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "josrc", "train", "digits-o"],
        env={**clean_environment(), "RANK": "1", "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "MASTER_ADDR is not set" in ended.stderr
    assert "Traceback" not in ended.stderr


# --- one run under each launcher -----------------------------------------------------------------

OPTIONS: dict[str, Any] = {
    "noise": "symmetric",
    "rate": 0.5,
    "epochs": 2,
    "batch_size": 101,
    "device": "cpu",
}


def clean_environment() -> dict[str, str]:
    launchers = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC")
    own = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
    kept = {k: v for k, v in os.environ.items() if k not in own and not k.startswith(launchers)}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def command(out: Path) -> list[str]:
    options = [f"--{key.replace('_', '-')}={value}" for key, value in OPTIONS.items()]
    return ["-m", "josrc", "train", "digits-o", *options, f"--out={out}"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def by_torchrun(out: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [sys.executable, *launcher, *command(out)], env=clean_environment(), check=True, timeout=900
    )


def by_variables(out: Path, rank: str, world: str) -> None:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [sys.executable, *command(out)],
            env={**clean_environment(), **meeting, rank: str(number), world: "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [process.communicate(timeout=900)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert "epoch 2/2" in outputs[0]
    assert not outputs[1], "one process speaks"


def by_ray(out: Path) -> None:
    """In a process of its own: Ray leaves threads and sockets behind."""
    program = [str(ROOT / "tests" / "ray_train.py"), str(out)]
    subprocess.run([sys.executable, *program], env=clean_environment(), check=True, timeout=900)


def metrics(run: Path) -> list[str]:
    """The lines of its metrics, without the seconds."""
    lines = (run / "metrics.csv").read_text().splitlines()
    column = lines[0].split(",").index("seconds")
    return [",".join(v for i, v in enumerate(line.split(",")) if i != column) for line in lines]


@pytest.fixture(scope="module")
def torchrun_metrics(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("torchrun") / "run"
    by_torchrun(out)
    return metrics(out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
     ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")],
)  # fmt: skip
def test_variables_give_the_metrics_of_torchrun(
    variables: tuple[str, str], torchrun_metrics: list[str], tmp_path: Path
) -> None:
    by_variables(tmp_path / "run", *variables)
    assert metrics(tmp_path / "run") == torchrun_metrics


@pytest.mark.slow
def test_ray_train_gives_the_metrics_of_torchrun(
    torchrun_metrics: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    by_ray(tmp_path / "run")
    assert metrics(tmp_path / "run") == torchrun_metrics
    assert len(torchrun_metrics) == 1 + OPTIONS["epochs"]


@pytest.mark.slow
def test_the_death_of_the_first_process_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    """Without torchrun the place where they meet dies with it."""
    run = tmp_path / "run"
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    longer = [*command(run), "--epochs=40"]
    first, second = (
        subprocess.Popen(
            [sys.executable, *longer],
            env={**clean_environment(), **meeting, "RANK": str(number)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    )
    while not (run / "checkpoint" / "state.safetensors").is_file():
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    first.kill()
    told = second.communicate(timeout=120)[1]
    first.communicate()
    assert second.returncode == 2
    assert "Another process of this run has ended" in told
    assert f"Resume with: josrc resume {run}" in told
    assert "Traceback" not in told
    assert josrc("resume", run, "--quiet") == 0
    assert len(metrics(run)) == 41


def test_ctrl_c_ends_a_process_that_only_imports_without_a_word() -> None:
    program = (
        "import signal\n"
        "from josrc._launch import ended_at_once\n"
        "with ended_at_once():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    except BaseException:\n"
        "        print('a module swallows it')\n"
    )
    # A shell that starts it in the background has it ignore Ctrl-C.
    for ignored, code in ((False, -signal.SIGINT), (True, 0)):
        how = "SIG_IGN" if ignored else "default_int_handler"
        begin = f"import signal; signal.signal(signal.SIGINT, signal.{how})\n"
        ended = subprocess.run(
            [sys.executable, "-c", begin + program], capture_output=True, text=True
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")
