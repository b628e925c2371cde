"""Training only some parameters of a model, with the others frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.model.ownership import Owned, owned

if TYPE_CHECKING:
    from weft.model.model import Model


@contextmanager
def trainable(model: Model, moves: Callable[[Owned], bool]) -> Iterator[None]:
    """Inside, only the selected parameters train; afterwards `requires_grad` is restored.

    A stacked parameter contains slices of other tasks too. They get no gradient, and no step updates an owner
    whose task has no example in it. Frozen parameters cost no backward pass: if only a head trains, a step
    costs little more than a forward pass.

    Args:
        model: the model.
        moves: whether an owner's slice of a parameter trains.
    """
    before = {id(p): (p, p.requires_grad) for p in model.parameters()}
    wanted = {id(item.parameter) for item in owned(model) if item.trains and moves(item)}
    try:
        for number, (parameter, _) in before.items():
            parameter.requires_grad_(number in wanted)
        yield
    finally:
        for parameter, trained in before.values():
            parameter.requires_grad_(trained)
            parameter.grad = None
