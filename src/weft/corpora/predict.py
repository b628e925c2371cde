"""Predicting many files: the function behind `weft predict` with several files.

Every file is a partition. Workers take one after another, the largest first. A partition whose worker was
killed is predicted again; one that fails is reported, and the others go on. A call that was killed at any
moment is repeated: finished partitions are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from weft.corpora.crew import Busy, Crew, local_crew, usual_workers
from weft.corpora.finished import FOLDER, Records, state_of
from weft.corpora.job import Job, Settings
from weft.corpora.partition import Partition, expand, partitions_of
from weft.corpora.progress import CorpusProgress
from weft.corpora.stopping import noted_signals
from weft.errors import RunFailed, WeftError
from weft.utils.counted import counted
from weft.utils.lock import LOCK, locked
from weft.utils.notes import Tell, no_note
from weft.utils.ray_start import RAY, ray_cluster, refuse_without_ray
from weft.utils.temporary import sweep_leftovers
from weft.workflows.predict import Opened

TRIES = 3
"""How often a partition is begun whose worker was killed."""
AHEAD = 64
"""How many jobs are offered to the workers at a time; there may be millions of files."""
LOOKED_AT = 20
"""How many files are opened before workers start, and how many rows of each, until one can be read."""


class Totals(NamedTuple):
    """What a call has done.

    Attributes:
        files: the number of files with predictions, those of earlier calls included.
        skipped: how many of them were finished before.
        answered: the rows with a prediction in all of them.
        wrong: the rows that could not be read in all of them.
        failed: why files have no predictions, by file.
    """

    files: int
    skipped: int
    answered: int
    wrong: int
    failed: dict[Path, str]


def predict_files(
    settings: Settings,
    files: Sequence[str | Path],
    out: str | Path,
    *,
    workers: int | None = None,
    on: str | None = None,
    address: str | None = None,
    report: Tell = no_note,
    tell: Tell = no_note,
    progress: bool = False,
) -> Totals:
    """Predict files into a folder, by several processes or on Ray.

    Args:
        settings: the bundle, and how rows are read and written.
        files: the files, or patterns of them.
        out: the folder of the predictions, one file per input; it is made if it does not exist.
        workers: how many processes; None: one per GPU, or per four cores.
        on: "ray": actors of a Ray cluster instead of processes of this machine.
        address: of the Ray cluster; see `weft.utils.ray_start.ray_cluster`.
        report: called with each file that cannot be predicted.
        tell: called with notes.
        progress: whether to show progress.
    """
    refuse_without_ray(on, {"--address": address})
    folder = Path(out)
    if folder.is_file():
        raise WeftError(f"--out {folder}: found a file; expected a folder for the predictions of all files")
    if workers is not None and workers < 1:
        raise WeftError(f"--workers {workers}: expected 1 or more")
    partitions = partitions_of(expand(files, folder, tell), folder)
    if not partitions:
        raise WeftError("found no file to predict; expected one or more")
    # other machines may have the GPU that this one lacks
    _check_first(settings, partitions, "cpu" if on == RAY else None)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(
        folder / LOCK,
        folder,
        doing="weft predict",
        file=folder / FOLDER,
        advice="wait for it, or choose a different --out",
        wait=0.0,
    ):
        target = partitions[0].output.parent
        sweep_leftovers(target)
        records, identity = Records(target), settings.identity
        state = state_of(partitions, records, identity)
        for note in state.notes:
            tell(note)
        if state.finished:
            are = "is finished: skipping it" if len(state.finished) == 1 else "are finished: skipping them"
            tell(f"{len(state.finished):,} of {counted(len(partitions), 'file')} {are}")
        shown = CorpusProgress(partitions, state.finished, progress)
        call = _Call(settings, identity, records, report, tell, shown, state.reasons)
        try:
            if state.waiting:
                with _crew(settings, len(state.waiting), workers, on, address, tell) as crew:
                    call.run(crew, state.waiting)
        finally:
            shown.close()
            sweep_leftovers(target)
        read = (records.read(partition) for partition in partitions if partition not in call.failed)
        done = [record for record in read if record is not None]
    return Totals(
        len(done),
        len(state.finished),
        sum(record.answered for record in done),
        sum(record.wrong for record in done),
        {partition.input: why for partition, why in call.failed.items()},
    )


@contextmanager
def _crew(
    settings: Settings, partitions: int, workers: int | None, on: str | None, address: str | None, tell: Tell
) -> Iterator[Crew]:
    if on is None:
        number = min(workers or usual_workers(settings.device), partitions)
        if workers is not None and partitions < workers:
            files = counted(partitions, "file")
            tell(f"{files} for {workers} workers: a file is predicted by one of them")
        crew = local_crew(number)
        try:
            yield crew
        finally:
            crew.close()
        return
    from weft.corpora.on_ray import ray_crew

    with ray_cluster(address) as ray:
        on_ray = ray_crew(ray, workers, settings.device, partitions)
        try:
            yield on_ray
        finally:
            on_ray.close()


def _check_first(settings: Settings, partitions: Sequence[Partition], device: str | None) -> None:
    """Report a mistake that is in all files, such as a wrong column or task, before anything is loaded."""
    predictor = settings.predictor(device)
    first: WeftError | None = None
    for partition in partitions[:LOOKED_AT]:
        try:
            with predictor.opened(partition.input, may_be_empty=True) as rows:
                wrong = _wrong_beginning(rows)
            if wrong is None:
                return
        except WeftError as refused:
            if settings.on_error == "stop":
                raise
            wrong = refused
        first = first or wrong
    assert first is not None
    raise first


def _wrong_beginning(rows: Opened) -> WeftError | None:
    """The first mistake, if none of the first rows can be read."""
    requests = [request for request in islice(rows.requests, LOOKED_AT) if request is not None]
    if not requests or any(request.wrong is None for request in requests):
        return None
    return requests[0].error


class _Call:
    """The partitions of one call while they are predicted."""

    def __init__(
        self,
        settings: Settings,
        identity: str,
        records: Records,
        report: Tell,
        tell: Tell,
        shown: CorpusProgress,
        reasons: Mapping[Partition, str],
    ) -> None:
        self._reasons, self._tell = reasons, tell
        self._settings, self._identity, self._records = settings, identity, records
        self._report, self.shown = report, shown
        self._tries: Counter[Partition] = Counter()
        self.failed: dict[Partition, str] = {}

    def run(self, crew: Crew, partitions: Sequence[Partition]) -> None:
        waiting = {partition: self._job(partition) for partition in partitions}

        def next_jobs() -> list[Job]:
            running = crew.running
            free = (job for job in waiting.values() if job.identity not in running)
            return list(islice(free, AHEAD))

        with noted_signals() as signals:

            def show(busy: Sequence[Busy]) -> None:
                signals.check()  # several times a second, and never inside of Ray
                self.shown.busy(busy)

            for job, message in crew.run(next_jobs, show):
                self._tries[job.partition] += 1
                if "done" in message:
                    self.shown.done(job.partition, message["answered"] + message["wrong"])
                elif "gone" in message and self._tries[job.partition] < TRIES:
                    self._tell(f"{job.partition.input}: {message['failed']}; the file is begun again")
                    continue  # it stays among those that wait
                else:
                    self._failed(job.partition, message)
                del waiting[job.partition]

    def _failed(self, partition: Partition, message: dict[str, Any]) -> None:
        why = str(message["failed"])
        if message.get("fatal"):
            raise WeftError(why)
        if "gone" in message:
            why = (
                f"{partition.input}: its worker ended {TRIES} times before the file was finished (the last "
                f"time: {message['gone']}); the memory may be too small: try fewer --workers"
            )
        if partition.output.exists():
            why += f"\n  {partition.output} is still there; it was {self._reasons[partition]}"
        if self._settings.on_error == "stop":
            raise (WeftError if message.get("mistake") else RunFailed)(why)
        self.failed[partition] = why
        self._report(why)

    def _job(self, partition: Partition) -> Job:
        log = self._records.folder / "worker.log"
        return Job(partition, self._settings, self._identity, str(log))
