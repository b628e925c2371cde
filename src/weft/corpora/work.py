"""The work of one worker: it holds a bundle and predicts partitions, one after another.

The rows of a partition stream through it in windows, so memory does not grow with the file. A worker process
(`weft.corpora.worker`) and an actor of Ray (`weft.corpora.on_ray`) do the same work with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weft.corpora.finished import FileFacts, Finished, Records
from weft.corpora.job import Job, Settings
from weft.corpora.partition import Partition
from weft.errors import RunFailed, WeftError
from weft.workflows.predict import Opened, Predictor
from weft.workflows.prediction_output import Output, open_whole

EVERY = 0.5
"""The seconds between two messages about progress."""

Message = dict[str, Any]


class Work:
    """Predicts partitions; the bundle is loaded for the first one, and stays.

    Args:
        device: overrides the device of the settings; each worker on a GPU has one of its own.
    """

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._settings: Settings | None = None
        self._predictor: Predictor | None = None

    def run(self, job: Job) -> Iterator[Message]:
        """Predict a partition and write its files.

        Yields:
            `{"step": rows so far, "share": of the file}` now and then; last `{"done": identity, …}`, or
            `{"failed": reason}` if the file cannot be predicted. With `fatal` no other file could be either.
        """
        try:
            predictor = self._loaded(job.settings)
        except WeftError as wrong:
            yield {"failed": str(wrong), "fatal": True}
            return
        try:
            yield from _predicted(predictor, job)
        except RunFailed as wrong:
            yield {"failed": f"{job.partition.input}: {wrong}"}
        except WeftError as wrong:
            yield {"failed": str(wrong), "mistake": True}
        except OSError as wrong:
            place = wrong.filename or job.partition.input
            yield {"failed": f"{place}: {wrong.strerror or wrong}"}

    def _loaded(self, settings: Settings) -> Predictor:
        if self._predictor is None or self._settings != settings:
            predictor = settings.predictor(self._device, tell=print)
            predictor.loaded()
            self._settings, self._predictor = settings, predictor
        return self._predictor


def _predicted(predictor: Predictor, job: Job) -> Iterator[Message]:
    partition = job.partition
    before = FileFacts.of(partition.input)
    counts = {"answered": 0, "wrong": 0}

    def finish(file: Path) -> None:
        if not before.same(partition.input):
            raise WeftError(f"{partition.input}: the file has changed while it was predicted; try again")
        records = Records(partition.output.parent)
        if errors is None and records.has_errors(partition):
            partition.errors.unlink(missing_ok=True)
        record = Finished(job.state, before, FileFacts.of(file), **counts)
        records.write(partition, record)
        if errors is not None:
            errors.close(True)  # after the record, which makes the file ours if the call is killed now

    errors: Output | None = None
    output = open_whole(partition.output, partition.form, finish)
    complete, last = False, time.monotonic()
    try:
        with predictor.opened(partition.input, may_be_empty=True) as rows:
            output.expect(rows.columns(every_task=True))
            for window in predictor.windows(rows, sizes=WINDOW):
                written = []
                wrong = []
                for request, answer in window:
                    if answer is None:
                        wrong.append(_wrong(partition, rows, request))
                    else:
                        written.append(predictor.row(request, answer))
                output.write(written)
                if wrong:
                    errors = errors or open_whole(partition.errors, "jsonl", lambda file: None)
                    errors.write(wrong)
                counts["answered"] += len(written)
                counts["wrong"] += len(wrong)
                if time.monotonic() - last >= EVERY:
                    last = time.monotonic()
                    yield {"step": sum(counts.values()), "share": rows.stream.share()}
        complete = True
    finally:
        try:
            output.close(complete)
        finally:
            if errors is not None:
                errors.close(False)  # nothing, if `finish` has closed it
    yield {"done": job.identity, **counts}


WINDOW = (4096,)
"""How many rows are answered together: nobody waits for the first of them."""


def _wrong(partition: Partition, rows: Opened, request: Any) -> dict[str, Any]:
    """The line of a bad row in the file of errors: the place and the reason."""
    place = {"file": str(partition.input), rows.unit: request.number}
    return {**_readable(request.kept), **place, "error": request.wrong}


def _readable(value: Any) -> Any:
    """A value for a line of JSON that people read: bytes that are no text as hexadecimal digits."""
    if isinstance(value, Mapping):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return value
