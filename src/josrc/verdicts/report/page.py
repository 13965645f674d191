"""The report of a run: one HTML file that carries everything and opens anywhere.

Names of files and classes are whatever somebody called them. The template escapes them, the
script gets them as data and writes them as text, and the page's own policy runs no other script
than the one it came with.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image

from josrc._console import LONGEST_TEXT, clipped
from josrc._io import write_text
from josrc.config import RunConfig
from josrc.data.decode import UnreadableImageError
from josrc.data.label_files import read_truth
from josrc.data.noise import Labels
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.verdicts.duplicates import DUPLICATES, describe_duplicates
from josrc.verdicts.report.gallery import Scores, choose, read_chosen, read_scores
from josrc.verdicts.report.overview import charts, matrix, overview
from josrc.verdicts.report.thumbnails import LARGEST, is_small, thumbnail
from josrc.verdicts.table import BORDERLINE, VERDICT_TITLES

REPORT_NAME = "report.html"
# Images that a report shows.
MOST = 2000
# Bytes: of the whole file, and of that what the texts of the images may take.
BUDGET, TEXTS = 9_500_000, 3_000_000
# In JSON these stand in strings alone, where they may be written by their numbers: so neither the
# end of a script nor the beginning of a comment can be spelled.
NUMBERED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}

Sample = dict[str, Any]


class NoPicturesError(UserError):
    """Not one of the images that a report would show can be read."""


def write_report(
    folder: RunFolder, config: RunConfig, source: Source, ended: Mapping[str, Any] | None = None
) -> Path:
    """Write ``audit/report.html`` of a run that has verdicts.

    Args:
        folder: the run's.
        config: what was run.
        source: its images.
        ended: the summary of a run that is about to write it.
    """
    verdicts, path = folder.audit / "verdicts.csv", folder.audit / REPORT_NAME
    summary = _audit_summary(folder)
    closed = [entry["class"] for entry in summary["classes"]]
    scores = read_scores(verdicts, closed)
    truth = read_truth(folder.noise) if folder.noise.is_file() else None
    samples = describe_samples(verdicts, scores, truth, choose(scores, MOST))
    page = {
        **overview(folder, config, summary, truth, ended),
        "matrix": matrix(scores.pairs(), [clipped(name) for name in closed]),
        "shown": len(samples),
        "copies": describe_duplicates(folder.audit / DUPLICATES),
    }
    data = {
        "classes": [clipped(name) for name in source.class_names],
        "verdicts": list(VERDICT_TITLES.values()),
        "samples": samples,
        "charts": charts(folder.read_metrics()),
        "totals": {name: len(found) for name, found in scores.galleries().items()},
        "borderline": BORDERLINE,
    }
    room = BUDGET - len(render(page, data))
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


def describe_samples(
    verdicts: Path, scores: Scores, truth: Labels | None, chosen: Sequence[int]
) -> list[Sample]:
    """What is shown of each sample, without its picture; not more than the texts' budget."""
    lines, samples, left = read_chosen(verdicts, set(chosen)), [], TEXTS
    for number in chosen:
        line = lines[number]
        sample = {
            "number": number,
            "id": clipped(line["id"], LONGEST_TEXT),
            "path": line["path"],
            "given": int(scores.given[number]),
            "verdict": int(scores.verdict[number]),
            "suggested": int(scores.suggested[number]),
            "clean": float(line["p_clean"]),
            "ood": float(line["p_ood"]),
            "confidence": float(line["confidence"]),
            "score": float(line["score"]),
            "reason": clipped(line["reason"], LONGEST_TEXT),
        }
        if truth is not None and number < len(truth):
            sample["true"] = int(truth[number])
        left -= len(json.dumps(sample))
        if left < 0:
            break
        samples.append(sample)
    return samples


def add_pictures(samples: Sequence[Sample], source: Source, room: float) -> None:
    """Give each sample its picture, all of them together in so many bytes.

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
    return part.images.picture(index, LARGEST)


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
        (files / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
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
    # Names that are no UTF-8 can't be shown as they are.
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


def _audit_summary(folder: RunFolder) -> dict[str, Any]:
    summary = folder.read_audit()
    if summary is None:
        raise UserError(f"{folder.path} has no verdicts yet. Write them: josrc audit {folder.path}")
    return summary
