"""Label Studio's JSON: tasks with an image and the choices that people made on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from josrc._io import readable
from josrc._reading import check_json, load_json, regular
from josrc.config import DataConfig, DataKind
from josrc.data.readers.manifest import MANIFEST_COLUMNS, Find, frame_of, read_rows
from josrc.data.readers.table import Reader, Table
from josrc.data.readers.task_schemas import Task
from josrc.errors import UserError

if TYPE_CHECKING:
    import pandas

# What the choice is called that says that an image belongs to no class; the second one where a
# class has that very name.
NO_CLASS = ("no class", "none of the classes")
# How josrc marks the choices that it hands over, so that they are no decisions when they come back.
GIVEN_MARK = "josrc-given"
# Further apart, and somebody has saved what came with the task.
TOUCHED_SECONDS = 2.0
# Where a task names the images that show the same and have no task: its answer holds for them, too.
COPIES = "exact_copies"
LOCAL_FILES = "/data/local-files/"
# An uploaded file is called by eight hexadecimal digits before its own name.
UPLOADED = re.compile(r"/data/upload/(?:\d+/)?(?:[0-9a-f]{8}-)?(.+)")


@dataclass(frozen=True)
class Answer:
    """What somebody chose for an image.

    Attributes:
        choices: names of classes; one, unless several could be chosen.
        who: that annotator, as Label Studio calls them; none where it does not say.
        when: in ISO 8601; none where it does not say.
        untouched: it is the label that josrc handed over, and nobody has saved it since.
    """

    choices: tuple[str, ...]
    who: str | None
    when: str | None
    untouched: bool = False


def no_class(classes: Sequence[str]) -> str:
    """The choice that says that an image belongs to none of the classes."""
    free = [name for name in NO_CLASS if name not in classes]
    if not free:
        raise UserError(f"Classes are called {' and '.join(map(repr, NO_CLASS))}: rename one.")
    return free[0]


def read_tasks(path: Path) -> list[dict[str, Any]]:
    """The tasks of a file that Label Studio exported as JSON, or that it could import."""
    with readable(path, "can't be read as JSON"):
        tasks = load_json(path)
    if not isinstance(tasks, list):
        raise UserError(f"{path} is not a list of Label Studio tasks. Export as JSON.")
    for number, task in enumerate(tasks, start=1):
        if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
            raise UserError(
                f"{path}, task {number:,} has no 'data'. From Label Studio, export as JSON, not "
                "as JSON-MIN; of other rows make a manifest (CSV, JSONL)."
            )
        check_json(Task, task, f"{path}, task {number:,},", "is not as Label Studio writes it")
    return tasks


def answers(task: Mapping[str, Any], where: str) -> list[Answer]:
    """What was chosen in a task, the latest last; nothing of skipped and cancelled annotations."""
    annotations = [
        annotation
        for annotation in task.get("annotations") or []
        if not annotation.get("was_cancelled")
    ]
    annotations.sort(key=_time)  # stable: without times the last one counts
    found = [
        Answer(
            _choices(annotation, where),
            _person(annotation.get("updated_by") or annotation.get("completed_by")),
            _time(annotation) or None,
            is_untouched(annotation),
        )
        for annotation in annotations
    ]
    return [answer for answer in found if answer.choices]


def is_untouched(annotation: Mapping[str, Any]) -> bool:
    """Whether an annotation is what josrc handed over, and nobody has saved it since."""
    results = annotation.get("result") or []
    if not any(str(result.get("id", "")).startswith(GIVEN_MARK) for result in results):
        return False
    if annotation.get("updated_by") or annotation.get("lead_time"):
        return False
    times = [utc(annotation.get(f"{what}_at")) for what in ("created", "updated")]
    created, updated = times
    return None in times or (updated - created).total_seconds() < TOUCHED_SECONDS  # type: ignore[operator]


def utc(text: Any) -> datetime | None:
    """A time in ISO 8601; one without a zone is taken for UTC."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _time(annotation: Mapping[str, Any]) -> str:
    """When an annotation was saved last, so that texts sort as times; empty where it is unknown."""
    found = utc(annotation.get("updated_at") or annotation.get("created_at"))
    return "" if found is None else found.isoformat(timespec="microseconds")


def _choices(annotation: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The choices of an annotation; of several questions that were asked, those of 'label'."""
    found: dict[str, tuple[str, ...]] = {}
    for result in annotation.get("result") or []:
        if result.get("type") == "choices":
            values = (result.get("value") or {}).get("choices") or []
            name = str(result.get("from_name"))
            found[name] = found.get(name, ()) + tuple(map(str, values))
    if len(found) > 1 and "label" not in found:
        raise UserError(
            f"{where} answers several questions ({', '.join(found)}). Call the one that names the "
            "class 'label'."
        )
    return found["label"] if "label" in found else next(iter(found.values()), ())


def _person(person: Any) -> str | None:
    """An annotator: their e-mail address where the export has it, else their number."""
    if isinstance(person, dict):
        person = person.get("email") or person.get("username") or person.get("id")
    return None if person is None else str(person)


def file_of(value: Any) -> str:
    """The path in what Label Studio shows as a picture: of a local file, an upload, or a URL."""
    text = str(value)
    parts = urlsplit(text)
    if parts.path.startswith(LOCAL_FILES):
        return (parse_qs(parts.query).get("d") or [""])[0]
    upload = UPLOADED.fullmatch(parts.path)
    if upload:
        return unquote(upload[1])
    return (
        unquote(parts.path).lstrip("/") if parts.scheme in ("http", "https", "s3", "gs") else text
    )


def image_key(data: Mapping[str, Any]) -> str | None:
    """Which key of a task's data holds its image."""
    # What josrc writes names the file itself, beside the address at which it is shown.
    known = ("file", *MANIFEST_COLUMNS["path"])
    return next((name for name in known if isinstance(data.get(name), str)), None)


class LabelStudioReader(Reader):
    """Tasks in a JSON file, exported from Label Studio or made for it."""

    kind = DataKind.LABEL_STUDIO

    @staticmethod
    def claims(name: str) -> bool:
        """A JSON file that holds a list."""
        return json_begins_with(Path(name).expanduser(), "[")

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Tasks in their order, each with the class that was chosen last."""
        return read_rows(Path(config.place), config, frames)


def json_begins_with(path: Path, bracket: str) -> bool:
    """Whether a JSON file holds a list, or an object, by its first character."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with regular(path).open(encoding="utf-8-sig", errors="replace") as file:
        return file.read(1000).lstrip()[:1] == bracket


def frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    """The tasks as rows of a manifest: path, label, and whatever else their data says."""
    rows = []
    for number, task in enumerate(read_tasks(path), start=1):
        data = dict(task["data"])
        key = image_key(data)
        if key is None:
            raise UserError(f"{path}, task {number:,} names no image.")
        label = _label(task, f"{path}, task {number:,}")
        rows.append({**data, "path": file_of(data[key]), "label": label})
    yield frame_of(rows, find)


def _label(task: Mapping[str, Any], where: str) -> Any:
    """The class that was chosen last, or nobody having answered the label that josrc noted.

    Several are left to who looks for several labels.
    """
    found = answers(task, where)
    if not found:
        return task["data"].get("given_label")
    chosen = found[-1].choices
    if len(chosen) > 1:
        return list(chosen)
    return None if chosen[0] in NO_CLASS else chosen[0]
