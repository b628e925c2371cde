"""What every adapter is."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from weft.core.route import Memory, Route
from weft.core.stacked import StackedModule
from weft.encoder.sites import Site, check_kind
from weft.errors import WeftError
from weft.kernels.dispatch import add
from weft.kernels.joined import Components


class Adapter(StackedModule):
    """A small module for one site, called as `adapter(x, route)`.

    At a term site (linear maps, norms, scores) it returns what is added, or None; at a value site
    (embeddings, deltas, block, top) it returns the new value. `weft.encoder.sites` has the equations.
    It may read `route.block_input`, and what else a route remembers of a block if it says so in `reads`.

    Args:
        site: where it will be woven in.

    Attributes:
        fits: the kinds of site it is made for.
        reads_input: whether a term depends on x at all; at a norm, x̂ is computed only if so.
        replaces: whether it is a task's own copy of the site's module, which then does not train itself.
        reads: what it reads of what the route remembers of the block that is running.
        reads_layers: whether it reads `route.layers`, the embeddings and what each block gave.
        part: which part of a composed method it is of.
    """

    fits: ClassVar[tuple[str, ...]] = ()
    reads_input: ClassVar[bool] = True
    replaces: ClassVar[bool] = False
    reads: tuple[Memory, ...] = ()
    reads_layers: ClassVar[bool] = False
    part: int = 0

    def __init__(self, site: Site) -> None:
        super().__init__()
        if check_kind(site.kind) not in self.fits:
            name = type(self).__name__
            raise WeftError(f"{name} cannot sit at {site.key!r}; it fits {', '.join(self.fits)}")
        self.site = site

    def forward(self, x: Tensor, route: Route) -> Tensor | None:
        """The term or the new value; see the class."""
        raise WeftError(f"{type(self).__name__} does not say what it does: it has no forward")

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """At a linear map or a norm: y and the term; y, [R, L, o], may be overwritten.

        One that adds by a product of its own says so here: the sum is then no pass of its own.
        """
        term = self(x, route)
        return y if term is None else add(y, term)

    def can_join(self) -> bool:
        """At a linear map: whether its term is one of few components, which `components` gives."""
        return False

    def components(self, route: Route) -> Components:
        """Its term by components, for the rows of a batch; see `weft.kernels.joined`."""
        raise WeftError(f"{type(self).__name__} does not say its components")

    def bind_norm(self, module: nn.Module) -> None:
        """At a norm: called once, when it is woven in, with the norm, whose weights it may read.

        It must not keep it as a submodule: what is the encoder's is not the adapter's.
        """

    def weight_delta(self, task: int) -> tuple[Tensor | None, Tensor | None] | None:
        """What it adds, for one task, to the site's own weight and bias: (ΔW, Δb), each or None.

        Returns:
            None where the adapter is not an addition to weight and bias, and cannot be merged.
        """
        return None

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor] | None:
        """ΔW of one task as a product up·down, [o, k] and [k, i]; None where it is none of low rank."""
        return None

    def inner_products(self) -> tuple[Tensor | None, Tensor | None] | None:
        """⟨ΔW_s, ΔW_t⟩ and ⟨Δb_s, Δb_t⟩ of every two tasks, each [T, T]; None where there is none.

        Here the updates are built; adapters of low rank do without.

        Returns:
            None where the adapter is not an addition to weight and bias.
        """
        tasks = len(next(iter(self.stacks.values())).slots.of_task)
        updates = [self.weight_delta(task) for task in range(tasks)]
        weights = [u[0].flatten() for u in updates if u is not None and u[0] is not None]
        biases = [u[1].flatten() for u in updates if u is not None and u[1] is not None]
        if not weights and not biases:
            return None
        return _gram(weights), _gram(biases)

    def slot(self, name: str, task: int) -> Tensor:
        """The entry of the stacked parameter `name` that a task uses."""
        return self.get_parameter(name)[self.stacks[name].slots.of_task[task]]


def _gram(updates: list[Tensor]) -> Tensor | None:
    if not updates:
        return None
    stacked = torch.stack(updates)
    return stacked @ stacked.T
