"""Building blocks of larger adapters: a linear map and a layer norm per slot."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.core.route import Route
from weft.core.stacked import Init, Slots, StackedModule

STD = 0.02
"""Standard deviation of BERT's initial weights, and of new maps in the PALs code; biases start at zero."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "identity": lambda x: x,
}


def uniform(width: int) -> Init:
    """Return an initializer that is uniform in ±1/√width, as for torch's linear maps."""
    bound = 1 / math.sqrt(width)
    return lambda tensor, generator: tensor.uniform_(-bound, bound, generator=generator)


def slot_sigmoid(x: Tensor) -> Tensor:
    """σ(x) of a small table [S, …], of which no bit of a slot depends on the number of slots.

    On a CPU, PyTorch computes the last elements of a tensor with other instructions than the rest, and these
    may differ in the last bit. Which elements are the last depends on S: a task that joins would change the
    outputs of others. The difference of float64 values is lost when they are rounded.
    """
    return torch.sigmoid(x) if x.is_cuda else torch.sigmoid(x.double()).to(x.dtype)


class StackedLinear(StackedModule):
    """y = W_t·x + b_t, with the slot t of the row's task.

    W [S, o, i] starts at N(0, std²), b [S, o] at zero.

    Args:
        width: i.
        out_width: o.
        slots: the slots of the map.
        seed: the random seed of W's initial values.
        place: its name in the model, which the initial values depend on.
        std: the standard deviation of W's initial values; with 0 they are exactly zero.
    """

    def __init__(
        self, width: int, out_width: int, slots: Slots, seed: int, place: str, std: float = STD
    ) -> None:
        super().__init__()
        self.stack("weight", (out_width, width), slots, "weight")
        self.stack("bias", (out_width,), slots, "bias")
        if std:
            self.start("weight", lambda t, g: t.normal_(0.0, std, generator=g), seed, place)
        else:
            nn.init.zeros_(self.get_parameter("weight"))
        nn.init.zeros_(self.get_parameter("bias"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → [R, L, o]."""
        return self.mapped(x, "weight", route, "bias")


class StackedNorm(StackedModule):
    """y = x̂·w_t + b_t, x̂ = (x − mean)/√(var + ε); w [S, d] starts at 1, b [S, d] at 0.

    The code of PALs starts new norms at N(0, 0.02), by an oversight of the library at that time: a norm with
    weights near zero passes on nearly nothing.

    Args:
        width: d.
        slots: the slots of the norm.
        eps: ε.
    """

    def __init__(self, width: int, slots: Slots, eps: float = 1e-12) -> None:
        super().__init__()
        self.eps = eps
        self.stack("weight", (width,), slots, "norm")
        self.stack("bias", (width,), slots, "norm")
        nn.init.ones_(self.get_parameter("weight"))
        nn.init.zeros_(self.get_parameter("bias"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d], in the dtype of x."""
        normalized = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        y = normalized * self.take("weight", route)[:, None] + self.take("bias", route)[:, None]
        return y.to(x.dtype)
