"""Letting a part of a model move, and holding the rest still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.model.ownership import Owned, owned

if TYPE_CHECKING:
    from weft.model.model import Model


@contextmanager
def trainable(model: Model, moves: Callable[[Owned], bool]) -> Iterator[None]:
    """Inside, nothing trains but parameters of which some owner's share moves; afterwards all as before.

    A stacked parameter has other tasks' shares too: they have no gradient, and no step moves an owner whose
    task is not in it. What does not train costs no backward pass: a head alone, no more than a forward.

    Args:
        model: the model.
        moves: whether an owner's share of a parameter is to move.
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
