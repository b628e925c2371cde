"""An example request of a task: for `GET /v1/tasks`, the OpenAPI document, the web page, and the warm-up."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

from weft.data.readers.columns import template_columns
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.tasks.task import Task

TEXTS = ("Anna moved to Oslo in 2019.", "Where did Anna move in 2019?")
CHOICES = ["She lives in Norway.", "She lives in Peru."]


def sample_request(task: Task) -> dict[str, Any]:
    """Return a request that the task accepts, as JSON, with the keys that any task of its form accepts.

    A task with marked words, or with a text that is made of several columns, is asked by its columns.

    Example:
        >>> sample_request(weft.Task("rte", texts=("premise", "hypothesis"), labels=("no", "yes")))
        {'task': 'rte', 'text_a': 'Anna moved to Oslo in 2019.', 'text_b': 'Where did Anna move in 2019?'}
    """
    request: dict[str, Any] = {"task": task.name}
    first, second = TEXTS
    if KINDS[task.kind].windows == "context":
        first, second = second, first  # the question comes first
    if task.marks or any(len(template_columns(text)) > 1 for text in task.texts):
        return request | _by_column(task, (first, second))
    if len(task.texts) == 1:
        request["text"] = first
    else:
        request |= {"text_a": first, "text_b": second}
    return request | ({"choices": CHOICES} if task.choices else {})


def _by_column(task: Task, texts: tuple[str, str]) -> dict[str, Any]:
    """The columns of a task's files: its texts and choices, and the first word of each marked text."""
    request: dict[str, Any] = {}
    for column, text in zip(task.texts, texts, strict=False):
        for name in template_columns(column) or [column]:
            request[name] = text
    choices = cycle([CHOICES] if len(task.choices) == 1 else CHOICES)
    request |= dict(zip(task.choices, choices, strict=False))
    for mark in task.marks:
        word = texts[mark.text].split()[0]
        values = (0, len(word)) if mark.start else (0, word)
        request |= dict(zip(mark.columns, values, strict=True))
    return request


def about_task(task: Task) -> dict[str, Any]:
    """What `GET /v1/tasks` says about a task."""
    kind = KINDS[task.kind]
    about: dict[str, Any] = {"name": task.name, "kind": task.kind}
    if task.labels:
        about["labels"] = list(task.labels)
    if task.range is not None:
        about["range"] = list(task.range)
    request = sample_request(task)
    inputs = [key for key in request if key != "task"]
    about["inputs"] = inputs
    if kind.windows == "words":
        about["note"] = "text: a list of words, or a text that is split at white space"
    return about | {"example": request}
