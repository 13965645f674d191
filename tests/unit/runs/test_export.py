"""``josrc export``: the file and its card alone give what ``josrc predict`` says."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

import josrc as library
from commands import josrc
from josrc.data.decode import ORIENTATION
from josrc.errors import UserError
from josrc.runs.export import export

MODEL_PAGE = Path(__file__).parents[3] / "docs" / "use" / "model.md"


def prepared(path: Path, card: dict[str, Any]) -> NDArray[np.float32]:
    """A picture as the card asks for it, by Pillow and numpy."""
    image = Image.open(path)
    for step in card["preprocessing"]:
        match step["step"]:
            case "colour":
                image = image.convert({"RGB": "RGB", "grey": "L"}[step["to"]])
            case "crop" if "height" not in step:
                side = min(image.size)
                left, top = ((length - side) / 2 for length in image.size)
                box = (left, top, left + side, top + side)
            case "resize":
                size = (step["width"], step["height"])
                image = image.resize(size, Image.Resampling.BILINEAR, box=box)
            case "crop":
                pixels = np.asarray(image, dtype=np.float64)
                top, left = (
                    (pixels.shape[0] - step["height"]) // 2,
                    (pixels.shape[1] - step["width"]) // 2,
                )
                pixels = pixels[top : top + step["height"], left : left + step["width"]]
            case "divide":
                pixels = pixels / step["by"]
            case "normalise":
                pixels = (pixels - step["mean"]) / step["std"]
    return pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1).astype(np.float32)


def answers(path: Path, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """What an exported file says, without any code of josrc."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        return session.run(["probabilities"], {"images": images})[0]  # type: ignore[no-any-return]
    return torch.export.load(path).module()(torch.from_numpy(images)).detach().numpy()


def predicted(run: Path, paths: list[Path], out: Path) -> NDArray[np.float64]:
    """Probabilities by ``josrc predict``, in the order of the classes."""
    assert josrc("predict", run, *paths, "--top-k", "99", "--out", out) == 0
    names = library.Run.load(run).predictor().class_names
    ranks = ["", *(f"_{rank}" for rank in range(2, len(names) + 1))]
    with out.open(newline="") as file:
        found = [
            {row[f"predicted_label{k}"]: float(row[f"probability{k}"]) for k in ranks}
            for row in csv.DictReader(file)
        ]
    return np.array([[row[name] for name in names] for row in found])


RUNS = {
    "a network of timm": {"model": "test_resnet", "image_size": 32, "method": "standard"},
    "two networks": {
        "method": "coteaching",
        "settings": {"method.forget_rate": 0.2, "views.normalise": False},
    },
}


@pytest.mark.parametrize("name", ["cnn7", *RUNS])
def test_file_and_card_give_the_probabilities_of_predict(
    name: str, finished: Path, pictures: Path, tmp_path: Path
) -> None:
    run = finished if name == "cnn7" else tmp_path / "run"
    if name in RUNS:
        options = {"epochs": 1, "batch_size": 32, "device": "cpu", "workers": 0} | RUNS[name]
        library.train(str(pictures), out=run, **options)
    paths = sorted(pictures.glob("*/*1.png"))
    expected = predicted(run, paths, tmp_path / "p.csv")
    for kind, suffix in (("onnx", ".onnx"), ("torch", ".pt2")):
        file = tmp_path / f"model{suffix}"
        assert josrc("export", run, "--format", kind, "--out", file) == 0
        card = json.loads((tmp_path / f"model{suffix}.json").read_text())
        assert card["classes"] == ["one", "three", "two", "zero"]
        assert card["networks"] == (2 if name == "two networks" else 1)
        images = np.stack([prepared(path, card) for path in paths])
        assert list(images.shape[1:]) == card["input"]["shape"][1:]
        for count in (1, len(images)):
            found = answers(file, images[:count])
            assert found == pytest.approx(expected[:count], abs=2e-5)


def test_a_network_that_sees_images_larger_than_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"method": "standard", "epochs": 1, "batch_size": 256, "device": "cpu"}
    run = library.train("digits-o", image_size=16, out=tmp_path / "run", **options)
    assert josrc("export", run.path) == 0
    assert "Checked with onnxruntime" in capsys.readouterr().out
    file = run.path / "export" / "model.onnx"
    card = json.loads((run.path / "export" / "model.onnx.json").read_text())
    pixels = np.random.default_rng(0).integers(0, 256, (7, 8, 8), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    images = np.stack([prepared(tmp_path / f"{n}.png", card) for n in range(7)])
    expected = run.predictor().probabilities(pixels)
    assert answers(file, images) == pytest.approx(expected, abs=2e-5)


def odd_files(folder: Path, picture: Path) -> list[Path]:
    """One picture, wide and not symmetric, stored in every way that needs more than a resize."""
    colours = Image.open(picture).convert("RGB").resize((40, 30)).crop((3, 0, 40, 30))
    grey = np.asarray(colours.convert("L"), dtype=np.float64)
    clear = colours.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(colours.size))
    palette = colours.quantize(8)
    palette.info["transparency"] = 0
    lying = Image.Exif()
    lying[ORIENTATION] = 6
    sixteen = (grey * 257 * 0.5 + 9_000).astype(np.uint16)
    folder.mkdir()
    colours.save(folder / "lying.png", exif=lying)
    colours.save(folder / "lying.jpg", exif=lying, quality=95)
    colours.save(folder / "lying.tif", exif=lying)
    clear.save(folder / "clear.png")
    clear.convert("LA").save(folder / "clear-grey.png", exif=lying)
    palette.save(folder / "palette.png")
    Image.fromarray(sixteen).save(folder / "sixteen.png", exif=lying)
    Image.fromarray(sixteen).save(folder / "sixteen.tif")
    Image.fromarray((grey / 200).astype(np.float32)).save(folder / "floats.tif")
    return sorted(folder.iterdir())


def program_of_docs() -> str:
    """The program in the docs that uses an exported file without josrc."""
    programs = re.findall(r"```python\n(.*?)```", MODEL_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return next(program for program in programs if "onnxruntime" in program)


@pytest.mark.parametrize("channels", [3, 1])
def test_the_program_of_the_docs_answers_as_predict_does(
    channels: int,
    finished: Path,
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished
    if channels == 1:
        options = {"method": "standard", "epochs": 1, "batch_size": 256, "device": "cpu"}
        run = library.train("digits-o", out=tmp_path / "run", **options).path
    assert josrc("export", run, "--out", tmp_path / "model.onnx") == 0
    paths = odd_files(tmp_path / "odd", next(pictures.glob("*/*1.png")))
    expected = predicted(run, paths, tmp_path / "p.csv")
    assert len(np.unique(expected.round(4), axis=0)) >= 5  # the files do differ
    monkeypatch.chdir(tmp_path)
    for path, known in zip(paths, expected, strict=True):
        names: dict[str, Any] = {}
        exec(program_of_docs().replace("new/1.jpg", str(path)), names)
        # josrc turns a picture after it is resized, and colours to grey after that.
        tolerance = 1e-3 if channels == 3 else 1e-2
        assert names["probabilities"][0] == pytest.approx(known, abs=tolerance), path.name


class Restless(nn.Module):
    """A network that never says the same twice."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.randn(images.shape[0], 4)


def test_a_file_that_says_something_else_is_not_written(finished: Path, tmp_path: Path) -> None:
    predictor = library.Run.load(finished).predictor()
    predictor.networks = [Restless()]
    with pytest.raises(UserError, match="was not written"):
        export(predictor, "torch", tmp_path / "model.pt2", {})
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_is_one_clear_message(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("export", finished, "--format", "onxx", "--out", tmp_path / "m") == 2
    assert "no format 'onxx'. Did you mean 'onnx'?" in capsys.readouterr().err
    assert josrc("export", tmp_path, "--out", tmp_path / "m") == 2
    assert "not a josrc run folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.json").write_text("{}")
    assert josrc("export", finished, "--out", tmp_path / "notes.json") == 2
    assert "notes.json exists and is not a .onnx file" in capsys.readouterr().err
