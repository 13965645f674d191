"""The images of a scan, read and turned into features by tasks of Ray: a shard each.

Tasks, not Ray Data: a shard is known by its number before anything runs, so that whoever goes on
after a kill, of a worker or of this driver, sees from the folder what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from josrc._console import progress_bar, say
from josrc.config import RunConfig
from josrc.data.feature_file import Features, FeatureWriter, open_features
from josrc.data.images import Images
from josrc.data.prepare import file_parts, spec_for
from josrc.data.source import Source
from josrc.engine.cluster import check_ray, connected
from josrc.errors import UserError
from josrc.models.factory import Classifier
from josrc.runs.data import read_images
from josrc.runs.features import feature_origin
from josrc.runs.shards import (
    SHARD_SIZE,
    TRAIN,
    Shard,
    ShardWork,
    check_size,
    digest_of,
    read_features,
    read_findings,
    shards_of,
)

# So often a shard is tried again after its worker was killed.
MAX_RETRIES = 5
# Shards that wait for a worker, for each that is being made: enough that none is ever idle.
WAITING = 1


@dataclass(frozen=True)
class OnRay:
    """How a scan uses Ray.

    Attributes:
        address: of a cluster that is running; none: Ray is started here.
        cpus: cores of this machine to use; all of them by default.
        shard_size: images of a shard.
    """

    address: str | None = None
    cpus: int | None = None
    shard_size: int = SHARD_SIZE

    def check(self) -> None:
        """Raise an error for what can't work, before anything is read."""
        check_ray("josrc scan --engine ray")
        check_size(self.shard_size)


class ShardedExtraction:
    """All images of a source as shards: those that are missing are made, then all are read."""

    def __init__(self, folder: Path, source: Source, config: RunConfig, on_ray: OnRay) -> None:
        """Plan the shards.

        Args:
            folder: where they are kept.
            source: the images, sound or not.
            config: the run's.
            on_ray: where they are made.
        """
        self.folder, self.source, self.config, self.on_ray = folder, source, config, on_ray
        self.spec = spec_for(source, config.model)
        self.images: dict[str, Images] = {TRAIN: source.images}
        if not source.images.in_memory:
            parts = file_parts(source, self.spec.tile[0])
            self.images = {name: files for name, (files, _) in parts.items()}
        self.shards = {
            name: shards_of(name, len(images), on_ray.shard_size)
            for name, images in self.images.items()
        }

    def run(self, network: Classifier, console: Console) -> tuple[Source, Features]:
        """The source as it was read, and the features of all its sound images."""
        work = self._work("cpu", 0)
        work.begin(self._made_of(network))
        every = [shard for shards in self.shards.values() for shard in shards]
        missing = [shard for shard in every if not work.path(shard).is_file()]
        done = len(every) - len(missing)
        before = f", {done:,} of them made before" if done else ""
        say(console, f"{len(every):,} shards of {self.on_ray.shard_size:,} images{before}.")
        if missing:
            with (
                connected(self.on_ray.address, self.on_ray.cpus),
                progress_bar(console, "Features") as progress,
            ):
                total = sum(map(len, self.images.values()))
                left = sum(shard.end - shard.begin for shard in missing)
                self._make(missing, lambda count: progress(total - left + count, total))
        source = self._read(work, console)
        return source, self._gather(work, source, network)

    def _work(self, device: str, workers: int) -> ShardWork:
        folder = self.folder.absolute()
        return ShardWork(folder, self.config.model, self.spec, device, workers, os.getcwd())  # noqa: PTH109

    def _made_of(self, network: Classifier) -> dict[str, Any]:
        """What tells these shards from those of other images, or of another network."""
        names = {
            name: digest_of(map(images.location, range(len(images))))
            for name, images in self.images.items()
            if not images.in_memory
        }
        return {
            "origin": feature_origin(self.config.model),
            "width": network.num_features,
            "tile": list(self.spec.tile),
            "shard_size": self.on_ray.shard_size,
            "samples": {name: len(images) for name, images in self.images.items()},
            "ids": digest_of(self.source.ids),
            "files": names,
        }

    def _make(self, missing: Sequence[Shard], progress: Callable[[int], None]) -> None:
        """Make the shards that are missing; only as many as can run are handed over at a time."""
        import ray

        work, task, slots = self._tasks()
        handle = ray.put(work)
        left = self._asked(missing)
        running: dict[Any, Shard] = {}
        done = 0
        while True:
            for shard, ids, images in islice(left, slots * (1 + WAITING) - len(running)):
                running[task.remote(handle, shard, ids, images)] = shard
            if not running:
                return
            (ended, *_), _ = ray.wait(list(running), num_returns=1)
            shard = running.pop(ended)
            try:
                done += ray.get(ended)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UserError | OSError):
                    raise UserError(f"{work.path(shard)} can't be made: {error.cause}") from None
                raise
            except ray.exceptions.RayError as error:
                raise UserError(
                    f"{work.path(shard)} was not made: its worker ended {MAX_RETRIES + 1} times "
                    f"({type(error).__name__}). The same command goes on with what is missing."
                ) from None
            progress(done)

    def _tasks(self) -> tuple[ShardWork, Any, int]:
        """How shards are made here, the task that makes one, and how many run at a time.

        Where there are GPUs each has a task, with its share of the cores to decode for it; else
        each core has one.
        """
        import ray

        there = ray.cluster_resources()
        cores, gpus = int(there.get("CPU", 1)), int(there.get("GPU", 0))
        options: dict[str, Any] = {"max_retries": MAX_RETRIES, "num_cpus": 1}
        work, slots = self._work("cpu", 0), cores
        if gpus and self.config.device != "cpu":
            share = max(1, cores // gpus)
            work, slots = self._work("cuda", share), gpus
            # By default Ray ends a process after each task on a GPU, and the network with it.
            options |= {"num_cpus": share, "num_gpus": 1, "max_calls": 0}
        return work, ray.remote(**options)(make_shard), slots

    def _asked(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, Sequence[str], Images]]:
        """Each shard with the names of its images, and these."""
        for shard in shards:
            numbers = np.arange(shard.begin, shard.end)
            images = self.images[shard.part]
            named = self.source.ids if shard.part == TRAIN else None
            ids = [named[i] if named else images.location(i) for i in numbers.tolist()]
            yield shard, ids, images.take(numbers)

    def _read(self, work: ShardWork, console: Console) -> Source:
        """The source with what its shards say of the files."""
        if self.source.images.in_memory:
            return self.source
        places = {name: [work.path(one) for one in found] for name, found in self.shards.items()}
        return read_images(
            self.source, self.config, console, read=lambda name, _: read_findings(places[name])
        )

    def _gather(self, work: ShardWork, source: Source, network: Classifier) -> Features:
        """The features of all sound images as one file, which everybody else reads."""
        path = self.folder.parent / "features.safetensors"
        origin = feature_origin(self.config.model)
        writer = FeatureWriter(path, source.ids, network.num_features, origin)
        filled = 0
        for shard in self.shards[TRAIN]:
            rows = read_features(work.path(shard), network.num_features)
            if filled + len(rows) > len(writer.rows):
                raise UserError(f"{work.path(shard)} has more rows than its images: delete it.")
            writer.rows[filled : filled + len(rows)] = rows
            filled += len(rows)
        if filled < len(writer.rows):
            raise UserError(f"{work.folder} lacks the features of some images: delete it.")
        writer.finish()
        return open_features(path)


def make_shard(work: ShardWork, shard: Shard, ids: Sequence[str], images: Images) -> int:
    """A shard, in a worker, unless it is there: a task may be run twice."""
    if work.path(shard).is_file():
        return len(images)
    return work.make(shard, ids, images)
