"""Requests, tokenized: those of many tasks together, in arrays that batches are gathered from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.data.splits.split import Split
from weft.data.tokens.tokens import in_memory
from weft.inference.examples import Examples
from weft.inference.task_facts import text_form

if TYPE_CHECKING:
    from weft.data.tokens.encode import Marks
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.tasks.kinds.kind import Inputs
    from weft.tasks.task import Task


@dataclass(frozen=True, eq=False)
class Slab:
    """Some requests, tokenized.

    Attributes:
        tokens: the tokenized requests that hold those of each task, by task id.
        examples: one example per request, in the order of the requests.
    """

    tokens: Mapping[int, Tokens]
    examples: Examples


def tokenize_inputs(model: Model, inputs: Iterable[tuple[int, Inputs]]) -> Slab:
    """Tokenize requests that were read: the id of each one's task, and the input of the encoder.

    Requests of tasks that read plain texts, or plain pairs, are tokenized together: a call per task would
    take most of the time if there are many tasks.
    """
    numbers: dict[int, int] = {}  # of each task's group
    groups: dict[Any, _Group] = {}
    columns: tuple[list[int], list[int], list[int]] = [], [], []
    ordered: list[_Group] = []
    for index, request in inputs:
        number = numbers.get(index)
        if number is None:
            task = model.tasks[index]
            group = groups.setdefault(text_form(task, index), _Group(len(groups), task, [], []))
            number = numbers[index] = group.number
            ordered += [group] if number == len(ordered) else []
        group = ordered[number]
        for column, value in zip(columns, (index, number, len(group.texts)), strict=True):
            column.append(value)
        group.texts.append(request.texts)
        if request.marks:
            group.marks.append(request.marks)
    splits = [
        in_memory(_split(group.task, group.texts, group.marks or None), model.tokenizer, model.max_length)
        for group in ordered
    ]
    tokens = {index: splits[number] for index, number in numbers.items()}
    return Slab(tokens, Examples(splits, *(np.array(column, np.int64) for column in columns)))


class _Group(NamedTuple):
    """Requests that are tokenized together.

    Attributes:
        number: its number among the groups.
        task: one of their tasks; tokens do not depend on which.
        texts: the texts of each request.
        marks: the marks of each request, if the task has marks.
    """

    number: int
    task: Task
    texts: list[tuple[str, ...]]
    marks: list[Marks]


def as_split(task: Task, examples: Sequence[Inputs]) -> Split:
    """The requests of one task as a split of that task."""
    marks = [inputs.marks for inputs in examples] if task.marks else None
    return _split(task, [inputs.texts for inputs in examples], marks)


def _split(task: Task, texts: list[tuple[str, ...]], marks: list[Marks] | None) -> Split:
    rows = np.arange(1, len(texts) + 1)
    return Split(task, "test", f"requests of task {task.name!r}", texts, None, rows, marks=marks)
