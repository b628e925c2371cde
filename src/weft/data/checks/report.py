"""The report of `check`: findings and facts, as plain text or JSON."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing before training.

    Attributes:
        severity: "error" (training would not start), "warning" (it would start, but results may mislead) or
            "note".
        task: the task's name.
        split: the split; None for the task as a whole.
        file: the file, or "rows of task X"; None if there is none.
        row: the line (text files) or row, from 1; the index of rows in memory; None for the split as a whole.
        column: the column.
        value: the value found.
        message: what was found, what was expected and what to do.
        unit: what `row` counts, "line", "row" or "index".
    """

    severity: Severity
    task: str
    split: str | None
    file: str | None
    row: int | str | None
    column: str | None
    value: object
    message: str
    unit: str = "row"

    def __str__(self) -> str:
        where = self.task if self.split is None else f"{self.task}/{self.split}"
        place = [self.file] if self.file else []
        place += [f"{self.unit} {self.row}"] if self.row is not None else []
        place += [f"column {self.column!r}"] if self.column is not None else []
        return f"{self.severity:<8}{where}: {', '.join(place) + ': ' if place else ''}{self.message}"


@dataclass(frozen=True)
class Facts:
    """Statistics of a split, over its valid rows.

    Attributes:
        task: the task's name.
        split: the split.
        file: the file, or "rows of task X".
        rows: the number of valid rows.
        labels: the number of rows of each label name; for numbers `min`, `mean` and `max`; None if it has no
            labels.
        mean_tokens: mean tokens per row before truncation, with special tokens; None without a tokenizer.
        max_tokens: tokens of the longest row before truncation.
        truncated: the share of examples that are truncated because they are longer than max_length.
        mean_rows: mean rows per example (windows, choices, separate texts); None without a tokenizer.
        max_rows: the largest number of rows of an example.
        dropped: the number of rows left out because of their label (`drop`).
    """

    task: str
    split: str
    file: str
    rows: int
    labels: dict[str, float] | None
    mean_tokens: float | None = None
    max_tokens: int | None = None
    truncated: float | None = None
    mean_rows: float | None = None
    max_rows: int | None = None
    dropped: int = 0

    def __str__(self) -> str:
        text = f"{self.task}/{self.split}: {self.rows} row{'s' * (self.rows != 1)}"
        if self.dropped:
            text += f" and {self.dropped} dropped"
        if self.labels is None:
            text += "; no labels"
        else:
            text += "; " + ", ".join(f"{name}: {count:g}" for name, count in self.labels.items())
        if self.mean_tokens is not None:
            text += f"; tokens {self.mean_tokens:.1f} mean, {self.max_tokens} max"
            text += f", {self.truncated:.1%} of the rows truncated"
        if self.max_rows is not None and self.max_rows > 1:
            text += f"; {self.mean_rows:.1f} rows per example, at most {self.max_rows}"
        return text


@dataclass(frozen=True)
class Report:
    """All findings and facts, task by task.

    Attributes:
        findings: what is worth knowing.
        facts: the statistics of each split.
        tokens: the tokenized splits, by (task, split).
    """

    findings: list[Finding] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    tokens: dict[tuple[str, str], Tokens] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether training can start: no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def summary(self) -> str:
        """The number of findings per severity, as text."""
        counts = Counter(finding.severity for finding in self.findings)
        severities: tuple[Severity, ...] = ("error", "warning", "note")
        return ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in severities)

    def as_dict(self) -> dict[str, object]:
        """The report for JSON: `ok`, `summary`, `splits` (the facts) and `findings`."""
        findings = [{**asdict(finding), "value": _plain(finding.value)} for finding in self.findings]
        return {
            "ok": self.ok,
            "summary": self.summary,
            "splits": [asdict(facts) for facts in self.facts],
            "findings": findings,
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The report as text: one line per split, one line per finding, and the summary."""
        return [*map(str, self.facts), *map(str, self.findings), self.summary]


def _plain(value: object) -> object:
    """The value if strict JSON can hold it, else its repr."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return repr(value)
