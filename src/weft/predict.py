"""Answers for a user: texts of any mix of tasks in, labels, numbers, pieces of text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.columns import givens, read_columns
from weft.data.split import Split
from weft.data.table import Table
from weft.data.tokens import in_memory
from weft.errors import WeftError
from weft.evaluation.answers import ROWS, answers
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Given, Inputs

if TYPE_CHECKING:
    from weft.model import Model
    from weft.tasks.task import Task

Request = tuple[str, Any]
"""A task's name, and what it reads: a text, a pair of texts, or the columns of a row by name."""


def predict(model: Model, requests: Sequence[Request], batch_size: int = ROWS) -> list[dict[str, Any]]:
    """Answer each request, in the requests' order; tasks may be mixed anyhow.

    Several threads may call it on one model at once. A model in training mode is put into eval mode and left
    there: call `model.train()` before you train on.

    Args:
        model: the model.
        requests: (task, text), (task, (text, text)), (task, (text, [choice, …])) for `choose` and `rank`,
            (task, [word, …]) for `tag`, or (task, {column: value}) with the columns of the task's files.
        batch_size: rows of a pass.

    Returns:
        For each a dict: `task`, and what its kind answers: `label` with `probabilities` (classify, marked),
        `labels` (multilabel), `value` (regress, similarity), `answer` with `start` and `end` (span), `tags`
        and `entities` (tag), `choice` (choose), `order` (rank).
    """
    if batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    checked = [_checked(model, number, request) for number, request in enumerate(requests)]
    places: dict[int, list[int]] = {}  # of each task, which requests
    for number, (index, _) in enumerate(checked):
        places.setdefault(index, []).append(number)
    tokens, position = {}, {}
    for index, own in places.items():
        split = as_split(model.tasks[index], [checked[number][1] for number in own])
        tokens[index] = in_memory(split, model.source.tokenizer, model.max_length)
        position.update({number: place for place, number in enumerate(own)})
    rows = [(index, tokens[index], position[number]) for number, (index, _) in enumerate(checked)]
    found = answers(model, rows, batch_size) if rows else []
    told = []
    for (index, own, place), logits in zip(rows, found, strict=True):
        task = model.tasks[index]
        told.append({"task": task.name, **KINDS[task.kind]().answer(logits, task, own.example(place))})
    return told


def as_split(task: Task, examples: Sequence[Inputs]) -> Split:
    """What is asked of one task, as a split of it."""
    return Split(
        task,
        "test",
        f"requests of task {task.name!r}",
        [inputs.texts for inputs in examples],
        None,
        np.arange(1, len(examples) + 1),
        marks=[inputs.marks for inputs in examples] if task.marks else None,
    )


def _checked(model: Model, number: int, request: Request) -> tuple[int, Inputs]:
    where = f"request {number + 1}"
    if not isinstance(request, list | tuple) or len(request) != 2:
        raise WeftError(f"{where}: expected (task, text) or (task, (text, text)); found {request!r}")
    name, given = request
    try:
        index = model.task_id(name)
    except WeftError as wrong:
        raise WeftError(f"{where}: {wrong}") from None
    return index, read_request(model.tasks[index], given, where)


def read_request(task: Task, given: Any, where: str) -> Inputs:
    """What the encoder reads of a request, or an error that says where it is.

    Args:
        task: its task.
        given: what it reads; see `predict`.
        where: the beginning of a message.
    """
    values = _by_column(task, given, where) if isinstance(given, Mapping) else _plain(task, given)
    if values is None:
        raise WeftError(f"{where}: task {task.name!r} takes {_wanted(task)}; found {given!r}")
    inputs, wrong = KINDS[task.kind]().inputs(task, values)
    if wrong:
        column, value, message = wrong[0]
        raise WeftError(
            f"{where}: task {task.name!r} takes {_wanted(task)}; {column} is {value!r}: {message}"
        )
    return inputs


def plain_form(task: Task, given: Any) -> Any:
    """What a task reads of an object that may have other names for it than the task's files.

    The object itself where the task's own columns are all there; else its `text`, or `text_a` and `text_b`,
    with `choices` where the task has some.
    """
    if not isinstance(given, Mapping) or task.marks:
        return given
    names = ["text"] if len(task.texts) == 1 else ["text_a", "text_b"]
    names += ["choices"] if task.choices else []
    if all(column in given for column in read_columns(task)) or any(name not in given for name in names):
        return given
    values = [given[name] for name in names]
    return values[0] if len(values) == 1 else tuple(values)


def _by_column(task: Task, given: Mapping[str, Any], where: str) -> Given:
    wanted = read_columns(task)
    missing = [column for column in wanted if column not in given]
    if missing:
        raise WeftError(
            f"{where}: task {task.name!r} takes {_wanted(task)}; {', '.join(map(repr, missing))} is missing"
        )
    table = Table(where, {column: [given[column]] for column in wanted}, np.ones(1, np.int64))
    return next(givens(task, table))


def _plain(task: Task, given: Any) -> Given | None:
    """A text, a pair, words, or texts with a list of choices; None where it is none of them."""
    if task.marks:
        return None
    if KINDS[task.kind].windows == "words":
        return Given((given,))
    parts = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not task.choices:
        return Given(parts) if len(parts) == len(task.texts) else None
    if len(parts) != len(task.texts) + 1:
        return None
    return Given(parts[:-1], parts[-1:])


def _wanted(task: Task) -> str:
    """What a task takes, as words."""
    if task.marks:
        return f"a dict with {', '.join(read_columns(task))}"
    if KINDS[task.kind].windows == "words":
        return "a list of words, or a text that is cut at white space"
    texts = "one text" if len(task.texts) == 1 else "a pair of texts"
    return f"({texts}, a list of choices)" if task.choices else texts
