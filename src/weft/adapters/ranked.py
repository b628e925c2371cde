"""The base class of low-rank adapters: components that can be gated, counted and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from weft.adapters.adapter import Adapter
from weft.adapters.gate import RankGate
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.kernels.dispatch import low_rank

if TYPE_CHECKING:
    from weft.core.gate_settings import L0


class RankedAdapter(Adapter):
    """An adapter whose update is a sum of `rank` components, each of which a gate may shut.

    Args:
        site: the site that it will be woven in at.
        rank: r, the number of components.
        l0: settings of the gates; None: no gates.
        gated: the slots of the components and of their gates.

    Attributes:
        along: for each stacked parameter, the dimensions of a slot that run over the components.
        absorbs: the parameters that gates are multiplied into when gates are removed.
        setting: the method's setting that holds ranks by site.
        component_slots: the slots of the components, gated or not.
        dropout: dropout probability of the update's input, in training.
        gate: the gates; None if there are none.
    """

    along: ClassVar[dict[str, tuple[int, ...]]] = {}
    absorbs: ClassVar[tuple[str, ...]] = ()
    setting: ClassVar[str] = "rank_pattern"
    dropout: float = 0.0

    def __init__(self, site: Site, rank: int, l0: L0 | None, gated: Slots) -> None:
        super().__init__(site)
        self.rank = rank
        self.component_slots = gated
        self.gate = None if l0 is None else RankGate(gated, rank, l0)

    def gated(self, low: Tensor, route: Route) -> Tensor:
        """[R, L, r] or [R, r] ∘ z."""
        if self.gate is None:
            return low
        z = self.gate(route).to(low.dtype)
        return low * (z[:, None] if low.dim() == 3 else z)

    def pair(
        self,
        x: Tensor,
        route: Route,
        down: Tensor,
        up: Tensor,
        by: str,
        factor: Tensor | None = None,
        scale: float = 1.0,
        onto: Tensor | None = None,
    ) -> Tensor:
        """Return onto + s·up_t·(factor_t ∘ down_t·x), by the cheapest strategy, [R, L, i] → [R, L, o].

        Args:
            x: [R, L, i].
            route: the batch's route.
            down: [S, r, i], or [1, r, i] if all tasks share it, and then `up` as well.
            up: [S, o, r] or [1, o, r].
            by: the name of the parameter that differs between tasks; its slots are used.
            factor: [S, r], or None.
            scale: s.
            onto: the tensor that the result is added to, [R, L, o]; see `weft.kernels.dispatch.low_rank`.
        """
        shared = down.size(0) == 1
        if not shared:
            (down, mix), (up, _) = self.mixed(down, by, route), self.mixed(up, by, route)
            factor = None if factor is None else self.mixed(factor, by, route)[0]
        elif factor is not None:
            factor, mix = self.mixed(factor, by, route)
        else:
            mix = None
        return low_rank(x, down, up, mix, factor, scale, onto)

    def gate_values(self) -> Tensor | None:
        """Return the current z of every slot, [S, r] or [1, r]; None if there are no gates."""
        return None if self.gate is None else self.gate.values(self.gate.noise if self.training else None)

    def gates(self, task: int) -> Tensor | None:
        """Return the task's z without noise, [r]; None if there are no gates."""
        if self.gate is None:
            return None
        return self.gate.values()[self.component_slots.of_task[task]]

    def absorbed(self, name: str, task: int) -> Tensor:
        """Return a task's slot of the parameter `name`, multiplied by the gates if it absorbs them."""
        value, z = self.slot(name, task), self.gates(task)
        if z is None or name not in self.absorbs:
            return value
        for dim in self.along[name]:
            value = value * z.view([-1 if d == dim else 1 for d in range(value.dim())])
        return value

    def live(self) -> list[Tensor]:
        """Return for each slot the indices of its components in use, ascending: not shut, not padding."""
        if self.gate is None:
            return [torch.arange(self.width(slot)) for slot in range(len(self.component_slots))]
        return [z.nonzero()[:, 0].cpu() for z in self.gate.values().detach()]

    @torch.no_grad()
    def width(self, slot: int) -> int:
        """Return how many components a slot has; further ones are zeros that pad it to the largest rank.

        If all tasks use the same components there is no padding.
        """
        if len(self.component_slots) == 1:
            return self.rank
        used = torch.zeros(self.rank, dtype=torch.bool)
        for name, dims in self.along.items():
            for dim in dims:
                used |= self.get_parameter(name)[slot].movedim(dim, 0).flatten(1).any(1).cpu()
        numbers = used.nonzero()
        return int(numbers[-1]) + 1 if len(numbers) else 0

    def live_for(self, task: int) -> Tensor:
        """Return the indices of a task's live components, ascending, on the parameters' device."""
        return self.live()[self.component_slots.of_task[task]].to(next(self.parameters()).device)

    @torch.no_grad()
    def fill_from(self, other: RankedAdapter) -> None:
        """Copy the live components of another adapter, multiplied by its gates; this one has no gates.

        Slots with fewer live components than this adapter's rank are padded with zeros.
        """
        live = other.live()
        for name, stack in self.stacks.items():
            target, source = self.get_parameter(name), other.get_parameter(name)
            target.zero_()
            for slot, owner in enumerate(stack.slots.owners):
                task = stack.slots.of_task.index(slot)
                value = other.absorbed(name, task) if name in other.absorbs else source[slot]
                owners = other.component_slots.owners
                kept = live[owners.index(owner) if owner in owners else 0].to(value.device)
                for dim in self.along.get(name, ()):
                    value = value.index_select(dim, kept)
                target[slot][tuple(slice(0, n) for n in value.shape)] = value
