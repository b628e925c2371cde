"""The state that all sections share: the device, the number of rounds, the deadline and the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.limit import flops
from benchmarks.speed.memory import built
from benchmarks.speed.results import Results, Work
from benchmarks.speed.timing import Variant, interleaved


@dataclass
class Bench:
    """A run of the benchmarks.

    Attributes:
        device: where it runs.
        results: the results so far.
        file: where they are written.
        rounds: of an inference pass; a training step has a third of them.
        quick: whether only to see that everything runs.
        deadline: of `time.monotonic()`, after which nothing more is built; None: never.
    """

    device: torch.device
    results: Results
    file: Path
    rounds: int
    quick: bool = False
    deadline: float | None = None

    def build(
        self, variants: list[Variant], name: str, make: Callable[[], Variant], needed: bool = False
    ) -> None:
        """Build a variant and add it, or record why it is not measured; an error does not stop the run.

        Args:
            variants: those that take turns with it.
            name: of its row.
            make: builds it.
            needed: whether it is built past the deadline too: what others are compared with.
        """
        if self.deadline is not None and time.monotonic() > self.deadline and not needed:
            self.skip(name, "no time was left")
            return
        start = time.monotonic()
        try:
            variant = built(make, self.device)
        except Exception as failed:  # a method that cannot run must not hide all others
            self.skip(name, first_line(failed))
            return
        variant.name = name
        variants.append(variant)
        self.say(f"  {name}: ready in {time.monotonic() - start:.1f} s")

    def measure(
        self,
        section: str,
        name: str,
        variants: Sequence[Variant],
        basis: str,
        shows: str,
        facts: dict[str, Any],
        limit: tuple[Any, bool] | None = None,
        training: bool = False,
    ) -> None:
        """Time variants in turns and record them as a piece of work.

        Args:
            section: of the work.
            name: of the work.
            variants: those that take turns.
            basis: the name of what they are compared with.
            shows: `cost` or `speed`.
            facts: `rows` and `length` among them.
            limit: an encoder, and whether its backward is counted too, for the arithmetic limit.
            training: whether a run is a training step.
        """
        if not variants:
            return
        cuda = self.device.type == "cuda"
        rounds = max(3, self.rounds // 3) if training else self.rounds
        inner = 1 if self.quick or not cuda else 4
        # the deadline is for building: what is built is also timed
        taken = interleaved(variants, self.device, rounds, warm=1 if self.quick else 2, inner=inner)
        limit_ms = None
        if limit is not None and self.results.ceiling:
            encoder, backward = limit
            work = flops(encoder, facts["rows"], facts["length"], backward)
            limit_ms = 1e3 * work / self.results.ceiling
        noted = Work(section, name, basis, shows, facts)
        noted.add(variants, taken, limit_ms)
        self.note(noted)

    def note(self, work: Work) -> None:
        """Add a piece of work to the results, and write them."""
        self.results.works.append(work)
        self.results.write(self.file)
        self.say(f"  {work.name}: measured")

    def skip(self, name: str, why: str) -> None:
        """Record what is not measured."""
        self.results.skipped.append({"variant": name, "why": why})
        self.say(f"  {name}: left out, {why}")

    @staticmethod
    def say(text: str) -> None:
        """Print a line without buffering, so that a log shows how far the run is."""
        print(text, flush=True)


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
