"""The model's uncertainty of each example of a forward pass."""

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
    """The uncertainty of each example by its task's kind, [E] of float64.

    Every head shape is measured for all examples, then each example takes the value of its task's shape.

    Args:
        model: the model.
        output: the output of its forward pass, with any mix of tasks.
        measure: `entropy`, `margin` or `raw_entropy`.
        labels: the result of `collate_labels`: `tag` reads from them where words begin, but not the labels.

    Returns:
        From 0, certain, to 1, of `raw_entropy` to ln C; nan for kinds without a measure: `regress` and
        `similarity`.
    """
    import torch

    by_shape: dict[str, Tensor] = {}
    with torch.no_grad():
        for shape, kind in {task.head: KINDS[task.kind]().of(task) for task in model.tasks}.items():
            kind_labels = None if labels is None else labels[kind.name]
            uncertainty = kind.uncertainty(output.by_shape[shape], output.layout, measure, kind_labels)
            if uncertainty is not None:
                by_shape[shape] = uncertainty
        return output.of_own_shape(by_shape, rest=torch.nan).double()
