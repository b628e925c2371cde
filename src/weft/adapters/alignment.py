"""Alignment: transforms the embeddings per task, before the first block (CA-MTL, section 3.3.1)."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.adapters.film import Film
from weft.adapters.task_embedding import Condition
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site


class FilmAlignment(Adapter):
    """v ← (1 + γ(z))⊙v + β(z), as in the released code: without a matrix.

    Args:
        site: `embeddings`.
        condition: z.
        film: γ and β of width d.
    """

    fits = ("embeddings",)

    def __init__(self, site: Site, condition: Condition, film: Film) -> None:
        super().__init__(site)
        self.condition = condition
        self.film = film

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        aligned: Tensor = self.film(x, self.condition(route), route)
        return aligned


class MatrixAlignment(Adapter):
    """v ← v·R̂(z), R̂(z) = R·diag(1 + γ(z)) + 1·β(z)ᵀ (eq. 3.2), R = I + Δ one matrix for all tasks.

    v·R̂ = (1 + γ)⊙(v·R) + (Σ_i v_i)·β, so no row needs a separate matrix. The paper does not say how R is
    initialized. Δ [d, d] starts at zero: otherwise the pretrained blocks would get inputs unlike any they
    were trained on.

    Args:
        site: `embeddings`.
        condition: z.
        film: γ and β of width d.
        slots: one for all tasks.
    """

    fits = ("embeddings",)

    def __init__(self, site: Site, condition: Condition, film: Film, slots: Slots) -> None:
        super().__init__(site)
        self.condition = condition
        self.film = film
        self.stack("delta", (site.out_width, site.out_width), slots, "weight")
        nn.init.zeros_(self.get_parameter("delta"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        gamma, beta = self.film.scale_and_shift(self.condition(route), route)
        delta = self.get_parameter("delta").transpose(1, 2)
        turned = x + self.mapped(x, "delta", route, weight=delta).to(x.dtype)
        aligned = (1 + gamma[:, None]) * turned + x.sum(-1, keepdim=True) * beta[:, None]
        return aligned.to(x.dtype)


class TaskAlignment(Adapter):
    """v ← v·R_t, with one matrix R_t = I + Δ_t per task: the baseline that CA-MTL compares with.

    Δ [S, d, d] starts at zero, so the initial model equals the base exactly.

    Args:
        site: `embeddings`.
        slots: the slots of Δ.
    """

    fits = ("embeddings",)

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        self.stack("delta", (site.out_width, site.out_width), slots, "weight")
        nn.init.zeros_(self.get_parameter("delta"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        delta = self.get_parameter("delta").transpose(1, 2)
        return x + self.mapped(x, "delta", route, weight=delta).to(x.dtype)
