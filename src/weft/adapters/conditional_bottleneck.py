"""Conditional bottleneck: down and up projections, modulated by the task's vector (CA-MTL, figure 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.adapters.conditional_norm import OwnConditionalNorm
from weft.adapters.film import Film
from weft.adapters.stacked import StackedLinear
from weft.adapters.task_embedding import Condition
from weft.core.route import Route
from weft.encoder.sites import Site


class FilmBottleneck(nn.Module):
    """U·(D·FiLM(h)) with biases, FiLM from V·z' + c, as in the released code: no activation, no dropout.

    Args:
        condition: z'.
        transform: V and c, [d, d].
        film: γ and β of width d.
        down: D, from d to the inner width, d // 3 in the code.
        up: U, back to d.
    """

    def __init__(
        self,
        condition: Condition,
        transform: StackedLinear,
        film: Film,
        down: StackedLinear,
        up: StackedLinear,
    ) -> None:
        super().__init__()
        self.condition, self.transform, self.film = condition, transform, film
        self.down, self.up = down, up

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        z: Tensor = self.condition(route)
        condition = self.transform(z[:, None], route)[:, 0]
        wide: Tensor = self.up(self.down(self.film(x, condition, route), route), route)
        return wide


class ModulatedBottleneck(nn.Module):
    """Û(z)·(D̂(z)·h) with biases, D̂ and Û formed like R̂ in eq. 3.2: Ŵ(z) = diag(1 + γ(z))·W + β(z)·1ᵀ.

    The paper says that the bottleneck "follows the same transformation as in equation 3.2". That this applies
    to both maps, and that no activation follows either, is our reading of figure 3.3.

    Args:
        condition: z'.
        down: D, from d to the inner width.
        film_down: γ and β of the inner width.
        up: U, back to d.
        film_up: γ and β of width d.
    """

    def __init__(
        self, condition: Condition, down: StackedLinear, film_down: Film, up: StackedLinear, film_up: Film
    ) -> None:
        super().__init__()
        self.condition = condition
        self.down, self.film_down = down, film_down
        self.up, self.film_up = up, film_up

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        z: Tensor = self.condition(route)
        for linear, film in ((self.down, self.film_down), (self.up, self.film_up)):
            gamma, beta = film.scale_and_shift(z, route)
            mapped = linear.mapped(x, "weight", route)  # W·x
            shift = x.sum(-1, keepdim=True) * beta[:, None]
            x = (1 + gamma[:, None]) * mapped + shift + linear.take("bias", route)[:, None]
        return x


Bottleneck = FilmBottleneck | ModulatedBottleneck


class BlockBottleneck(Adapter):
    """v ← CLN(bottleneck(v) + a), a the residual stream after the block's attention: base, at the top block.

    v itself is not added, so the initial model never equals the base.

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

    h_j is the output of block j; h_n is the encoder's output, after the final norm if the family has one. The
    output is f_n only: it is nearly zero at the beginning of training.

    Args:
        site: `top`.
        bottlenecks: one per block.
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
