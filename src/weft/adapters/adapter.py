"""The base class of all adapters."""

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

    At a term site (linear maps, norms, scores) it returns the term that is added, or None. At a value site
    (embeddings, deltas, block, top) it returns the new value. `weft.encoder.sites` has the equations.
    It may read `route.block_input`, and the other stored tensors of a block that it declares in `reads`.

    Args:
        site: the site that it will be woven in at.

    Attributes:
        fits: the kinds of site it supports.
        reads_input: whether its term depends on x; at a norm, x̂ is computed only if it does.
        replaces: whether it is a per-task copy of the site's module, which then does not train itself.
        reads: the names of the tensors that the route must store for the running block.
        reads_layers: whether it reads `route.layers`, the embeddings and each block's output.
        unmerged: why it cannot be merged, if it cannot, for messages.
        part: the index of the part of a composed method that it belongs to.
        scales: at a linear map, whether its term rescales the map's own output. It then runs before the other
            adapters of its map, of which no second one may rescale.
        keeps: whether it keeps tensors that are computed from its parameters, which `refresh` updates.
    """

    fits: ClassVar[tuple[str, ...]] = ()
    reads_input: ClassVar[bool] = True
    replaces: ClassVar[bool] = False
    reads: tuple[Memory, ...] = ()
    reads_layers: ClassVar[bool] = False
    unmerged: ClassVar[str] = "it is not an addition to a weight or a bias"
    part: int = 0
    scales: ClassVar[bool] = False
    keeps: ClassVar[bool] = False

    def __init__(self, site: Site) -> None:
        super().__init__()
        if check_kind(site.kind) not in self.fits:
            name = type(self).__name__
            raise WeftError(f"{name} cannot sit at {site.key!r}; it fits {', '.join(self.fits)}")
        self.site = site

    def forward(self, x: Tensor, route: Route) -> Tensor | None:
        """Return the term or the new value; see the class."""
        raise WeftError(f"{type(self).__name__} has no forward; an adapter must define one")

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """At a linear map or a norm: return y + term; y, [R, L, o], may be overwritten.

        An adapter that can add its term within a matrix product overrides this and saves a separate sum; one
        that changes y instead of adding to it (a scale, a rotation) returns the changed y.
        """
        term = self(x, route)
        return y if term is None else add(y, term)

    def can_join(self) -> bool:
        """At a linear map: whether its term has few components, which `components` returns."""
        return False

    def components(self, route: Route) -> Components:
        """Return its term as components, for the rows of a batch; see `weft.kernels.joined`."""
        raise WeftError(f"{type(self).__name__} does not define its components")

    def is_wide(self) -> bool:
        """At a linear map, in inference: whether one merged weight per task is cheaper than its term."""
        return False

    def bind_norm(self, module: nn.Module) -> None:
        """At a norm: called once, when the adapter is woven in, with the norm, whose weights it may read.

        The adapter must not keep the norm as a submodule: its weights belong to the encoder.
        """

    def bind_map(self, module: nn.Linear) -> None:
        """At a linear map: called once, when the adapter is woven in, with the map, whose weights it may
        read.

        A site that is a slice of a fused map gets the whole map. As with `bind_norm`, the adapter must not
        keep it as a submodule.
        """

    def refresh(self) -> None:
        """Bring the tensors that it keeps for inference up to date; called before a pass if `keeps`."""

    def outdate(self) -> None:
        """Mark what it keeps as outdated: parameters have changed without counting a version."""

    def weight_delta(self, task: int) -> tuple[Tensor | None, Tensor | None] | None:
        """Return what it adds to the site's weight and bias for one task: (ΔW, Δb), each may be None.

        Returns:
            None if the adapter is not an addition to weight and bias.
        """
        return None

    def can_merge(self) -> bool:
        """Return whether `merge_into` is exact: the adapter changes nothing but a weight and a bias."""
        return self.weight_delta(0) is not None

    def merge_into(self, task: int, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the weight and bias of a map or norm that computes what it does with this adapter.

        Args:
            task: the task's id.
            weight: of the site's map or norm, with the adapters before this one merged; at `ffn_hidden` the
                weight of the map that reads the value. It is not changed.
            bias: None if it has none.
        """
        delta = self.weight_delta(task)
        assert delta is not None, "see can_merge"
        by_weight, by_bias = delta
        if by_bias is not None:
            bias = by_bias if bias is None else bias + by_bias
        return weight if by_weight is None else weight + by_weight, bias

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor] | None:
        """Return ΔW of one task as a product up·down, [o, k] and [k, i]; None if it is not of low rank."""
        return None

    def inner_products(self) -> tuple[Tensor | None, Tensor | None] | None:
        """Return ⟨ΔW_s, ΔW_t⟩ and ⟨Δb_s, Δb_t⟩ of all pairs of tasks, each [T, T] or None.

        This default builds the updates; low-rank adapters override it and do not.

        Returns:
            None if the adapter is not an addition to weight and bias.
        """
        tasks = len(next(iter(self.stacks.values())).slots.of_task)
        updates = [self.weight_delta(task) for task in range(tasks)]
        weights = [u[0].flatten() for u in updates if u is not None and u[0] is not None]
        biases = [u[1].flatten() for u in updates if u is not None and u[1] is not None]
        if not weights and not biases:
            return None
        return _gram(weights), _gram(biases)

    def slot(self, name: str, task: int) -> Tensor:
        """Return the entry of the stacked parameter `name` that a task uses."""
        return self.get_parameter(name)[self.stacks[name].slots.of_task[task]]


def _gram(updates: list[Tensor]) -> Tensor | None:
    if not updates:
        return None
    stacked = torch.stack(updates)
    return stacked @ stacked.T
