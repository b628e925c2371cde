"""The training component that passes the lines of the log on to a tracker."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.training.run.component import Component
from weft.training.trackers.tracker import Sink, TrackedRun, Tracker, numbers_of


class Tracking(Component):
    """Passes the numbers of every line of log.jsonl that has a step to a tracker's sink.

    A tracker is for looking at a run, not a part of it: if it fails, this is reported once, in the terminal
    and as an event `tracker` of the log, it is switched off, and the run continues. It has no state, so a run
    may be resumed with other trackers.

    Args:
        tracker: the tracker.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker, self.name = tracker, f"tracker_{tracker.name}"
        self._sink: Sink | None = None
        self._off = False

    def logged(self, line: Mapping[str, Any]) -> None:
        """Open the sink at the first line, and pass on the numbers of every line with a step."""
        if self._off:
            return
        try:
            if self._sink is None:
                self._sink = self.tracker.open(self._tracked(line))
            fields = {key: value for key, value in line.items() if key not in ("event", "time", "step")}
            numbers = numbers_of(fields, line["event"])
            if numbers and "step" in line:
                self._sink.write(line["event"], line["step"], numbers)
        except Exception as failed:
            self._switch_off(failed)

    def close(self, failed: bool) -> None:
        """Close the sink."""
        if self._off or self._sink is None:
            return
        try:
            self._sink.close(failed)
        except Exception as wrong:
            self._switch_off(wrong)
        self._off = True

    def _tracked(self, line: Mapping[str, Any]) -> TrackedRun:
        run = self.run
        resumed_at = line["step"] if line["event"] == "resume" else None
        return TrackedRun(run.folder, run.settings, resumed_at, run_id(run.folder / "log.jsonl"))

    def _switch_off(self, failed: Exception) -> None:
        self._off = True  # first: the report is a line of the log, too
        reason = f"{type(failed).__name__}: {failed}".strip().rstrip(":")
        self.run.say(
            f"warning: tracker {self.tracker.name} has failed and is switched off; the run continues, and "
            f"log.jsonl has all numbers: {reason}"
        )
        self.run.write_log("tracker", tracker=self.tracker.name, error=reason)


def run_id(log: Path) -> str:
    """Return the id of a run: the sha256 of the first line of its log, which has the time of its start.

    Args:
        log: the run's log.jsonl.
    """
    with log.open("rb") as file:
        return hashlib.sha256(file.readline()).hexdigest()[:16]
