"""Job: what a worker process needs to know to run one cell, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.config.reading import Reading
from weft.config.run_file import RunFile, read_run


@dataclass(frozen=True)
class Job:
    """One cell to run.

    Attributes:
        name: the cell's name.
        identity: the cell's identity.
        kind: cells of the same kind share compiled code; a process prefers kinds that it has run before.
        source: the grid, for messages.
        folder: the folder that relative paths in `raw` start from.
        raw: the sections of the run file.
        action: {name: settings} of an action; {}: the run is trained from the encoder.
        report: the split whose rows are reported.
        chosen_by: whether validation is evaluated too: values are chosen by it.
        out: the folder of the comparison.
        needs: the run folders of the cells that it uses, in the order in which the action names them.
        keep: whether its weights are kept.
        device: cpu, cuda, …; None: a GPU if there is one.
        measures: what is measured of the finished run; see `weft.experiments.measures`.
    """

    name: str
    identity: str
    kind: str
    source: str
    folder: str
    raw: dict[str, Any]
    action: Mapping[str, Any] = field(default_factory=dict)
    report: str = "validation"
    chosen_by: bool = False
    out: str = ""
    needs: tuple[str, ...] = ()
    keep: bool = False
    device: str | None = None
    measures: tuple[str, ...] = ()

    @property
    def run_folder(self) -> Path:
        """The folder of the cell's run while it lasts, and of its weights if they are kept."""
        return run_folder(Path(self.out), self.identity)

    @property
    def log(self) -> Path:
        """The file that the run's messages go to."""
        return Path(self.out) / "logs" / f"{short(self.identity)}.log"

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, line: str) -> Job:
        """Read the result of `to_json`."""
        facts = json.loads(line)
        return cls(**{**facts, "needs": tuple(facts["needs"]), "measures": tuple(facts["measures"])})

    def run_file(self) -> RunFile:
        """The checked run file."""
        return checked_run(self.raw, self.source, Path(self.folder))


def checked_run(raw: Mapping[str, Any], source: str, folder: Path) -> RunFile:
    """Check the sections of a cell's run file.

    Args:
        raw: the sections.
        source: where they come from, for messages.
        folder: the folder that relative paths start from.
    """
    copied = json.loads(json.dumps(raw, default=str))
    # a variant changes the method under settings of heads that the base has: they may have no effect then
    return read_run(copied, Reading(source, folder, generated=True), ())


def run_folder(out: Path, identity: str) -> Path:
    """The folder of a cell's run."""
    return out / "runs" / short(identity)


def short(identity: str) -> str:
    """The first digits of an identity, which names folders and logs."""
    return identity[:16]
