"""A scale per unit and slot: (IA)³, infused adapter by inhibiting and amplifying (Liu et al., 2022)."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.derived import DerivedAdapter, Tables
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site


class ScaleAdapter(DerivedAdapter):
    """y ← l_t ∘ y, where y is the output of a linear map, W·x + b, or the value `ffn_hidden`.

    l [S, w] holds l_t − 1 and starts at zero, so that the initial model equals the base exactly and weight
    decay pulls towards it.

    Args:
        site: a linear site or `ffn_hidden`, [R, L, w].
        slots: the slots of l.
    """

    fits = (*LINEAR, "ffn_hidden")
    by = "l"
    sources = ("l",)
    vectors = (0,)

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        self.stack("l", (site.out_width,), slots, "weight")
        nn.init.zeros_(self.get_parameter("l"))

    def derive(self, *sources: Tensor) -> Tables:
        """The parameter itself: what is computed together is the look-up by row."""
        return sources

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """At `ffn_hidden`: the scaled value, [R, L, w], in the dtype of x."""
        (change,) = self.row_vectors(route)
        # the change is added: rounding 1 + change to half precision would lose a small change
        return x + (x * change[:, None]).to(x.dtype)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """At a linear map: its scaled output, [R, L, w]; x is not read."""
        return self.forward(y, route)

    def can_merge(self) -> bool:
        """It scales the rows of a weight and its bias, or the columns of the weight that reads the value."""
        return True

    def merge_into(self, task: int, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """diag(l)·W and l∘b; at `ffn_hidden` W·diag(l) and b."""
        scale = 1 + self.slot("l", task)
        if self.site.kind == "ffn_hidden":
            return weight * scale, bias
        return weight * scale[:, None], None if bias is None else bias * scale
