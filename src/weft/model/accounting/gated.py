"""Counts the parameters that compaction removes: those of shut components, and the gates themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.adapters.ranked import RankedAdapter

if TYPE_CHECKING:
    from weft.model.model import Model


class BehindGates(NamedTuple):
    """The parameters that a model has and its compacted model has not.

    Attributes:
        all: their number.
        trained: how many of them train.
    """

    all: int = 0
    trained: int = 0


def behind_gates(model: Model) -> BehindGates:
    """Count what `model.compact()` removes, without making the smaller model; nothing if there are no gates.

    As there, a site has the largest rank of its slots, and a site without a component is removed whole.

    Args:
        model: any model; its gates need not be decided.
    """
    every = trained = 0
    for _, adapter in model.placements:
        if not isinstance(adapter, RankedAdapter) or adapter.gate is None:
            continue
        rank = max(len(numbers) for numbers in adapter.live())
        for name in adapter.stacks:
            parameter = adapter.get_parameter(name)
            left = (rank / adapter.rank) ** len(adapter.along.get(name, ())) if rank else 0.0
            removed = parameter.numel() - round(parameter.numel() * left)
            every += removed
            trained += removed * parameter.requires_grad
        for parameter in adapter.gate.parameters():
            every += parameter.numel()
            trained += parameter.numel() * parameter.requires_grad
    return BehindGates(every, trained)
