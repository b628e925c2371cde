"""Predicting partitions on Ray: one actor per GPU, or per group of cores, holds the bundle.

Actors, and not Ray Data. A file must be read as `weft predict` reads it: its encoding, its dialect, the line
of a bad row, and the columns that the task names. Ray Data's readers know none of this, and one bad line ends
them. Their blocks are not files, so there would not be one output per input, in the order of its rows. And a
file that ends its worker every time would end the whole job. So an actor gets a file's name, streams its rows
through the model and writes the output; rows never travel over the network. Its messages stream back.

A partition whose actor has died is given to a new one. All nodes must see the files under the same paths.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from weft.corpora.crew import CORES, Busy, thread_variables
from weft.corpora.job import Job
from weft.corpora.work import Message, Work
from weft.corpora.worker import reason
from weft.errors import WeftError, command_line

TICK = 0.25
"""The seconds after which the display is drawn again."""


class Actor:
    """What runs in a process of Ray.

    Args:
        folder: the current folder of the command: a bundle may name its encoder by a relative path.
    """

    def __init__(self, folder: str) -> None:
        with suppress(OSError):  # the node may not have it
            os.chdir(folder)
        self._work = Work()  # a process of Ray sees the one GPU that it has

    def run(self, line: str) -> Iterator[Message]:
        """Predict a partition; yields the messages of `weft.corpora.work`.

        Args:
            line: the job as JSON.
        """
        job = Job.from_json(line)
        try:
            with command_line():
                for message in self._work.run(job):
                    if message.get("fatal"):  # other nodes may have what this one lacks
                        message["failed"] += f"\n  on the node {socket.gethostname()} of the Ray cluster"
                    yield message
        except Exception as wrong:
            traceback.print_exc()
            yield {"failed": reason(wrong, job), "broken": True}

    def process(self) -> int:
        """The id of its process."""
        return os.getpid()


@dataclass
class RayWorker:
    """An actor and what it does.

    Attributes:
        actor: the actor's handle.
        job: the partition it predicts; None: it is free.
        messages: the references of its messages, as they come.
        state: the last message about progress.
    """

    actor: Any
    job: Job | None = None
    messages: Any = None
    state: dict[str, Any] = field(default_factory=dict)


class RayCrew:
    """Actors of a Ray cluster; see `Crew`.

    Args:
        ray: the module, connected to a cluster.
        workers: how many actors.
        cpus: the cores of each.
        gpus: the GPUs of each.
    """

    def __init__(self, ray: Any, workers: int, cpus: int, gpus: int) -> None:
        self._ray, self._workers, self.workers = ray, workers, list[RayWorker]()
        variables = thread_variables(cpus)
        variables |= {name: value for name, value in os.environ.items() if name.startswith("WEFT_")}
        self._actor = ray.remote(Actor).options(
            num_cpus=cpus, num_gpus=gpus, max_restarts=0, runtime_env={"env_vars": variables}
        )

    @property
    def running(self) -> set[str]:
        """The identities of the jobs that run."""
        return {worker.job.identity for worker in self.workers if worker.job is not None}

    def run(
        self, next_jobs: Callable[[], Sequence[Job]], show: Callable[[Sequence[Busy]], None]
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """See `Crew`."""
        try:
            while True:
                if len(self.running) < self._workers:
                    self._start(list(next_jobs()))
                busy = [worker for worker in self.workers if worker.job is not None]
                if not busy:
                    return
                show(busy)
                by_messages = {worker.messages: worker for worker in busy}
                ready, _ = self._ray.wait(list(by_messages), timeout=TICK)
                for messages in ready:
                    worker = by_messages[messages]
                    message = self._message(worker)
                    if "step" in message:
                        worker.state = message
                        continue
                    job, worker.job, worker.messages, worker.state = worker.job, None, None, {}
                    if "gone" in message or "broken" in message:
                        self._drop(worker)
                    assert job is not None
                    yield job, message
        finally:
            self.close()

    def close(self) -> None:
        """End all actors at once."""
        for worker in list(self.workers):
            self._drop(worker)

    def _start(self, ready: list[Job]) -> None:
        while ready:
            free = next((worker for worker in self.workers if worker.job is None), None)
            if free is None:
                if len(self.workers) >= self._workers:
                    return
                free = RayWorker(self._actor.remote(os.getcwd()))
                self.workers.append(free)
            free.job = ready.pop(0)
            free.messages = free.actor.run.options(num_returns="streaming").remote(free.job.to_json())

    def _message(self, worker: RayWorker) -> dict[str, Any]:
        """The next message of an actor; `gone` if it has died."""
        try:
            message: dict[str, Any] = self._ray.get(next(worker.messages))
            return message
        except StopIteration:
            return {"failed": "its worker ended without a result", "gone": "no result"}
        except self._ray.exceptions.RayError as wrong:
            first = (str(wrong).strip() or type(wrong).__name__).splitlines()[0]
            return {"failed": f"its worker ended: {first}", "gone": first}

    def _drop(self, worker: RayWorker) -> None:
        self.workers.remove(worker)
        with suppress(Exception):  # it is gone, or the connection is
            self._ray.kill(worker.actor)


def ray_crew(ray: Any, workers: int | None, device: str | None, partitions: int) -> RayCrew:
    """Actors for a number of partitions: one per GPU of the cluster, or per group of cores.

    Args:
        ray: the module, connected to a cluster.
        workers: how many; None: as many as the cluster has room for.
        device: cpu, cuda or None: GPUs if the cluster has any.
        partitions: how many partitions there are.
    """
    found = ray.cluster_resources()
    all_gpus, all_cpus = int(found.get("GPU", 0)), int(found.get("CPU", 0))
    if device not in (None, "cpu", "cuda"):
        raise WeftError(f"--device {device}: Ray chooses the GPU of each worker; expected cpu or cuda")
    if device == "cuda" and not all_gpus:
        raise WeftError("--device cuda: the Ray cluster has no GPU; leave out --device, or add nodes")
    gpus = int(device != "cpu" and all_gpus > 0)
    if not gpus and not all_cpus:
        raise WeftError("the Ray cluster has neither CPUs nor GPUs; add nodes")
    if workers is None:
        workers = all_gpus if gpus else max(1, all_cpus // CORES)
    elif workers > (most := all_gpus if gpus else all_cpus):
        what = "GPUs" if gpus else "CPUs"
        raise WeftError(f"--workers {workers}: the Ray cluster has {most} {what}; expected at most as many")
    workers = max(1, min(workers, partitions))
    cpus = 1 if gpus else max(1, min(CORES, all_cpus // workers))
    return RayCrew(ray, workers, cpus, gpus)
