"""RoAd: a map's outputs are rotated and scaled in pairs (Liao and Monz, 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.adapters.derived import DerivedAdapter, Tables
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site
from weft.errors import WeftError


class RoadAdapter(DerivedAdapter):
    """y ← R_t·(W·x + b), with R_t of 2×2 blocks: a rotation by θ and a scale α for each pair of outputs.

    For the pair (u, v), with the θ and α of the pair and of the row's task:

        u' = α·(cos θ·u − sin θ·v)
        v' = α·(sin θ·u + cos θ·v)

    The outputs are cut into groups of g; in a group, output j and output j + g/2 are a pair, as in PEFT.
    theta [S, o/2] and alpha [S, o/2] start at zero; alpha holds α − 1, so that weight decay pulls towards the
    base. The initial model equals the base exactly. It is RoAd₁ of the paper.

    Args:
        site: a linear site with an even number of outputs, [R, L, i] → [R, L, o].
        slots: the slots of theta and alpha.
        group: g, an even divisor of o; None: 64, as in PEFT, or o if that is not a multiple of 64.

    Example:
        >>> site = Site("query", 0, 8, 8, "layer.0.query")
        >>> adapter = RoadAdapter(site, Slots.per_task(["a", "b"]), group=4)
        >>> adapter.get_parameter("theta").shape
        torch.Size([2, 4])
    """

    fits = LINEAR
    by = "theta"
    sources = ("theta", "alpha")
    vectors = (0, 1)

    def __init__(self, site: Site, slots: Slots, group: int | None = None) -> None:
        super().__init__(site)
        width = site.out_width
        self.group = group or (width if width % 64 else 64)
        if self.group % 2 or width % self.group:
            raise WeftError(
                f"road at {site.key!r}: groups of {self.group} outputs (method.group) cannot be pairs in a "
                f"map of {width} outputs; expected an even divisor of {width}"
            )
        for name in ("theta", "alpha"):
            self.stack(name, (width // 2,), slots, "weight")
            nn.init.zeros_(self.get_parameter(name))

    def derive(self, *sources: Tensor) -> Tables:
        """α·cos θ − 1 and ∓α·sin θ, − for the first of a pair and + for the second, […, S, o] each."""
        theta, alpha = (source.unflatten(-1, (-1, self.group // 2)) for source in sources)
        change, turn = (1 + alpha) * theta.cos() - 1, (1 + alpha) * theta.sin()
        return torch.stack([change, change], -2).flatten(-3), torch.stack([-turn, turn], -2).flatten(-3)

    def form(self) -> tuple[object, ...]:
        """See `DerivedAdapter`: groups of one size too."""
        return *super().form(), self.group

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y, [R, L, o], rotated and scaled; x is not read."""
        change, turn = self.row_vectors(route)
        return self._turned(y, change[:, None], turn[:, None])

    def _turned(self, y: Tensor, change: Tensor, turn: Tensor) -> Tensor:
        """y [R, L, o] by the coefficients [R or 1, 1, o] each, in the dtype of y.

        The change is added to y, so that rounding it in half precision does not round 1 + change. Each output
        reads itself and the other one of its pair: a compiler makes one pass over y of it.
        """
        other = y.unflatten(-1, (-1, 2, self.group // 2)).flip(-2).flatten(-3)
        return y + (y * change + other * turn).to(y.dtype)

    def can_merge(self) -> bool:
        """It changes a weight and a bias: R·(W·x + b) = (R·W)·x + R·b."""
        return True

    def merge_into(self, task: int, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """R·W and R·b."""
        change, turn = (table[None, None] for table in self.task_tables(task))
        turned = self._turned(weight.T[None], change, turn)[0].T
        return turned, None if bias is None else self._turned(bias[None, None], change, turn)[0, 0]
