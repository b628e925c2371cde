"""The owner of each tensor: the encoder, all tasks together, a group of tasks, or one task.

Optimizers, the ledger and the files of a bundle all use this listing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn

from weft.core.stacked import ENCODER, Role, StackedModule
from weft.encoder.norms import is_norm

if TYPE_CHECKING:
    from weft.model.model import Model

Part = Literal["encoder", "adapters", "heads"]


@dataclass(frozen=True)
class Owned:
    """One owner's share of one parameter.

    Attributes:
        owner: `encoder`, `shared`, `group:NAME` or `task:NAME`.
        part: the part of the model that contains it.
        name: the parameter's name in the model's state dict.
        slot: the entry of a stacked parameter; None for a whole one.
        parameter: the parameter itself.
        role: its role, which decides about weight decay.
        constant: whether it is a factor that never trains, though it is not the encoder's.
        rate: what its learning rate is multiplied by.
    """

    owner: str
    part: Part
    name: str
    slot: int | None
    parameter: nn.Parameter
    role: Role
    constant: bool = False
    rate: float = 1.0

    @property
    def data(self) -> Tensor:
        """The values, as a view: writing to it writes to the model."""
        # detach, not data: writing to it then counts as a new version of the parameter
        values = self.parameter.detach()
        return values if self.slot is None else values[self.slot]

    @property
    def numel(self) -> int:
        """The number of its elements."""
        return self.parameter.numel() if self.slot is None else self.parameter[0].numel()

    @property
    def trains(self) -> bool:
        """Whether it trains."""
        return self.parameter.requires_grad


def of_owner(owner: str) -> str:
    """Say whose weights an owner's are, for messages: `of task 'rte'`, `that all tasks share`."""
    kind, _, name = owner.partition(":")
    if name:
        return f"of {kind} {name!r}"
    return "of the encoder" if owner == ENCODER else "that all tasks share"


def owned(model: Model) -> Iterator[Owned]:
    """Yield every tensor of the model once, by owner."""
    if model.method.separate:
        for owner, encoder in model.encoder.items():  # type: ignore[operator]
            yield from _encoder(encoder, f"encoder.{owner}.", owner)
    else:
        yield from _encoder(model.encoder, "encoder.", ENCODER)
    yield from _stacked(model.adapters, "adapters", "adapters.")
    yield from _stacked(model.heads, "heads", "heads.")


def _encoder(encoder: nn.Module, prefix: str, owner: str) -> Iterator[Owned]:
    norms = {f"{n}.weight" for n, m in encoder.named_modules() if is_norm(m)}
    for name, parameter in encoder.named_parameters():
        role: Role = "norm" if name in norms else "bias" if name.endswith("bias") else "weight"
        yield Owned(owner, "encoder", prefix + name, None, parameter, role)


def _stacked(root: nn.Module, part: Part, prefix: str) -> Iterator[Owned]:
    for path, module in root.named_modules():
        if isinstance(module, StackedModule):
            for name, stack in module.stacks.items():
                parameter = module.get_parameter(name)
                for slot, owner in enumerate(stack.slots.owners):
                    place = f"{prefix}{path}.{name}"
                    yield Owned(owner, part, place, slot, parameter, stack.role, stack.constant, stack.rate)
