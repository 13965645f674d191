"""One run in two real processes: torchrun, gloo, the command line; and what is divided by hand."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from commands import josrc
from josrc import distributed
from josrc.data.loaders import Needs, ResidentLoader
from josrc.data.registry import open_source
from josrc.data.views import Normalise, create_view
from josrc.distributed import Place, portion
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError, UserError
from josrc.models import create_model
from josrc.runs.resolve import nested
from josrc.runs.start import configure, with_noise_rate
from josrc.verdicts.judge_run import read_ledger

ROOT = Path(__file__).parents[2]
# Batches of 101, which two processes can't halve, and a last one of 3, too small to be divided. A
# network that norms groups of channels: nothing in it depends on who else is in its batch.
OPTIONS: dict[str, Any] = {
    "noise": "symmetric",
    "rate": 0.5,
    "epochs": 3,
    "batch_size": 101,
    "device": "cpu",
    "model": "test_efficientnet_gn",
    "image_size": 32,
}
SETTINGS: dict[str, Any] = {
    "model.head": "linear",
    "data.epoch_samples": 4 * 101 + 3,
    "stop_on_collapse": False,  # so short a training may look like one
}
# Two of the three epochs have a noise model.
OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "posterior": {"method.warm_up_least": 1, "method.warm_up_most": 1}
}


def arguments(method: str, out: Path, *more: str) -> list[str]:
    options = [f"--{key.replace('_', '-')}={value}" for key, value in OPTIONS.items()]
    settings = [
        f"{key}={value}" for key, value in (SETTINGS | OWN_SETTINGS.get(method, {})).items()
    ]
    return ["train", "digits-o", *options, *settings, f"--method={method}", f"--out={out}", *more]


def alone(method: str, folder: Path) -> Trainer:
    """The same run in this process."""
    own = SETTINGS | OWN_SETTINGS.get(method, {})
    layers = [nested(key, value) for key, value in own.items()]
    config = configure("digits-o", layers=layers, method=method, **OPTIONS)
    source = open_source(config.data)
    config = with_noise_rate(config, source)
    made = Trainer(config, source, RunFolder(folder))
    made.folder.create(config, source, made.device)
    return made


@dataclass(frozen=True)
class Together:
    """What two processes left.

    Attributes:
        folder: of their runs.
        code: exit code of torchrun.
        output: of all of them.
        codes: of each process those of its commands.
    """

    folder: Path
    code: int
    output: str
    codes: list[list[int]]


def torchrun(folder: Path, commands: list[dict[str, Any]]) -> Together:
    """Commands in two processes."""
    (folder / "commands.json").write_text(json.dumps(commands))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = [ROOT / "tests" / "support" / "processes.py", folder / "commands.json"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "support")])
    ended = subprocess.run(
        [*launcher, "--nproc-per-node", "2", *script],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    codes = [json.loads((folder / f"codes-{rank}.json").read_text()) for rank in (0, 1)]
    return Together(folder, ended.returncode, ended.stdout, codes)


def assert_alike(run: Path, rows: list[Any]) -> None:
    """The metrics of a run are those of another, to the precision of float32."""
    found = RunFolder(run).read_metrics()
    assert len(found) == len(rows)
    for mine, theirs in zip(found, rows, strict=True):
        for name in mine.keys() - {"seconds"}:
            value = theirs.get(name)
            close = None if value is None else pytest.approx(value, rel=1e-3, abs=0.3)
            assert mine[name] == close, name
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


# Joint-Optim keeps predictions of every sample, Posterior opinions, from which a noise model
# follows between epochs; DeepSelf looks at all samples there.
METHODS = ("standard", "josrc", "posterior", "joint-optim", "deepself")


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trainer]:
    """Each method in one process."""
    folder = tmp_path_factory.mktemp("alone")
    made = {method: alone(method, folder / method) for method in METHODS}
    for one in made.values():
        one.run()
    return made


@pytest.fixture(scope="module")
def damaged(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures, one that is there twice, and two that give no image; far from each other."""
    folder = tmp_path_factory.mktemp("damaged") / "pictures"
    shutil.copytree(pictures, folder)
    for name in ("one/broken.png", "zero/broken.png"):
        (folder / name).write_bytes(b"no image")
    shutil.copy(next((folder / "one").glob("0*.png")), folder / "zero" / "copy.png")
    return folder


@pytest.fixture(scope="module")
def together(damaged: Path, tmp_path_factory: pytest.TempPathFactory) -> Together:
    """One start of torchrun for many commands: a start takes longer than what it trains."""
    folder = tmp_path_factory.mktemp("runs")
    begun = alone("deepself", folder / "begun-alone")
    original, steps = begun.stepper, []

    def stepper(size: int) -> None:
        steps.append(size)
        begun.stop.signal = 15 if len(steps) == 7 else None
        original(size)

    begun.stepper = stepper
    with pytest.raises(InterruptedRunError):
        begun.run()
    assert (begun.epoch, begun.position) == (1, 202)
    commands = [
        {"arguments": ["methods"]},
        {"arguments": arguments("standard", folder / "standard")},
        {"arguments": arguments("josrc", folder / "josrc")},
        {"arguments": arguments("posterior", folder / "posterior")},
        {"arguments": arguments("joint-optim", folder / "stopped"), "signal": "SIGTERM"},
        {"arguments": ["resume", str(folder / "begun-alone")]},
        {"arguments": arguments("standard", folder / "synced", "model.sync_bn=true")},
        {"arguments": streamed(damaged, folder / "streamed")},
        {"arguments": arguments("josrc", folder / "compiled", "engine=compiled"), "traced": True},
        {"arguments": arguments("standard", folder / "bereft"), "signal": "SIGKILL"},
    ]
    ended = torchrun(folder, commands)
    assert ended.codes[1] == [2, 0, 0, 0, 143, 0, 2, 0, 0], ended.output
    assert ended.codes[0] == [*ended.codes[1], 2], ended.output
    return ended


def streamed(pictures: Path, out: Path) -> list[str]:
    options = ["--method=standard", "--epochs=2", "--batch-size=16", "--device=cpu", "--val=0.2"]
    network = ["--model=test_efficientnet_gn", "--image-size=32", "model.head=linear"]
    files = ["data.resident=false", "--workers=1"]
    return ["train", str(pictures), *options, *network, *files, f"--out={out}"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["standard", "josrc", "posterior"])
def test_two_processes_find_what_one_finds(
    together: Together, references: dict[str, Trainer], method: str
) -> None:
    folder, output = together.folder, together.output
    assert_alike(folder / method, references[method].rows)
    ours = read_ledger(folder / method / "checkpoint" / "state.safetensors")
    theirs = references[method].state.ledger.arrays()
    assert (ours["visits"] == theirs["visits"]).all()
    assert np.abs(ours["mean_loss"] - theirs["mean_loss"]).max() < 0.05
    if method == "posterior":
        assert references[method].state.method.warm == 0
    agreeing = (ours["prediction"] == theirs["prediction"]).mean()
    assert agreeing > 0.99
    runs = 2 if method == "josrc" else 1  # once more with compiled steps
    assert output.count(f"{method}  epoch 3/3") == runs, "one process speaks"


@pytest.mark.slow
def test_two_processes_compile_their_steps_if_asked_to(together: Together) -> None:
    eager, compiled = (
        [{k: v for k, v in row.items() if k != "seconds"} for row in found.read_metrics()]
        for found in (RunFolder(together.folder / name) for name in ("josrc", "compiled"))
    )
    assert compiled == eager
    counts = re.findall(r"compiled steps: (\d+)", together.output)
    assert counts == [str(3 * 4)] * 2, "the last batch of an epoch is smaller, and runs eagerly"


@pytest.mark.slow
def test_a_run_stopped_in_two_processes_goes_on_in_one(
    together: Together, references: dict[str, Trainer]
) -> None:
    run = together.folder / "stopped"
    assert together.output.count("Stopped by SIGTERM; the state is saved.") == 1
    assert josrc("resume", run, "--quiet") == 0
    assert_alike(run, references["joint-optim"].rows)


@pytest.mark.slow
def test_a_run_stopped_in_one_process_goes_on_in_two(
    together: Together, references: dict[str, Trainer]
) -> None:
    assert_alike(together.folder / "begun-alone", references["deepself"].rows)


@pytest.mark.slow
def test_what_several_processes_cannot_do_is_said_once(together: Together) -> None:
    assert together.output.count("model.sync_bn=true needs GPUs") == 1
    assert together.output.count("but only josrc train and josrc resume can use them") == 1
    assert not (together.folder / "synced").exists()


@pytest.mark.slow
def test_images_in_files_are_divided_and_held_out_ones_put_together(
    together: Together, damaged: Path, tmp_path: Path
) -> None:
    run = together.folder / "streamed"
    assert josrc(*streamed(damaged, tmp_path / "alone"), "--quiet") == 0
    assert_alike(run, RunFolder(tmp_path / "alone").read_metrics())

    def verdicts(run: Path) -> dict[str, float]:
        with (run / "audit" / "verdicts.csv").open(newline="") as file:
            return {row["id"]: float(row["p_clean"]) for row in csv.DictReader(file)}

    ours, theirs = verdicts(run), verdicts(tmp_path / "alone")
    assert ours.keys() == theirs.keys()
    assert len(ours) == 121, "held-out images too"
    assert np.mean([abs(ours[name] - theirs[name]) for name in ours]) < 0.01


@pytest.mark.slow
def test_files_are_checked_by_parts_and_put_together(
    together: Together, damaged: Path, tmp_path: Path
) -> None:
    run = together.folder / "streamed"
    assert josrc(*streamed(damaged, tmp_path / "alone"), "--quiet", "--epochs=1") == 0
    assert (run / "skipped.csv").read_text() == (tmp_path / "alone" / "skipped.csv").read_text()
    assert (run / "skipped.csv").read_text().count("broken.png") == 2

    def copies(run: Path) -> set[str]:
        with (run / "audit" / "duplicates.csv").open(newline="") as file:
            return {row["path"] for row in csv.DictReader(file) if row["kind"] == "exact"}

    assert copies(run) == copies(tmp_path / "alone")
    assert len(copies(run)) == 2


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_with_a_message_and_a_checkpoint(
    together: Together, references: dict[str, Trainer]
) -> None:
    run, output = together.folder / "bereft", together.output
    assert together.code != 0
    assert output.count("Another process of this run has ended") == 1
    assert "Last good checkpoint: epoch 1" in output
    assert f"Resume with: josrc resume {run}" in output
    assert not (run / "summary.json").exists()
    assert josrc("resume", run, "--quiet") == 0
    assert_alike(run, references["standard"].rows)


# --- without processes ---------------------------------------------------------------------------


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Let this process take itself for one of several."""

    def become(rank: int, world: int) -> None:
        monkeypatch.setattr(distributed, "_place", Place(rank, world, rank, world))

    return become


@pytest.mark.parametrize(
    ("count", "world", "unit", "expected"),
    [
        (10, 1, 1, [(0, 10)]),
        (101, 2, 1, [(0, 50), (50, 101)]),
        (11, 4, 1, [(0, 2), (2, 5), (5, 8), (8, 11)]),
        (8, 4, 1, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (7, 4, 1, [(0, 7)] * 4),  # fewer than two each
        (1, 3, 1, [(0, 1)] * 3),
        (30, 2, 4, [(0, 12), (12, 30)]),  # groups of four stay whole, what is over comes last
        (12, 2, 4, [(0, 12)] * 2),
    ],
)
def test_portions_by_hand(
    as_process: Callable[[int, int], None],
    count: int,
    world: int,
    unit: int,
    expected: list[tuple[int, int]],
) -> None:
    found = []
    for rank in range(world):
        as_process(rank, world)
        own = portion(count, unit)
        found.append((own.start, own.stop))
    assert found == expected


@pytest.mark.parametrize(("rank", "order"), [(0, ["make", "meet"]), (1, ["meet", "make"])])
def test_the_first_process_of_a_machine_goes_ahead(
    as_process: Callable[[int, int], None],
    monkeypatch: pytest.MonkeyPatch,
    rank: int,
    order: list[str],
) -> None:
    as_process(rank, 2)
    found: list[str] = []
    monkeypatch.setattr(distributed, "barrier", lambda: found.append("meet"))
    assert distributed.main_first(lambda: found.append("make") or rank) == rank
    assert found == order


@pytest.mark.slow
def test_processes_fetch_together_the_batch_of_one(as_process: Callable[[int, int], None]) -> None:
    config = configure("digits-o", noise="symmetric", rate=0.5)
    source = open_source(config.data)
    cpu = torch.device("cpu")

    def fetched(rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
        as_process(rank, world)
        view = create_view(config.views, source.size, 2)
        normalise = Normalise(source.spec, None, cpu, True)
        loader = ResidentLoader(source, Needs(2), view, normalise, cpu, batch_size=50)
        loader.begin_epoch(seed=3, epoch=1, position=100)
        batch = loader.fetch(50)
        return batch.index, torch.stack(batch.images.chunk(2), dim=1)

    index, images = fetched(0, 1)
    parts = [fetched(rank, 3) for rank in range(3)]
    assert torch.equal(torch.cat([part[0] for part in parts]), index)
    assert torch.equal(torch.cat([part[1] for part in parts]), images)


def test_a_gpu_by_number_is_refused_in_several_processes(
    as_process: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from josrc.engine.device import choose_device

    as_process(1, 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match="has its own GPU"):
        choose_device("cuda:0")
    with pytest.raises(UserError, match="2 processes and 1 GPUs"):
        choose_device("cuda")
    assert choose_device("cpu").type == "cpu"


@pytest.mark.slow
def test_learned_networks_train_together_at_two_rates_and_heads_in_one_process(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    for number in range(24):
        path = tmp_path / "photos" / ("red", "blue")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 90, (40, 40, 3), dtype=np.uint8)
        pixels[..., 0 if number % 2 else 2] += 120
        Image.fromarray(pixels).save(path)
    short = ["train", str(tmp_path / "photos"), "--image-size=64", "--epochs=1", "--plant=0"]
    short += ["--method=standard", "--model=tf_efficientnet_lite0", "--pretrained", "--quiet"]
    short += ["--batch-size=8", "--workers=0", "--device=cpu", "optimizer.lr=0.001"]
    head, whole = tmp_path / "head", tmp_path / "all"
    found = torchrun(
        tmp_path,
        [
            {"arguments": [*short, "--train=head", f"--out={head}"]},
            {"arguments": [*short, "--train=all", f"--out={whole}"]},
        ],
    )
    assert found.codes == [[2, 0], [2, 0]], found.output
    assert found.output.count("--train head runs in one process") == 1
    assert not (head / "config.yaml").exists()
    weights = load_file(whole / "weights" / "last.safetensors")
    published = create_model("tf_efficientnet_lite0", 2, pretrained=True).backbone
    moved = [
        (weights[f"network.backbone.{key}"] - value).abs().max().item()
        for key, value in published.named_parameters()
    ]
    # Three steps of Adam at a tenth of the rate, and a little for the first step's own size.
    assert 0 < max(moved) <= 3.3 * 0.001 * 0.1
    assert (whole / "audit" / "verdicts.csv").is_file()
