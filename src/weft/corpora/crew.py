"""Crew: what predicts partitions. Worker processes of this machine, or actors of Ray (`on_ray`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from weft.corpora.job import Job
from weft.utils.cores import cores
from weft.utils.devices import gpu_count

CORES = 4
"""How many cores share one worker: more threads make a small encoder hardly faster."""


class Busy(Protocol):
    """A worker that works."""

    @property
    def job(self) -> Any:
        """Its job."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The last message about its progress."""


class Crew(Protocol):
    """Workers that take one job after another."""

    def run(
        self, next_jobs: Callable[[], Sequence[Job]], show: Callable[[Sequence[Busy]], None]
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Run jobs until none is left; yields each job with its last message.

        Args:
            next_jobs: returns the jobs that wait, without those in `running`.
            show: called with the workers that work, several times a second.
        """

    @property
    def running(self) -> set[str]:
        """The identities of the jobs that run."""

    def close(self) -> None:
        """End all workers at once."""


def usual_workers(device: str | None) -> int:
    """The number of workers of this machine, if the user names none: one per GPU, or per group of cores."""
    if device is None or device == "cuda":
        if gpus := gpu_count():
            return gpus
    elif device != "cpu":
        return 1  # a device by its number
    return max(1, cores() // CORES)


def thread_variables(threads: int) -> dict[str, str]:
    """Environment variables that give a worker so many threads, unless the user has set them."""
    wanted = {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}
    return {name: os.environ.get(name, value) for name, value in wanted.items()}


def local_crew(workers: int) -> Crew:
    """Worker processes of this machine; the cores are divided among them.

    Args:
        workers: how many.
    """
    from weft.experiments.pool import Pool

    threads = max(1, cores() // workers)
    return cast("Crew", Pool(workers, thread_variables(threads), "weft.corpora.worker"))
