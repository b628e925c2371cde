"""A benchmark with a test server: a submission's files, how they are written, what is wrong with one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.data.readers.problem import Problem
from weft.errors import WeftError, did_you_mean
from weft.evaluation.submission.archive import unzipped, zipped
from weft.evaluation.submission.form import Form, Predicted, Written
from weft.utils.files import write_bytes

Predictions = Mapping[str, Predicted | Sequence[Any]]
"""The answers by the forms' keys: with ids, or a plain list in the official order."""


@dataclass(frozen=True)
class Entry:
    """One file of a submission that was written.

    Attributes:
        file: its name.
        task: the key of its answers.
        rows: how many answers it holds.
        filler: the word that stands in every row, where it holds no model's answers; else None.
        why: why it is filled, and with what.
    """

    file: str
    task: str
    rows: int
    filler: Written | None = None
    why: str = ""


@dataclass(frozen=True)
class Report:
    """What a submission holds."""

    out: Path
    entries: tuple[Entry, ...]

    @property
    def fillers(self) -> tuple[Entry, ...]:
        """The files that hold no model's answers."""
        return tuple(entry for entry in self.entries if entry.filler is not None)

    def as_dict(self) -> dict[str, Any]:
        """The zip, its files and which of them are fillers, JSON-able."""
        return {
            "zip": str(self.out),
            "files": [asdict(entry) for entry in self.entries],
            "fillers": [entry.file for entry in self.fillers],
        }


class Benchmark(ABC):
    """One benchmark.

    Attributes:
        name: as a user writes it.
        title: as a reader knows it.
        forms: its files, in the order they have in the zip.
    """

    name: str
    title: str
    forms: tuple[Form, ...]

    @abstractmethod
    def text(self, form: Form, predicted: Predicted | None) -> str:
        """A file's text, of these answers, or of the filler."""

    @abstractmethod
    def problems(self, form: Form, where: str, text: str) -> Iterator[Problem]:
        """What is wrong with a file's text.

        Args:
            form: what it should be.
            where: what messages call it.
            text: what it is.
        """

    def write(
        self,
        predictions: Predictions,
        out: Path,
        why: Mapping[str, str] | None = None,
        insist: Collection[str] = (),
    ) -> Report:
        """Write a submission in one move; the same predictions make the same bytes.

        Args:
            predictions: the answers by key; where there are none, the file is filled.
            out: the zip.
            why: why there are none, by key.
            insist: keys whose answers are written though the rule is to fill their files.

        Raises:
            WeftError: a key, the number of answers, an id or an answer is none of this benchmark.
        """
        known = {form.key: form for form in self.forms}
        for key in predictions:
            if key not in known:
                raise WeftError(f"{self.title} has no answers named {key!r}; {did_you_mean(key, known)}")
        texts, entries = {}, []
        for form in self.forms:
            given = predictions.get(form.key)
            predicted = given if given is None or isinstance(given, Predicted) else Predicted(given)
            reason = (why or {}).get(form.key, "there are no answers")
            if predicted is not None and form.rule and form.key not in insist:
                predicted, reason = None, form.rule
            texts[form.file] = self.text(form, predicted)
            if predicted is None:
                told = f"{reason}: every row is {form.written(form.filler)!r}, {form.why}"
                entries.append(Entry(form.file, form.key, form.rows, form.written(form.filler), told))
            else:
                entries.append(Entry(form.file, form.key, form.rows))
        write_bytes(out, zipped(texts))
        return Report(out, tuple(entries))

    def check(self, place: Path) -> list[Problem]:
        """Everything that is wrong with a submission; of one that `write` made, nothing."""
        texts, problems = unzipped(place, {form.file: form for form in self.forms})
        for form in self.forms:
            if form.file in texts:
                problems += self.problems(form, f"{place}: {form.file}", texts[form.file])
        return problems


def lines_of(where: str, text: str) -> tuple[list[str], list[Problem]]:
    """The lines of a file without their ends, and what is wrong with these."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    problems = []
    if text.startswith("\ufeff"):
        problems.append(Problem(where, "begins with a byte order mark; expected none", 1, unit="line"))
        lines[0] = lines[0].removeprefix("\ufeff")
    returns = [number for number, line in enumerate(lines, 1) if line.endswith("\r")]
    if returns:
        told = f"{len(returns):,} lines end in a carriage return and a newline; expected a newline alone"
        problems.append(Problem(where, told, returns[0], unit="line"))
    return [line.removesuffix("\r") for line in lines], problems
