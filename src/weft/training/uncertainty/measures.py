"""How unsure the model is of each example of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model.model import Model
    from weft.model.output import Output


def measures(
    model: Model, output: Output, measure: str, labels: Mapping[str, Tensor] | None = None
) -> Tensor:
    """By each task's kind, [E] of float64: every shape for all, then each its own.

    Args:
        model: the model.
        output: of its forward pass, any mix of tasks.
        measure: `entropy` or `margin`.
        labels: of `collate_labels`: `tag` needs them to know where words begin. What they say is not read.

    Returns:
        From 0, sure, to 1; nan for kinds that cannot tell: `regress` and `similarity`.
    """
    import torch

    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for shape, kind in {task.head: KINDS[task.kind]().of(task) for task in model.tasks}.items():
            own = None if labels is None else labels[kind.name]
            unsure = kind.uncertainty(output.by_shape[shape], output.layout, measure, own)
            if unsure is not None:
                found[shape] = unsure
        return output.of_own_shape(found, rest=torch.nan).double()
