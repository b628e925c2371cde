"""LoReFT: a block's output is edited in a subspace of few dimensions (Wu et al., 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.adapters.derived import DerivedAdapter, Tables
from weft.adapters.orthonormal import orthonormal_rows
from weft.adapters.stacked import uniform
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import VALUE, Site
from weft.errors import WeftError
from weft.kernels.dispatch import low_rank


class ReftAdapter(DerivedAdapter):
    """h ← h + R_tᵀ·(W_t·h + b_t − R_t·h): in the r dimensions that R_t spans, h becomes W_t·h + b_t.

    The rows of R_t [r, d] are orthonormal, R_t·R_tᵀ = I. The parameter R [S, r, d] is any matrix with
    independent rows; R_t is computed from it (`orthonormal_rows`), and R starts at random orthonormal rows.
    The parameter W [S, r, d] holds the difference W_t − R_t. It and b [S, r] start at zero, that is at
    W_t = R_t: the initial model equals the base exactly, whatever rounding does to R_t, and weight decay
    pulls towards the base. The paper starts with random W_t and b_t, which change h from the first step on;
    with `random`, so does this.

    Args:
        site: a value site, [R, L, d].
        slots: the slots of the parameters.
        rank: r, at most d.
        seed: the random seed of the initial values.
        random: whether W_t and b_t start as those of torch's linear maps, uniformly in ±1/√d.
    """

    fits = VALUE
    by = "R"
    sources = ("R", "W", "b")
    unmerged = "it changes the sum that a block returns, which is not the output of one weight"

    def __init__(self, site: Site, slots: Slots, rank: int, seed: int, random: bool = False) -> None:
        super().__init__(site)
        width = site.out_width
        if rank > width:
            raise WeftError(
                f"reft at {site.key!r}: rank {rank}, but the value has {width} dimensions; expected at most "
                f"{width}"
            )
        self.rank = rank
        self.stack("R", (rank, width), slots, "norm")  # its rows' lengths have no effect: no weight decay
        self.stack("W", (rank, width), slots, "weight")
        self.stack("b", (rank,), slots, "bias")
        self.start("R", _orthonormal, seed, site.key)
        for name in ("W", "b"):
            nn.init.zeros_(self.get_parameter(name))
            if random:
                self.start(name, uniform(width), seed, site.key)
        if random and not self.get_parameter("W").is_meta:
            with torch.no_grad():
                self.get_parameter("W").sub_(orthonormal_rows(self.get_parameter("R")))

    def derive(self, *sources: Tensor) -> Tables:
        """R_t […, S, r, d], and W and b as they are."""
        rotation, source, shift = sources
        return orthonormal_rows(rotation), source, shift

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d], in the dtype of x."""
        (rotation, source, shift), mix = self.slot_tables(route)
        # eager inference would overwrite x, which a trunk may hold; compiled, x is a value of the graph
        onto = x if torch.compiler.is_compiling() or torch.is_grad_enabled() else None
        edited = low_rank(x, source, rotation.mT, mix, onto=onto, shift=shift)
        return edited if onto is not None else x + edited.to(x.dtype)


def _orthonormal(tensor: Tensor, generator: torch.Generator) -> None:
    tensor.copy_(orthonormal_rows(tensor.normal_(generator=generator)))
