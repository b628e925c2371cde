"""The forms of a call: `predict(task, texts)`, one text or many, columns of a data frame, a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.data.readers.columns import read_columns
from weft.errors import WeftError, did_you_mean
from weft.tasks.in_memory import RowsInMemory, rows_or_none
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task


def listed(texts: Iterable[Any]) -> list[Any]:
    """Return texts as a list; those of a numpy array or an Arrow column as Python values."""
    for method in ("to_pylist", "tolist"):
        if not isinstance(texts, Sequence) and hasattr(texts, method):
            return list(getattr(texts, method)())
    return list(texts)


def frame_of(texts: object) -> RowsInMemory | None:
    """Return the rows of a data frame, data set or table; None for anything else."""
    return None if isinstance(texts, Sequence) else rows_or_none(texts, "the data frame")


def dicts_of(rows: RowsInMemory, columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows as dicts with those of the columns that exist."""
    names = [name for name in dict.fromkeys(columns) if name in rows.names]
    values = zip(*(rows.column(name) for name in names), strict=True) if names else [()] * len(rows)
    return [dict(zip(names, row, strict=True)) for row in values]


def requests_of_task(model: Model, name: str, texts: Any) -> tuple[list[tuple[str, Any]], bool]:
    """Return the requests of `predict(name, texts)`, and whether `texts` is one input and not many.

    A string, a tuple (a pair, or a text with its choices) and a dict are one input.

    Args:
        model: the model.
        name: the name of the task.
        texts: one input of the task, a list or column of inputs, or a data frame with the task's columns.
    """
    if not isinstance(name, str):
        raise WeftError(f"expected the name of a task; found {name!r}; {_forms(model)}")
    task = model.tasks[model.task_id(name)]
    if isinstance(texts, str | tuple | Mapping):
        _check_one(task, texts)
        return [(name, texts)], True
    if (rows := frame_of(texts)) is not None:
        for column in read_columns(task):
            if column not in rows.names:
                hint = did_you_mean(column, rows.names)
                raise WeftError(f"the data frame has no column {column!r}, which task {name!r} reads; {hint}")
        return [(name, row) for row in dicts_of(rows, read_columns(task))], False
    if not isinstance(texts, Iterable):
        raise WeftError(f"texts: expected a text or a list of texts; found {texts!r}; {_forms(model)}")
    inputs = listed(texts)
    _check_many(task, inputs)
    return [(name, text) for text in inputs], False


def check_requests(model: Model, requests: Any) -> None:
    """Refuse what is not a list of (task, text), and say what to write."""
    if frame_of(requests) is not None:
        raise WeftError(f"requests: found a data frame without a task; {_forms(model)}")
    if isinstance(requests, str | Mapping) or not isinstance(requests, Iterable):
        names = [task.name for task in model.tasks]
        alone = isinstance(requests, str) and requests in names
        found = f"the task {requests!r} without texts" if alone else repr(requests)
        raise WeftError(f"requests: expected a list of (task, text); found {found}; {_forms(model)}")
    first = requests[0] if isinstance(requests, list | tuple) and requests else None
    if isinstance(first, str):
        raise WeftError(f"request 1: expected (task, text); found {first!r}, without a task; {_forms(model)}")


def _forms(model: Model) -> str:
    name = model.tasks[0].name
    return f"write model.predict({name!r}, ['text 1', …]), or model.predict([({name!r}, 'text 1'), …])"


def _check_one(task: Task, text: object) -> None:
    """Explain a tuple of several texts for a task that takes one."""
    several = isinstance(text, tuple) and len(text) != 1 and all(isinstance(part, str) for part in text)
    if several and len(task.texts) == 1 and not task.choices and KINDS[task.kind].windows != "words":
        raise WeftError(
            f"task {task.name!r} takes one text; found a tuple, which means a pair; write several texts as a "
            f"list: model.predict({task.name!r}, ['text 1', 'text 2'])"
        )


def _check_many(task: Task, inputs: Sequence[object]) -> None:
    """Explain a list of strings for a task that takes pairs."""
    if len(task.texts) == 2 and not task.marks and any(isinstance(text, str) for text in inputs):
        raise WeftError(
            f"task {task.name!r} takes pairs of texts; found a list of texts; write each pair as a tuple: "
            f"model.predict({task.name!r}, [('text a', 'text b'), …])"
        )
