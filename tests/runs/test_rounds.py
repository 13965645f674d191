"""Two rounds on the same images, and images that came since, through the command line."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import josrc as package
from commands import josrc
from josrc.runs.compare import compare_runs, confirmed
from josrc.verdicts.decided import SampleDecision, read_sample_decisions
from reviewing import decide, read

NAMES = ("zero", "one", "two")
PER_CLASS, WRONG = 100, 4


@dataclass(frozen=True)
class Rounds:
    """A scan, decisions on it, and a scan of what ``josrc apply`` made of them.

    Attributes:
        first: the earlier run.
        second: the later one.
        photos: the folder that the first one scanned.
        features: of the images, by the name of their file.
    """

    first: Path
    second: Path
    photos: Path
    features: dict[str, np.ndarray]

    def rows(self, run: Path) -> dict[str, int]:
        """The row of each file in a run's verdicts."""
        lines = read(run / "audit" / "verdicts.csv")
        return {Path(line["path"]).name: row for row, line in enumerate(lines)}


def features_for(run_order: list[str], features: dict[str, np.ndarray], path: Path) -> Path:
    np.save(path, np.stack([features[Path(name).name] for name in run_order]))
    return path


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """Digits in three folders; the first four files of each lie in the folder of the next class.

    Three of the four mislabelled zeros are relabelled, the last is kept. Of right ones, a two is
    relabelled to one, and another is removed.
    """
    root = tmp_path_factory.mktemp("rounds")
    digits = load_digits(n_class=3)
    features: dict[str, np.ndarray] = {}
    for label, name in enumerate(NAMES):
        for number, index in enumerate(np.flatnonzero(digits.target == label)[:PER_CLASS]):
            folder = NAMES[(label + 1) % 3] if number < WRONG else name
            path = root / "photos" / folder / f"{name}-{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            grey = np.kron(digits.images[index] * 15.9, np.ones((4, 4))).astype(np.uint8)
            Image.fromarray(grey).convert("RGB").save(path)
            features[path.name] = digits.data[index].astype(np.float32)
    photos, first, second = root / "photos", root / "FIRST", root / "SECOND"
    order = sorted(map(str, photos.rglob("*.png")), key=lambda path: path.split("/")[-2:])
    package.scan(str(photos), features=features_for(order, features, root / "f1.npy"), out=first)
    made = Rounds(first, second, photos, features)
    rows = made.rows(first)
    decide(
        first,
        ([rows[f"zero-{number:02}.png"] for number in range(3)], "label", "zero"),
        ([rows["zero-03.png"]], "keep"),
        ([rows["two-20.png"]], "label", "one"),
        ([rows["two-21.png"]], "remove"),
    )
    cleaned = root / "cleaned.csv"
    assert josrc("apply", first, "--out", cleaned) == 0
    left = [line["path"] for line in read(cleaned)]
    package.scan(
        str(cleaned), features=features_for(left, features, root / "f2.npy"), out=second,
        allow_outside=True,
    )  # fmt: skip
    return made


def test_a_comparison_counts_samples_labels_verdicts_and_decisions(
    rounds: Rounds, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert josrc("compare", rounds.first, rounds.second) == 0
    said = capsys.readouterr().out
    assert (
        f"299 images are in both runs, 1 only in {rounds.first}; 4 have a different label" in said
    )
    found = compare_runs(rounds.first, rounds.second)
    assert (found.both, found.gone, found.new, found.relabelled) == (299, 1, 0, 4)
    assert sum(found.verdicts.values()) == 299
    assert found.decisions["relabel", "confirmed"] == 3
    assert found.decisions["relabel", "contradicted"] == 1
    assert found.decisions["keep", "contradicted"] == 1
    assert found.decisions["remove", "gone"] == 1
    assert "Of 6 decisions" in said
    assert "3 are confirmed" in said
    assert "relabelled: 3 confirmed, 1 contradicted" in said
    # The two that was called one, and the zero that was kept a one.
    assert {Path(one.id).name for one in found.contradicted} == {"two-20.png", "zero-03.png"}
    against = next(one for one in found.contradicted if one.id.endswith("two-20.png"))
    assert against.decided == "now one"
    assert against.now == "it looks like 'two', not 'one'"
    assert re.search(r"mislabelled +\d+ +\d+", said)
    assert re.search(r"two-20\.png: now one, but it looks like 'two', not 'one' \(0\.\d\d\)", said)


def test_decisions_and_an_earlier_run_stand_in_the_report(
    rounds: Rounds, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("report", rounds.second, "--compare", rounds.first) == 0
    page = (rounds.second / "audit" / "report.html").read_text()
    assert "Compared with an earlier run" in page
    assert "it looks like &#39;two&#39;, not &#39;one&#39;" in page
    assert 'id="decisions"' not in page, "nobody has decided on anything there"
    assert josrc("report", rounds.first) == 0
    page = (rounds.first / "audit" / "report.html").read_text()
    assert "People had decided on 6 images when this was written:" in page
    assert "1 kept, 4 relabelled, 1 removed." in page
    assert '"decided":["relabel","now zero"]' in page
    assert "Compared with an earlier run" not in page


@pytest.mark.parametrize(
    ("decided", "before", "given", "verdict", "suggested", "agrees"),
    [
        (SampleDecision("keep"), "cat", "cat", "clean", "", True),
        (SampleDecision("keep"), "cat", "cat", "mislabelled", "dog", False),
        (SampleDecision("keep"), "cat", "cat", "out_of_distribution", "", False),
        (SampleDecision("keep"), "cat", "emu", "mislabelled", "cat", True),
        (SampleDecision("relabel", "dog"), "cat", "dog", "clean", "", True),
        (SampleDecision("relabel", "dog"), "cat", "dog", "mislabelled", "cat", False),
        (SampleDecision("relabel", "dog"), "cat", "cat", "mislabelled", "dog", True),
        (SampleDecision("relabel", "dog"), "cat", "cat", "clean", "", False),
        (SampleDecision("relabel", "dog"), "cat", "cat", "mislabelled", "emu", False),
        (SampleDecision("remove"), "cat", "cat", "out_of_distribution", "", True),
        (SampleDecision("remove"), "cat", "cat", "clean", "", False),
    ],
)
def test_a_verdict_confirms_a_decision_if_it_means_the_same_label(
    decided: SampleDecision, before: str, given: str, verdict: str, suggested: str, agrees: bool
) -> None:
    assert confirmed(decided, before, given, verdict, suggested) is agrees


def failing(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a mistake is answered with."""
    capsys.readouterr()
    assert josrc(*arguments) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_runs_that_can_not_be_compared(
    rounds: Rounds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the same run" in failing(capsys, "compare", rounds.first, rounds.first)
    assert "nowhere" in failing(capsys, "compare", rounds.first, tmp_path / "nowhere")
    labels = ["cat", "dog"] * 60
    other = tmp_path / "OTHER"
    package.scan(labels, features=np.random.default_rng(0).normal(size=(120, 8)), out=other)
    assert "no image in common" in failing(capsys, "compare", rounds.first, other)
    unfinished = tmp_path / "UNFINISHED"
    shutil.copytree(rounds.first, unfinished)
    (unfinished / "summary.json").unlink()
    assert "josrc resume" in failing(capsys, "compare", unfinished, rounds.second)
    silent = tmp_path / "SILENT"
    shutil.copytree(rounds.first, silent)
    (silent / "audit" / "verdicts.csv").unlink()
    assert "josrc audit" in failing(capsys, "compare", rounds.second, silent)
    assert "josrc audit" in failing(capsys, "report", rounds.second, "--compare", silent)
    damaged = tmp_path / "DAMAGED"
    shutil.copytree(rounds.first, damaged)
    (damaged / "audit" / "decisions.sqlite").write_bytes(b"no database" * 100)
    for name in ("decisions.sqlite-wal", "decisions.sqlite-shm"):
        (damaged / "audit" / name).unlink(missing_ok=True)
    assert "decisions.sqlite can't be opened" in failing(capsys, "compare", damaged, rounds.second)


def test_nobody_has_decided(rounds: Rounds, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_sample_decisions(rounds.second / "audit") == {}
    capsys.readouterr()
    assert josrc("compare", rounds.second, rounds.first) == 0
    assert "Nobody has decided on anything" in capsys.readouterr().out


# --- images that came since ----------------------------------------------------------------------


def test_new_images_need_features_that_can_be_made(
    rounds: Rounds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new" / "one"
    new.mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(new / "fresh.png")
    said = failing(capsys, "audit", rounds.first, "--new", new.parent)
    assert "was made from features of your own" in said
    assert "does not have" in failing(capsys, "audit", rounds.first, "--new", rounds.photos)
    assert "nowhere" in failing(capsys, "audit", rounds.first, "--new", tmp_path / "nowhere")
    rated = failing(capsys, "audit", rounds.first, "--new", new.parent, "--noise-rate", "0.1")
    assert "without --new first" in rated
    (tmp_path / "new" / "one").rename(tmp_path / "new" / "emu")
    assert "emu" in failing(capsys, "audit", rounds.first, "--new", new.parent)


def test_new_images_are_judged_by_a_trained_network(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    before = (run / "audit" / "verdicts.csv").read_bytes()
    new = tmp_path / "new"
    for number, path in enumerate(sorted(pictures.glob("zero/*.png"))[:5]):
        label = "zero" if number else "three"
        (new / label).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, new / label / f"new-{number}.png")
    (new / "zero" / "torn.png").write_bytes(b"no picture")
    capsys.readouterr()
    assert josrc("audit", run, "--new", new) == 0
    said = capsys.readouterr().out
    assert "5 new images, judged by the trained network" in said
    assert "Could not be read: 1 file, such as" in said
    assert f"Report: {tmp_path / 'run-new' / 'audit' / 'report.html'}" in said
    lines = read(run / "audit" / "new-verdicts.csv")
    assert list(lines[0]) == list(read(run / "audit" / "verdicts.csv")[0])
    assert [line["given_label"] for line in lines].count("three") == 1
    assert all(Path(line["path"]).is_file() for line in lines)
    # The less likely the network finds a label, the more suspicious it is.
    predictor = package.Run.load(run).predictor(last=True)
    likely = predictor.probabilities([line["path"] for line in lines])
    own = [predictor.class_names.index(line["given_label"]) for line in lines]
    chance = likely[np.arange(5), own]
    scores = [float(line["score"]) for line in lines]
    assert (np.diff(np.array(scores)[np.argsort(chance)]) >= 0).all()
    assert max(scores) > min(scores)
    assert (run / "audit" / "verdicts.csv").read_bytes() == before
    # Where the run's own images lie among them, only the new ones are judged.
    both = tmp_path / "both.csv"
    rows = [f"{path},zero" for path in sorted(pictures.glob("zero/*.png"))[:3]]
    rows.append(f"{new / 'zero' / 'new-1.png'},zero")
    both.write_text("\n".join(["path,label", *rows]) + "\n")
    said = failing(capsys, "audit", run, "--new", both)
    assert "allow" in said


def test_new_images_lead_on_to_report_decisions_and_a_corrected_set(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, grown = tmp_path / "run", tmp_path / "pictures"
    shutil.copytree(finished, run)
    shutil.copytree(pictures, grown)
    for number, path in enumerate(sorted(pictures.glob("zero/*.png"))[:6]):
        label = "zero" if number else "three"  # and none of the other classes
        Image.open(path).rotate(3).save(grown / label / f"new-{number}.png")
    (grown / "zero" / "torn.png").write_bytes(b"no picture")
    capsys.readouterr()
    out = tmp_path / "judged"
    words = ("audit", run, "--new", grown, "--out", out)
    assert josrc(*words, "--data-root", grown) == 0
    said = capsys.readouterr().out
    assert "6 new images, judged by the trained network" in said
    assert (
        f"Left out, as the run has them already: {len(list(pictures.glob('*/*.png')))} im" in said
    )
    lines = read(out / "audit" / "verdicts.csv")
    assert len(lines) == 6
    assert (run / "audit" / "new-verdicts.csv").read_text() == (
        (out / "audit" / "verdicts.csv").read_text()
    )
    assert "judged <bdi>by the trained network" in (out / "audit" / "report.html").read_text()
    assert "holds a run" in failing(capsys, *words, "--data-root", grown)

    # People decide on them: classes that no new image has can be chosen, too.
    wrong = next(row for row, line in enumerate(lines) if line["given_label"] == "three")
    decide(out, ([wrong], "label", "one"))
    assert josrc("report", out) == 0
    tasks = tmp_path / "tasks.json"
    assert josrc("apply", out, "--to", "label-studio", tasks) == 0
    capsys.readouterr()
    cleaned = tmp_path / "cleaned.csv"
    assert josrc("apply", out, "--out", cleaned) == 0
    assert "Since the training" not in capsys.readouterr().out, "known images are not new"
    labels = {row["id"]: row["label"] for row in read(cleaned)}
    assert labels == {
        line["id"]: "one" if row == wrong else "zero" for row, line in enumerate(lines)
    }
    assert "holds 1 decisions" in failing(capsys, *words, "--data-root", grown, "--overwrite")
    # It has no network, and its verdicts need another run's.
    judge = f"josrc audit {run} --new PATH"
    assert judge in failing(capsys, "audit", out)
    assert judge in failing(capsys, "audit", out, "--new", pictures)
    assert "go with --new" in failing(capsys, "audit", run, "--out", tmp_path / "other")
