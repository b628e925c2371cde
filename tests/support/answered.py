"""Answers beside gold answers, for analyses of errors."""

from __future__ import annotations

from typing import Any

from weft.data.readers.example import ExampleRows
from weft.evaluation.errors.analysis import Answered
from weft.tasks import Task
from weft.tasks.kinds.decisions import Decisions


def labelled(task: Task, gold: Any, predicted: Any, decisions: Decisions | None = None) -> Answered:
    """Answers to examples without texts."""
    examples = [ExampleRows.of_texts(("x",))] * len(gold)
    return Answered(task, examples, gold, predicted, decisions)
