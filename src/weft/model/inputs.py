"""Checks the arguments of a forward pass before anything runs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.errors import WeftError


class Rows(NamedTuple):
    """The arguments of `Model.forward`."""

    input_ids: Tensor
    attention_mask: Tensor | None
    token_type_ids: Tensor | None
    task: Tensor | None
    example: Tensor | None
    marks: Tensor | None = None


def checked_task(inputs: Rows, tasks: int, longest: int | None) -> Tensor:
    """Check the arguments of a forward pass, and return the task id of each row, [R].

    Args:
        inputs: the arguments of a forward pass.
        tasks: how many tasks the model has.
        longest: the longest row that encoder and method support, if there is a limit.
    """
    input_ids, attention_mask, token_type_ids, task, example, marks = inputs
    for name, value in (("input_ids", input_ids), ("task", task), ("example", example), ("marks", marks)):
        if value is not None and not isinstance(value, Tensor):
            raise WeftError(f"{name}: expected a tensor; found {type(value).__name__}")
    if input_ids.dim() != 2:
        raise WeftError(f"input_ids: expected [rows, length]; found shape {list(input_ids.shape)}")
    if not input_ids.numel():
        raise WeftError(f"input_ids: expected at least one row and one token; found {list(input_ids.shape)}")
    like_ids = (("attention_mask", attention_mask), ("token_type_ids", token_type_ids), ("marks", marks))
    for name, value in like_ids:
        if value is not None and value.shape != input_ids.shape:
            expected, actual = list(input_ids.shape), list(value.shape)
            raise WeftError(f"{name}: expected the shape of input_ids, {expected}; found {actual}")
    rows = input_ids.size(0)
    if longest is not None and input_ids.size(1) > longest:
        raise WeftError(f"input_ids: rows of {input_ids.size(1)} tokens; the model takes {longest}")
    if task is None:
        if tasks > 1:
            raise WeftError(f"task: missing; expected {rows} task ids from 0 to {tasks - 1}, one per row")
        task = torch.zeros(rows, dtype=torch.long, device=input_ids.device)
    for name, value in (("task", task), ("example", example)):
        if value is not None and (value.shape != (rows,) or value.dtype != torch.long):
            actual = f"{value.dtype} {list(value.shape)}"
            raise WeftError(f"{name}: expected a LongTensor [{rows}], one id per row; found {actual}")
    if not torch.compiler.is_compiling() and task.device.type == "cpu" and rows:
        low, high = int(task.min()), int(task.max())
        if low < 0 or high >= tasks:
            wrong = low if low < 0 else high
            raise WeftError(f"task: id {wrong} does not exist; this model's ids are 0 to {tasks - 1}")
        if example is not None:
            check_examples(example, task)
    return task


def single_task(task: Tensor) -> int | None:
    """Return the single task of all rows, if there is one and the host knows it without waiting.

    A compiled graph serves every mix of tasks and must not depend on the ids, so this is None there.
    """
    if torch.compiler.is_compiling() or task.device.type != "cpu":
        return None
    first = int(task[0])
    return first if bool((task == first).all()) else None


def check_examples(example: Tensor, task: Tensor) -> None:
    """Raise an error for example ids [R] with a gap, or an example whose rows have different tasks [R]."""
    ids = example.tolist()
    if min(ids) < 0 or set(ids) != set(range(max(ids) + 1)):
        raise WeftError(f"example: expected ids from 0 on without a gap; found {sorted(set(ids))[:8]}")
    task_of: dict[int, int] = {}
    for number, t in zip(ids, task.tolist(), strict=True):
        if task_of.setdefault(number, t) != t:
            raise WeftError(
                f"example {number} has rows of the tasks {task_of[number]} and {t}; expected one task"
            )
