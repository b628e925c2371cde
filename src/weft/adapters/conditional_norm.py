"""Conditional layer norm: a norm's affine, moved by the task's vector (CA-MTL, section 3.3.1)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.adapter import Adapter
from weft.adapters.film import Film
from weft.adapters.task_embedding import Condition
from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule
from weft.encoder.sites import BLOCK_NORM, Site

Form = Literal["code", "paper"]
"""Whose equation: that of the released code, or the printed one."""


class ConditionalNorm(Adapter):
    """An existing norm's w and b, moved.

    `code`:  y = x̂⊙((1 + γ(z))⊙w + β(z)) + b, as released: the bias stays.
    `paper`: y = x̂⊙((1 + γ(z))⊙w + b) + β(z), eq. 3.3 to the letter: the norm's own bias is in the weight.

    Written as a term on top of the norm, x̂⊙Δw + Δb, for every row at once. w and b are the encoder's own and
    train where their block does.

    Args:
        site: a norm of a block.
        condition: z'.
        film: γ and β of width d.
        form: which of the two.
    """

    fits = BLOCK_NORM

    def __init__(self, site: Site, condition: Condition, film: Film, form: Form = "code") -> None:
        super().__init__(site)
        self.condition = condition
        self.film = film
        self.form = form
        self._norm: tuple[nn.LayerNorm, ...] = ()

    def bind_norm(self, module: nn.Module) -> None:
        """Take w and b from the norm there; in a tuple, for they are the encoder's and not this module's."""
        assert isinstance(module, nn.LayerNorm)
        self._norm = (module,)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x̂ [R, L, d] → the term, [R, L, d]."""
        weight, bias = self._change(*self.film.scale_and_shift(self.condition(route), route))
        term = x * weight[:, None]
        return term if bias is None else term + bias[:, None]

    def _change(self, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor | None]:
        """Δw and Δb, [R or 1, d] each."""
        (norm,) = self._norm
        if self.form == "code":
            return gamma * norm.weight + beta, None
        own = 0.0 if norm.bias is None else norm.bias
        return gamma * norm.weight + own, beta - own


class OwnConditionalNorm(StackedModule):
    """The same as a norm of its own, w [d] from 1 and b [d] from 0: for a place where the encoder has none.

    Args:
        width: d.
        condition: z'.
        film: γ and β of width d.
        slots: one for all tasks.
        eps: what is added to the variance.
        form: as in `ConditionalNorm`.
    """

    def __init__(
        self, width: int, condition: Condition, film: Film, slots: Slots, eps: float, form: Form = "code"
    ) -> None:
        super().__init__()
        self.condition = condition
        self.film = film
        self.eps = eps
        self.form = form
        for name, start in (("weight", nn.init.ones_), ("bias", nn.init.zeros_)):
            self.stack(name, (width,), slots, "norm")
            start(self.get_parameter(name))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d], in the dtype of x."""
        gamma, beta = self.film.scale_and_shift(self.condition(route), route)
        weight, bias = (1 + gamma) * self.take("weight", route), self.take("bias", route)
        weight, bias = (weight + beta, bias) if self.form == "code" else (weight + bias, beta)
        normalised = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        return (normalised * weight[:, None] + bias[:, None]).to(x.dtype)
