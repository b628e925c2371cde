"""Conditional layer norm: weight and bias are modulated by the task's vector (CA-MTL, section 3.3.1)."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.adapter import Adapter
from weft.adapters.film import Film
from weft.adapters.task_embedding import Condition
from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule
from weft.encoder.sites import BLOCK_NORM, Site

Form = Literal["code", "paper"]
"""Which equation: that of the released code, or that of the paper."""


class ConditionalNorm(Adapter):
    """Modulates the weight w and the bias b of one of the encoder's norms.

    `code`:  y = x̂⊙((1 + γ(z))⊙w + β(z)) + b, as in the released code: the bias stays.
    `paper`: y = x̂⊙((1 + γ(z))⊙w + b) + β(z), literally eq. 3.3: the norm's bias is added to the weight.

    It is computed as a term, x̂⊙Δw + Δb, that is added to the norm's output. w and b belong to the encoder and
    train if their block does.

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
        self._norm: tuple[Any, ...] = ()

    def bind_norm(self, module: nn.Module) -> None:
        """Keep the norm to read w and b; in a tuple, so that it does not become a submodule."""
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
        bias: Tensor | None = getattr(norm, "bias", None)
        norm_bias = 0.0 if bias is None else bias
        return gamma * norm.weight + norm_bias, beta - norm_bias


class OwnConditionalNorm(StackedModule):
    """A new conditional norm, with w [d] starting at 1 and b [d] at 0, where the encoder has none.

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
        normalized = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        return (normalized * weight[:, None] + bias[:, None]).to(x.dtype)
