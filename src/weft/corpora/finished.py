"""Which partitions are finished: one small record per partition, in the folder of the outputs.

A worker writes the predictions under a temporary name, then the record, and gives the files their names last.
So a partition is finished if its record describes the file that is there now, and the input as it is now. An
output or a file of errors that no record describes was written by somebody else, and is never replaced or
removed. A call may be killed at any moment, so the record of a file of errors is there whenever that file is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from weft.corpora.partition import Partition
from weft.errors import WeftError
from weft.utils.checksums import file_sha256
from weft.utils.files import write_json
from weft.utils.safe_json import read_json

FOLDER = ".weft-predictions"
"""The folder of the records and the logs of workers, in the folder of the outputs."""

NEW = "not predicted before"
DIFFERENT = "predicted by a different bundle or with different options"
CHANGED = "predicted before the input changed"
REMOVED = "removed, or not complete"
EDITED = "edited since it was predicted, or not complete"
DAMAGED = "predicted, but its record is damaged"
"""Why a partition waits. A call that is killed has written a record at most: its outputs are not complete."""


@dataclass(frozen=True)
class FileFacts:
    """What tells that a file is the same: its size and time, else its content."""

    size: int
    modified: int
    sha256: str

    @classmethod
    def of(cls, file: Path) -> FileFacts:
        """The facts of a file."""
        stat = file.stat()
        return cls(stat.st_size, stat.st_mtime_ns, file_sha256(file))

    def same(self, file: Path) -> bool:
        """Whether a file is still the same; it is read only if its time differs, as after a copy."""
        try:
            stat = file.stat()
        except FileNotFoundError:
            return False
        if stat.st_size != self.size:
            return False
        return stat.st_mtime_ns == self.modified or file_sha256(file) == self.sha256


@dataclass(frozen=True)
class Finished:
    """The record of a finished partition.

    Attributes:
        identity: of the bundle and of all settings that decide on the predictions.
        input: the input when it was read.
        output: the predictions.
        answered: how many rows have a prediction.
        wrong: how many could not be read.
    """

    identity: str
    input: FileFacts
    output: FileFacts
    answered: int
    wrong: int


class Records:
    """The records of a folder of outputs.

    Args:
        out: that folder.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER

    def write(self, partition: Partition, record: Finished) -> None:
        """Write the record of a partition."""
        self.folder.mkdir(exist_ok=True)
        write_json(self._file(partition), asdict(record))

    def read(self, partition: Partition) -> Finished | None:
        """The record of a partition; None if there is none, or if it is damaged."""
        try:
            facts = read_json(self._file(partition), "expected the record of a finished file")
            return Finished(
                str(facts["identity"]),
                FileFacts(**facts["input"]),
                FileFacts(**facts["output"]),
                int(facts["answered"]),
                int(facts["wrong"]),
            )
        except (WeftError, ValueError, TypeError, KeyError):  # missing, or damaged
            return None

    def known(self, partition: Partition) -> bool:
        """Whether a partition of this name was begun here before."""
        return self._file(partition).exists()

    def has_errors(self, partition: Partition) -> bool:
        """Whether a file of errors of this partition would be from here; also if the record is damaged."""
        record = self.read(partition)
        return self.known(partition) if record is None else record.wrong > 0

    def _file(self, partition: Partition) -> Path:
        return self.folder / f"{partition.output.name}.json"


@dataclass(frozen=True)
class State:
    """What is left to do.

    Attributes:
        waiting: the partitions without predictions, or with outdated ones.
        finished: the records of the others.
        notes: why partitions are predicted again.
        reasons: the same for each partition that waits.
    """

    waiting: list[Partition]
    finished: dict[Partition, Finished]
    notes: tuple[str, ...] = ()
    reasons: Mapping[Partition, str] = field(default_factory=dict)


def state_of(partitions: list[Partition], records: Records, identity: str) -> State:
    """Find out which partitions are finished.

    Args:
        partitions: all partitions.
        records: the records of the folder of outputs.
        identity: of the bundle and the settings now.

    Raises:
        WeftError: an output or a file of errors exists that was not written by this command.
    """
    finished: dict[Partition, Finished] = {}
    reasons: dict[Partition, str] = {}
    for partition in partitions:
        record, exists = records.read(partition), partition.output.exists()
        if record is None and exists and not records.known(partition):
            raise _not_ours(partition.output, records)
        if record is None:
            reasons[partition] = DAMAGED if records.known(partition) else NEW
        elif not record.output.same(partition.output):
            reasons[partition] = EDITED if exists else REMOVED
        elif record.identity != identity:
            reasons[partition] = DIFFERENT
        elif not record.input.same(partition.input):
            reasons[partition] = CHANGED
        else:
            finished[partition] = record
            continue
        if partition.errors.exists() and not records.has_errors(partition):
            raise _not_ours(partition.errors, records)
    notes = []
    for reason in (DIFFERENT, CHANGED, REMOVED, EDITED, DAMAGED):
        group = [partition for partition in reasons if reasons[partition] == reason]
        if group:
            notes.append(f"{_were(group)} {reason}: predicting again")
    return State(list(reasons), finished, tuple(notes), reasons)


def _not_ours(file: Path, records: Records) -> WeftError:
    return WeftError(
        f"{file} exists, and no record in {records.folder} says that weft predict has written it; remove it, "
        "or choose a different --out"
    )


def _were(group: list[Partition]) -> str:
    first = group[0].output.name
    return f"{first} was" if len(group) == 1 else f"{first} and {len(group) - 1:,} more files were"
