"""The report on errors: what errors.json holds, one entry per evaluated set.

docs/reference/errors.md describes every field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.evaluation.calibration import calibration_facts
from weft.evaluation.errors import ANALYSES
from weft.evaluation.errors.analysis import Analysis, Answered
from weft.evaluation.errors.evaluated import EvaluatedSet
from weft.metrics import METRICS
from weft.tasks.kinds import KINDS
from weft.tasks.task import ALSO
from weft.utils.version import __version__

if TYPE_CHECKING:
    from weft.tasks.task import Task

FORMAT = 1
"""The format of errors.json."""
WORST = 50
"""At most so many examples of a set are listed."""
LONGEST = 600
"""Texts of listed examples are cut after so many characters."""


class SetErrors:
    """The errors of one evaluated set.

    Args:
        evaluated: the evaluated set.
    """

    def __init__(self, evaluated: EvaluatedSet) -> None:
        self.evaluated, self.task = evaluated, evaluated.task
        kind = KINDS[self.task.kind]().of(self.task)
        examples = evaluated.tokens.examples(evaluated.which)
        labels: Any = evaluated.tokens.labels
        chosen = [labels[i] for i in evaluated.which]
        self.decisions = kind.decisions(evaluated.logits, chosen, self.task, examples)
        if self.decisions is None:
            self.probability = kind.probability(evaluated.logits, self.task, examples)
        else:
            self.probability = self.decisions.probability(len(examples), self.task.temperature or 1.0)
        self.analyses: list[Analysis] = []
        for answer_type in _analyzed(kind.answer_types_of(self.task), self.task):
            sides = kind.compared(answer_type, evaluated.gold, evaluated.predictions)
            answered = Answered(self.task, examples, *sides, self.decisions, self.probability)
            self.analyses.append(ANALYSES[answer_type](answered))
        self.first = self.analyses[0] if self.analyses else None
        self.errors = [[] for _ in examples] if self.first is None else self.first.errors()

    def __len__(self) -> int:
        return len(self.evaluated.which)

    def entry(self) -> dict[str, Any]:
        """The entry of this set in errors.json."""
        evaluated = self.evaluated
        task, _, further = evaluated.name.partition(ALSO)
        counts = Counter(kind for errors in self.errors for kind in errors)
        return {
            "task": task,
            "set": further or None,
            "kind": self.task.kind,
            "metrics": evaluated.metrics,
            "rows": len(self),
            "of": len(evaluated.tokens),
            "wrong": sum(map(bool, self.errors)) if self._counts_errors else None,
            "kinds": [
                {"kind": kind, "count": counts[kind]} for kind in (self.first.kinds if self.first else ())
            ],
            "tables": [table.as_dict() for analysis in self.analyses for table in analysis.tables()],
            "matrices": [matrix.as_dict() for analysis in self.analyses for matrix in analysis.matrices()],
            "calibration": None if self.decisions is None else calibration_facts(self.decisions, self.task),
            "examples_by": self.first.measure if self.first else None,
            "examples": self._worst(),
        }

    @property
    def _counts_errors(self) -> bool:
        return self.first is not None and self.first.counts_errors

    def _worst(self) -> list[dict[str, Any]]:
        """The examples with the largest errors."""
        if self.first is None:
            return []
        severity = self.first.severity()
        wrong = [n for n in range(len(self)) if self.errors[n] or not self._counts_errors]
        # of equal ones the first, so that the file does not depend on the sorting algorithm
        worst = sorted(wrong, key=lambda n: (-severity[n], n))[:WORST]
        unit = self.evaluated.tokens.split.unit
        return [
            {
                **self._place(n),
                "unit": unit,
                "input": {key: _cut(value) for key, value in self._input(n).items()},
                **self._answers(n),
                "error": float(severity[n]),
                "kinds": list(dict.fromkeys(self.errors[n])),
                "details": self.first.details(n),
            }
            for n in worst
        ]

    def prediction(self, n: int) -> dict[str, Any]:
        """The row of an example in the file of predictions."""
        task, _, further = self.evaluated.name.partition(ALSO)
        right = not self.errors[n] if self._counts_errors else None
        return {
            "task": task,
            "set": further or None,
            **self._place(n),
            "input": self._input(n),
            **self._answers(n),
            "right": right,
        }

    def _place(self, n: int) -> dict[str, Any]:
        split, i = self.evaluated.tokens.split, self.evaluated.which[n]
        row = split.row[i]
        ids = None if split.ids is None else [_plain(value) for value in split.ids[i]]
        return {"row": row if isinstance(row, str) else int(row), "id": ids}

    def _answers(self, n: int) -> dict[str, Any]:
        """Gold, predicted and probability."""
        first, probability = self.first, self.probability
        return {
            "gold": None if first is None else first.gold(n),
            "predicted": None if first is None else first.predicted(n),
            "probability": None if probability is None else float(probability[n]),
        }

    def _input(self, n: int) -> dict[str, Any]:
        """What the model reads, by column."""
        task, texts = self.task, self.evaluated.tokens.split.texts[self.evaluated.which[n]]
        if KINDS[task.kind].windows == "words":
            return {task.texts[0]: list(texts)}
        inputs: dict[str, Any] = dict(zip(task.texts, texts, strict=False))
        if task.choices:
            name = task.choices[0] if len(task.choices) == 1 else "choices"
            inputs[name] = list(texts[len(task.texts) :])
        marks = self.evaluated.tokens.split.marks
        if marks is not None:
            places = marks[self.evaluated.which[n]]
            inputs["marks"] = [texts[text][first:end] for text, first, end in places]
        return inputs


def _analyzed(answer_types: Sequence[str], task: Task) -> list[str]:
    """The answer types to analyze: the first, and those that a further metric of the task compares."""
    compared = {known for metric in task.metrics for known in METRICS[metric].compares}
    return [
        known
        for number, known in enumerate(answer_types)
        if known in ANALYSES and (number == 0 or known in compared)
    ]


def _cut(value: Any) -> Any:
    """A text, or the texts of a list, of at most `LONGEST` characters in all."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
    kept: list[str] = []
    left = LONGEST
    for text in value:
        if left <= 0:
            return [*kept, "…"]
        kept.append(text if len(text) <= left else f"{text[:left]}…")
        left -= len(text)
    return kept


def _plain(value: object) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def report_of(sets: dict[str, SetErrors], split: str, precision: str, bundle: str | None) -> dict[str, Any]:
    """Return the content of errors.json.

    Args:
        sets: the errors by evaluated set.
        split: the split.
        precision: the precision of the passes.
        bundle: the sha256 of the bundle; None for a model in memory.
    """
    return {
        "format": FORMAT,
        "weft": __version__,
        "split": split,
        "precision": precision,
        "bundle": bundle,
        "tasks": {name: errors.entry() for name, errors in sets.items()},
    }
