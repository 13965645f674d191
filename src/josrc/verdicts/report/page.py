"""The report of a run: one HTML file that carries everything and opens anywhere.

Names of files and classes are whatever somebody called them. The template escapes them, the
script gets them as data and writes them as text, and the page's own policy runs no other script
than the one it came with.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image

from josrc._console import MAX_TEXT_LENGTH, clipped
from josrc._io import write_text
from josrc._reading import read_arrays
from josrc.config import DataKind, RunConfig
from josrc.data.decode import UnreadableImageError
from josrc.data.label_files import read_truth
from josrc.data.noise import Labels
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.verdicts.decided import read_sample_decisions
from josrc.verdicts.duplicates import DUPLICATES
from josrc.verdicts.feature_map import read_map
from josrc.verdicts.report.copies import describe_duplicates
from josrc.verdicts.report.decisions import add_decisions, describe_decisions
from josrc.verdicts.report.gallery import Scores, choose, read_chosen, read_scores
from josrc.verdicts.report.noise_matrix import (
    describe_noise_matrix,
    read_noise_matrix,
    true_matrix,
)
from josrc.verdicts.report.overview import charts, matrix, overview
from josrc.verdicts.report.points import describe_map
from josrc.verdicts.report.thumbnails import MAX_SIDE, is_small, thumbnail
from josrc.verdicts.table import BORDERLINE, VERDICT_TITLES, verdicts_of

# Its style and its script each come in these files, one after the other.
PARTS = ("report", "map")
REPORT_NAME = "report.html"
# Images that a report shows.
MAX_IMAGES = 2000
# Bytes: of the whole file, and of that what the texts of the images may take.
MAX_BYTES, MAX_TEXT_BYTES = 9_500_000, 3_000_000
# In JSON these stand in strings alone, where they may be written by their numbers: so neither the
# end of a script nor the beginning of a comment can be spelled.
NUMBERED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}

Sample = dict[str, Any]


class NoPicturesError(UserError):
    """Not one of the images that a report would show can be read."""


def write_report(
    folder: RunFolder,
    config: RunConfig,
    source: Source,
    ended: Mapping[str, Any] | None = None,
    with_map: bool = True,
    compared: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``audit/report.html`` of a run that has verdicts.

    Args:
        folder: the run's.
        config: what was run.
        source: its images.
        ended: the summary of a run that is about to write it.
        with_map: draw the map of all images, if the run has one.
        compared: what is said of this run beside an earlier one; see the template.
    """
    verdicts, path = verdicts_of(folder.audit), folder.audit / REPORT_NAME
    summary = _audit_summary(folder)
    closed = [entry["class"] for entry in summary["classes"]]
    if closed != source.closed_names:
        raise UserError(
            f"{folder.audit / 'summary.json'} has classes other than the run's. Write it again: "
            f"josrc audit {folder.path}"
        )
    scores = read_scores(verdicts, closed)
    truth = read_truth(folder.noise) if folder.noise.is_file() else None
    samples = describe_samples(verdicts, scores, truth, choose(scores, MAX_IMAGES))
    decided = read_sample_decisions(folder.audit)
    add_decisions(samples, decided)
    made = read_map(folder.audit, len(scores.given)) if with_map else None
    shown = [sample["number"] for sample in samples]
    told, points = describe_map(made, scores, shown, verdicts) if made else (None, None)
    page = {
        **overview(folder, config, summary, truth, ended),
        "map": told,
        "map_command": _umap_command(folder, config),
        "matrix": matrix(scores.pairs(), [clipped(name) for name in closed]),
        "noise_matrix": _noise_matrix(folder, closed),
        "shown": len(samples),
        "decisions": describe_decisions(decided, scores),
        "compared": compared,
        "copies": describe_duplicates(folder.audit / DUPLICATES, source),
    }
    data = {
        "classes": [clipped(name) for name in source.class_names],
        "verdicts": list(VERDICT_TITLES.values()),
        "samples": samples,
        "charts": charts(folder.read_metrics()),
        "totals": {name: len(found) for name, found in scores.galleries().items()},
        "borderline": BORDERLINE,
        "map": points,
    }
    room = MAX_BYTES - len(render(page, data))
    add_pictures(samples, source, room)
    if samples and not any("image" in sample for sample in samples):
        where = samples[0]["path"]
        raise NoPicturesError(
            f"No image that the report would show can be read{f', such as {where}' * bool(where)}: "
            f"{path} is left as it was. Say where the images are now: josrc report {folder.path} "
            "--data-root NEW."
        )
    write_text(path, render(page, data))
    return path


def _noise_matrix(folder: RunFolder, closed: Sequence[str]) -> dict[str, Any] | None:
    """What the run's method estimated, beside the truth where the labels' noise is known."""
    found = read_noise_matrix(folder.checkpoint)
    if found is None or len(found) != len(closed):
        return None
    truth = None
    if folder.noise.is_file() and (true := read_truth(folder.noise)) is not None:
        given = read_arrays(folder.noise, needed=("given",), known=())["given"]
        truth = true_matrix(given, true, len(closed))
    return describe_noise_matrix(found, [clipped(name) for name in closed], truth)


def describe_samples(
    verdicts: Path, scores: Scores, truth: Labels | None, chosen: Sequence[int]
) -> list[Sample]:
    """What is shown of each sample, without its picture; not more than the texts' budget."""
    lines, samples, left = read_chosen(verdicts, set(chosen)), [], MAX_TEXT_BYTES
    for number in chosen:
        line = lines[number]
        sample = {
            "number": number,
            "id": clipped(line["id"], MAX_TEXT_LENGTH),
            "path": line["path"],
            "given": int(scores.given[number]),
            "verdict": int(scores.verdict[number]),
            "suggested": int(scores.suggested[number]),
            "clean": float(line["p_clean"]),
            "ood": float(line["p_ood"]),
            "confidence": float(line["confidence"]),
            "score": float(line["score"]),
            "reason": clipped(line["reason"], MAX_TEXT_LENGTH),
        }
        if truth is not None and number < len(truth):
            sample["true"] = int(truth[number])
        left -= len(json.dumps(sample))
        if left < 0:
            break
        samples.append(sample)
    return samples


def add_pictures(samples: Sequence[Sample], source: Source, room: float) -> None:
    """Give each sample its picture, all of them together in that many bytes.

    One that can't be read has none: the page then shows that it is missing.
    """
    # Base64 writes three bytes as four; a key, quotes and commas come with each.
    share = 3 / 4 * (room / max(1, len(samples)) - 40)
    for sample in samples:
        try:
            picture = _picture(source, sample["number"])
        except (UnreadableImageError, OSError, IndexError):
            continue
        content = thumbnail(picture, share)
        if content is not None:
            sample["image"] = base64.b64encode(content).decode("ascii")
            sample["pixels"] = int(is_small(picture))


def _picture(source: Source, number: int) -> Image.Image:
    part, index = source.at(number)
    return part.images.picture(index, MAX_SIDE)


def render(page: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        page: what stands in its text.
        data: what its script draws.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    files = resources.files("josrc.verdicts.report") / "templates"
    style, script = (
        "".join((files / f"{name}.{kind}").read_text(encoding="utf-8") for name in PARTS)
        for kind in ("css", "js")
    )
    environment = Environment(
        loader=PackageLoader("josrc.verdicts.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("report.html").render(
        page,
        policy=policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=Markup(script_json(data)),
    )
    # Names that are not valid UTF-8 can't be shown as they are.
    return text.encode("utf-8", "replace").decode("utf-8")


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element, whatever its strings hold."""
    return json.dumps(data, separators=(",", ":")).translate(NUMBERED)


def policy(style: str, script: str) -> str:
    """A content security policy: this style, this script, pictures from within, and nothing else.

    It allows them by their digests, so not even markup that got through could run anything.
    """

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _umap_command(folder: RunFolder, config: RunConfig) -> str:
    """What draws the map of a run anew; images in memory are known to a program alone."""
    if config.data.kind is DataKind.ARRAYS:
        return f"josrc.report({str(folder.path)!r}, data=(X, y), map_kind='umap')"
    return f"josrc report {shlex.quote(str(folder.path))} --map umap"


def _audit_summary(folder: RunFolder) -> dict[str, Any]:
    summary = folder.read_audit()
    if summary is None:
        raise UserError(f"{folder.path} has no verdicts yet. Write them: josrc audit {folder.path}")
    return summary
