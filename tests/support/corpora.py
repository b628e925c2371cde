"""Folders of files to predict, and a crew without processes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import weft
from tests.support.predicting import write_table
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder, sentence
from weft.corpora.job import Job
from weft.corpora.work import Work

BAD = "{not JSON"


def write_bundle(folder: Path, seed: int = 1) -> Path:
    """A tiny bundle with one task that takes one text."""
    encoder = folder / "encoder"
    if not encoder.exists():
        save_encoder(encoder)
    tasks = (weft.Task("cat", labels=("no", "yes")),)
    model = weft.Model(encoder, tasks, {"use": "lora", "rank": 2}, max_length=24)
    scramble(model, seed).save(folder / "bundle")
    return folder / "bundle"


def write_corpus(folder: Path, sizes: dict[str, int]) -> list[Path]:
    """Files with unique numbers `n`, by name and number of rows; the ending decides on the format."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    files, number = [], 0
    for name, size in sizes.items():
        rows = [{"n": number + at, "text": sentence(draw), "more": "x"} for at in range(size)]
        number += size
        files.append(write_table(folder / name, rows))
    return files


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


class InProcess:
    """Predicts partitions in this process, one after another; see `weft.corpora.crew.Crew`.

    Args:
        deaths: how often a worker dies with a file of this name before it is predicted.
    """

    def __init__(self, deaths: dict[str, int] | None = None) -> None:
        self.deaths = dict(deaths or {})
        self.ran: list[str] = []
        self.running: set[str] = set()
        self._work = Work()

    def run(
        self, next_jobs: Callable[[], Sequence[Job]], show: Callable[[Sequence[Any]], None]
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """See `Crew`."""
        while jobs := next_jobs():
            name = jobs[0].partition.input.name
            self.ran.append(name)
            if self.deaths.get(name, 0):
                self.deaths[name] -= 1
                yield jobs[0], {"failed": "the process ended with -9", "gone": -9}
                continue
            messages = list(self._work.run(Job.from_json(jobs[0].to_json())))
            assert all("step" in message for message in messages[:-1])
            yield jobs[0], messages[-1]

    def close(self) -> None:
        """See `Crew`."""
