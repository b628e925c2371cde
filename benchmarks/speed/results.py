"""The results of a run, written after every section, so that a run that is killed loses little."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.speed.timing import Taken, Variant

OUT = Path(__file__).parents[1] / "out"
"""The folder of runs on this machine."""

KEPT = Path(__file__).parents[2] / "docs" / "results"
"""The folder of the runs that docs/results/speed.md shows."""


@dataclass
class Work:
    """One piece of work and the rows of the variants that took turns at it.

    Attributes:
        section: training, inference, methods or real.
        name: what is done, `training 32x128`.
        basis: the variant that the others are compared with.
        shows: `cost`: a row's time over the basis's; `speed`: the basis's over the row's.
        facts: encoder, rows, length and the like.
        rows: one row per variant, and one for the arithmetic limit.
    """

    section: str
    name: str
    basis: str
    shows: str
    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, variants: Sequence[Variant], taken: Mapping[str, Taken], limit_ms: float | None) -> None:
        """Add the rows of variants that were timed together; `limit_ms` is the arithmetic limit."""
        for variant in variants:
            found = taken[variant.name]
            row: dict[str, Any] = {"variant": variant.name, **asdict(found), "peak_mb": variant.peak_mb}
            self.rows.append({**row, **variant.facts})
        if limit_ms is not None:
            self.rows.append({"variant": "arithmetic limit", "ms": limit_ms})
        basis = self.ms(self.basis)
        if basis is not None:
            for row in self.rows:
                row["ratio"] = row["ms"] / basis if self.shows == "cost" else basis / row["ms"]

    def ms(self, variant: str) -> float | None:
        """The median of a variant, if it was measured."""
        return next((row["ms"] for row in self.rows if row["variant"] == variant), None)


@dataclass
class Results:
    """All of a run.

    Attributes:
        machine: of `machine`.
        settings: the options it was started with.
        ceiling: the measured operations a second of a large matrix product.
        works: what was measured.
        must: the claims: claim, target, found, ok.
        skipped: what was not measured, and why.
        seconds: of each section.
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    ceiling: float = 0.0
    works: list[Work] = field(default_factory=list)
    must: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def work(self, name: str) -> Work | None:
        """A piece of work by its name."""
        return next((work for work in self.works if work.name == name), None)

    def keep(self, before: Results, sections: Sequence[str]) -> None:
        """Take over the other sections of an earlier run on the same machine."""
        if before.machine == self.machine:
            self.works += [work for work in before.works if work.section not in sections]
            self.seconds |= {name: taken for name, taken in before.seconds.items() if name not in sections}

    def updated(self, later: Results) -> Results:
        """These results with those of a later run, which replace those with the same name.

        Args:
            later: a run on the same machine; its settings and its omissions are kept.
        """
        new = {work.name: work for work in later.works}
        works = [new.pop(work.name, work) for work in self.works]
        return replace(later, works=[*works, *new.values()], seconds={**self.seconds, **later.seconds})

    def write(self, file: Path) -> None:
        """Write the results as JSON; the old file is replaced in one move."""
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_suffix(".part")
        beside.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        beside.replace(file)

    @classmethod
    def read(cls, file: Path) -> Results:
        """Read what `write` has written."""
        told = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**told, "works": [Work(**work) for work in told["works"]]})
