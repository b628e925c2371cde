"""A benchmark with a test server: writing and checking its submissions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from weft.data.readers.problem import Problem
from weft.errors import WeftError, did_you_mean
from weft.evaluation.submission.archive import unzipped, zipped
from weft.evaluation.submission.form import Form, Predicted, Written
from weft.utils.files import write_output

Predictions = Mapping[str, Predicted | Sequence[Any]]
"""The answers by the keys of the forms: with ids, or a plain list in the official order."""


@dataclass(frozen=True)
class Entry:
    """One file of a written submission.

    Attributes:
        file: its name.
        task: the key of its answers.
        rows: the number of answers.
        filler: the answer in every row of a file without a model's answers; else None.
        why: why the file is filled, and with what.
    """

    file: str
    task: str
    rows: int
    filler: Written | None = None
    why: str = ""


@dataclass(frozen=True)
class Report:
    """The contents of a written submission."""

    out: Path
    entries: tuple[Entry, ...]

    @property
    def fillers(self) -> tuple[Entry, ...]:
        """The files without a model's answers."""
        return tuple(entry for entry in self.entries if entry.filler is not None)

    def as_dict(self) -> dict[str, Any]:
        """The zip, its files and the filled ones, as JSON values."""
        return {
            "zip": str(self.out),
            "files": [asdict(entry) for entry in self.entries],
            "fillers": [entry.file for entry in self.fillers],
        }


class Benchmark(ABC):
    """One benchmark.

    Attributes:
        name: the name on the command line.
        title: the name in messages.
        forms: its files, in their order in the zip.
    """

    name: str
    title: str
    forms: tuple[Form, ...]

    @abstractmethod
    def text(self, form: Form, predicted: Predicted | None) -> str:
        """Return the text of a file with these answers, or with the filler."""

    @abstractmethod
    def problems(self, form: Form, where: str, text: str) -> Iterator[Problem]:
        """Yield the problems of a file's text.

        Args:
            form: the expected form.
            where: the name of the file in messages.
            text: the text of the file.
        """

    def write(
        self,
        predictions: Predictions,
        out: Path,
        why: Mapping[str, str] | None = None,
        insist: Collection[str] = (),
    ) -> Report:
        """Write a submission atomically; the same predictions make the same bytes.

        Args:
            predictions: the answers by key; a file without answers is filled.
            out: the path of the zip.
            why: the reason for missing answers, by key.
            insist: keys whose answers are written although a rule says to fill their files.

        Raises:
            WeftError: a key, the number of answers, an id or an answer does not fit this benchmark.
        """
        by_key = {form.key: form for form in self.forms}
        for key in predictions:
            if key not in by_key:
                raise WeftError(f"{self.title} has no answers named {key!r}; {did_you_mean(key, by_key)}")
        texts, entries = {}, []
        for form in self.forms:
            answers = predictions.get(form.key)
            predicted = answers if answers is None or isinstance(answers, Predicted) else Predicted(answers)
            reason = (why or {}).get(form.key, "there are no answers")
            if predicted is not None and form.rule and form.key not in insist:
                predicted, reason = None, form.rule
            texts[form.file] = self.text(form, predicted)
            if predicted is None:
                explanation = f"{reason}: every row is {form.written(form.filler)!r}, {form.why}"
                entries.append(Entry(form.file, form.key, form.rows, form.written(form.filler), explanation))
            else:
                entries.append(Entry(form.file, form.key, form.rows))
        write_output(out, zipped(texts))
        return Report(out, tuple(entries))

    def check(self, path: Path) -> list[Problem]:
        """Return all problems of a submission; one made by `write` has none."""
        texts, problems = unzipped(path, {form.file: form for form in self.forms})
        for form in self.forms:
            if form.file in texts:
                problems += self._problems_of(form, f"{path}: {form.file}", texts.pop(form.file))
        return problems

    def _problems_of(self, form: Form, where: str, text: str) -> Iterator[Problem]:
        """Yield the problems of a file; far too many lines are one problem, and not one per line."""
        most = 2 * form.rows + 1000
        lines = text.count("\n")
        if lines > most:
            yield Problem(where, f"found {lines:,} lines; expected about {form.rows:,}")
            return
        yield from islice(self.problems(form, where, text), most)


def lines_of(where: str, text: str) -> tuple[list[str], list[Problem]]:
    """Return the lines of a file without line ends, and the problems of the line ends."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    problems = []
    if text.startswith("\ufeff"):
        problems.append(Problem(where, "begins with a byte order mark; expected none", 1, unit="line"))
        lines[0] = lines[0].removeprefix("\ufeff")
    returns = [number for number, line in enumerate(lines, 1) if line.endswith("\r")]
    if returns:
        message = f"{len(returns):,} lines end in a carriage return and a newline; expected a newline alone"
        problems.append(Problem(where, message, returns[0], unit="line"))
    return [line.removesuffix("\r") for line in lines], problems
