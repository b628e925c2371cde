"""The targets of a batch's examples, of any mix of kinds, as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from weft.errors import WeftError
from weft.tasks.kinds.kind import Kind, Places
from weft.tasks.task import Task


def collate_targets(
    tasks: Sequence[Task],
    kinds: Mapping[str, Kind],
    values: Sequence[Any],
    task: Tensor,
    example: Tensor | None,
    length: int,
) -> dict[str, Tensor]:
    """One tensor a kind; an example of another kind has a stand-in there, which nothing reads.

    Args:
        tasks: those of the model, by their ids.
        kinds: the kind of each head shape.
        values: each example's target, E of them.
        task: the task id of each example, [E].
        example: the example of each row, [R]; None: each row is its own.
        length: of the rows, L.
    """
    own = [tasks[t] for t in task.tolist()]
    for number, (value, one) in enumerate(zip(values, own, strict=True)):
        try:
            kinds[one.head].check(value, one.size or 0)
        except ValueError as wrong:
            raise WeftError(
                f"example {number}, task {one.name!r}: label {value!r}; expected {wrong}"
            ) from None
    scaled = [one.target(value) for value, one in zip(values, own, strict=True)]
    places = Places(list(range(len(own))) if example is None else example.tolist(), length)
    return {
        kind.name: kind.collate(scaled, [one.kind == kind.name for one in own], places).to(task.device)
        for kind in {k.name: k for k in kinds.values()}.values()
    }
