"""The base class of trackers: their settings in a run file, and the sink that they open for a run."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol

from weft.settings import Named


@dataclass(frozen=True)
class TrackedRun:
    """The run that a sink is opened for.

    Attributes:
        folder: the run's folder; a sink may write into a folder of its own there.
        settings: the content of run.yaml.
        resumed_at: the number of steps that were done when the run was resumed; None: it begins.
        id: 16 hexadecimal digits that a run keeps when it is resumed, and that no other run has.
    """

    folder: Path
    settings: Mapping[str, Any]
    resumed_at: int | None
    id: str


class Sink(Protocol):
    """Where the numbers of one run go. Whatever it raises switches it off, and the run continues."""

    def write(self, event: str, step: int, numbers: Mapping[str, float]) -> None:
        """Take the numbers of one line of the log.

        Args:
            event: the line's event, such as `step`, `evaluation` or `end`.
            step: the number of steps done.
            numbers: the numbers of the line, by names such as `evaluation/tasks/rte/accuracy`.
        """
        ...

    def close(self, failed: bool) -> None:
        """End the sink.

        Args:
            failed: whether the run has been interrupted, or has failed.
        """
        ...


class Tracker(Named, ABC):
    """The settings of a tracker: `{use: NAME, …}` in `train.trackers`.

    Attributes:
        name: the name it is registered under.
        package: the package that it needs and weft does not; None: none.
        extra: the extra of weft that installs the package; None: there is none.
    """

    package: ClassVar[str | None] = None
    extra: ClassVar[str | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.what = f"tracker {cls.__dict__.get('name', cls.__name__)!r}"

    def missing(self) -> str | None:
        """What to install, in a sentence; None: nothing is missing. The package is not imported."""
        if self.package is None or find_spec(self.package) is not None:
            return None
        command = f"pip install {self.package}" if self.extra is None else f"pip install 'weft[{self.extra}]'"
        return f"{self.name} needs the package {self.package}; type: {command}"

    @abstractmethod
    def open(self, run: TrackedRun) -> Sink:
        """Open the sink of a run; called once, by the process that writes log.jsonl.

        Args:
            run: the run.
        """


def numbers_of(fields: Mapping[str, Any], path: str) -> dict[str, float]:
    """Return all numbers of nested fields by their paths; lists, texts, flags, nan and infinity are left out.

    Example:
        >>> numbers_of({"loss": {"rte": 0.3}, "lr": 1e-4}, "step")
        {'step/loss/rte': 0.3, 'step/lr': 0.0001}

    Args:
        fields: the fields.
        path: the beginning of each path.
    """
    numbers: dict[str, float] = {}
    for key, value in fields.items():
        if isinstance(value, Mapping):
            numbers |= numbers_of(value, f"{path}/{key}")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            numbers[f"{path}/{key}"] = float(value)
    return numbers
