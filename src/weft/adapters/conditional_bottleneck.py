"""Conditional bottleneck: down and up again, modulated by the task's vector (CA-MTL, figure 3.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.adapters.conditional_norm import OwnConditionalNorm
from weft.adapters.film import Film
from weft.adapters.stacked import StackedLinear
from weft.adapters.task_embedding import Condition
from weft.encoder.sites import Site
from weft.routing import Route, Slots, row_linear


class Bottleneck(nn.Module, ABC):
    """A map down, D, and one up again, U, conditioned on z'; both with biases, and no dropout.

    Args:
        width: d.
        size: the inner width, d // 3 in the code.
        condition: z'.
        slots: one for all tasks.
        seed: of the start.
        place: where in the model it is.
    """

    def __init__(
        self, width: int, size: int, condition: Condition, slots: Slots, seed: int, place: str
    ) -> None:
        super().__init__()
        self.condition = condition
        self.down = StackedLinear(width, size, slots, seed, f"{place}/down")
        self.up = StackedLinear(size, width, slots, seed, f"{place}/up")
        self.build(width, size, slots, seed, place)

    @abstractmethod
    def build(self, width: int, size: int, slots: Slots, seed: int, place: str) -> None:
        """Make what modulates the two maps; the arguments are the constructor's."""

    @abstractmethod
    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""


class FilmBottleneck(Bottleneck):
    """U·(D·FiLM(h)), FiLM on V·z' + c, as released: no activation."""

    def build(self, width: int, size: int, slots: Slots, seed: int, place: str) -> None:
        """V, and the FiLM of what enters."""
        self.transform = StackedLinear(width, width, slots, seed, f"{place}/transform")
        self.film = Film(width, width, slots, seed, f"{place}/film")

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        z: Tensor = self.condition(route)
        own = self.transform(z[:, None], route)[:, 0]
        wide: Tensor = self.up(self.down(self.film(x, own, route), route), route)
        return wide


class ModulatedBottleneck(Bottleneck):
    """Û(z)·(D̂(z)·h), D̂ and Û made as R̂ is in eq. 3.2: Ŵ(z) = diag(1 + γ(z))·W + β(z)·1ᵀ.

    The paper says that the bottleneck "follows the same transformation as in equation 3.2"; that both maps
    are meant, and that neither is followed by an activation, is our reading of figure 3.3.
    """

    def build(self, width: int, size: int, slots: Slots, seed: int, place: str) -> None:
        """γ and β of either map."""
        self.film_down = Film(width, size, slots, seed, f"{place}/film_down")
        self.film_up = Film(width, width, slots, seed, f"{place}/film_up")

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        z: Tensor = self.condition(route)
        for linear, film in ((self.down, self.film_down), (self.up, self.film_up)):
            gamma, beta = film.scale_and_shift(z, route)
            mapped = row_linear(x, linear.take("weight", route))  # W·x
            shift = x.sum(-1, keepdim=True) * beta[:, None]
            x = (1 + gamma[:, None]) * mapped + shift + linear.take("bias", route)[:, None]
        return x


class BlockBottleneck(Adapter):
    """v ← CLN(bottleneck(v) + a), a the stream after the block's attention: base, at the top block.

    Nothing goes around the bottleneck but a: no start is the base's.

    Args:
        site: `block`.
        bottleneck: the function.
        norm: CLN.
    """

    fits = ("block",)
    reads = ("after_attention",)

    def __init__(self, site: Site, bottleneck: Bottleneck, norm: OwnConditionalNorm) -> None:
        super().__init__(site)
        self.bottleneck = bottleneck
        self.norm = norm

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        mixed = (self.bottleneck(x, route) + route.remembered("after_attention")).to(x.dtype)
        normed: Tensor = self.norm(mixed, route)
        return normed


class SkipPath(Adapter):
    """v ← f_n, f_0 = 0, f_j = bottleneck_j(h_j + f_{j−1}): large, a path beside all n blocks.

    h_j is the output of block j, and h_n what arrives at the top, behind the final norm of a family that has
    one. The output is f_n alone: right after the start it is nearly zero.

    Args:
        site: `top`.
        bottlenecks: one a block.
    """

    fits = ("top",)
    reads_layers = True

    def __init__(self, site: Site, bottlenecks: Sequence[Bottleneck]) -> None:
        super().__init__(site)
        self.bottlenecks = nn.ModuleList(bottlenecks)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        assert route.layers is not None
        blocks = [*route.layers[1:-1], x]  # h_1 … h_n, [R, L, d] each
        path: Tensor | None = None
        for hidden, bottleneck in zip(blocks, self.bottlenecks, strict=True):
            assert hidden is not None
            step: Callable[..., Tensor] = bottleneck
            path = step(hidden if path is None else hidden + path.to(hidden.dtype), route)
        assert path is not None
        return path.to(x.dtype)
