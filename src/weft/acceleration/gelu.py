"""GELU by few operations, for compiled blocks on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import GELUActivation

from weft.acceleration.patch import OwnForwards


def below(x: Tensor) -> tuple[Tensor, Tensor]:
    """Φ(−|x|) and e^(−x²/2), Φ the normal distribution function, [...] float32.

    By 7.1.26 of Abramowitz and Stegun, whose erf is off by at most 1.5e-7:

        Φ(−|x|) = (a₁t + … + a₅t⁵)/2 · e^(−x²/2),  t = 1/(1 + p·|x|/√2)

    The numbers are written out: a compiler takes names of numbers for data.
    """
    bell = torch.exp(-0.5 * (x * x))
    t = 1.0 / (1.0 + 0.23164189 * x.abs())  # p/√2
    sum_ = (((0.5307027145 * t - 0.7265760135) * t + 0.7107068705) * t - 0.142248368) * t + 0.127414796
    return sum_ * t * bell, bell


class _Gelu(torch.autograd.Function):
    """x·Φ(x), computed in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """In the dtype of x."""
        ctx.save_for_backward(x)
        wide = x.float()
        tail, _ = below(wide)
        y = wide * torch.where(wide < 0, tail, 1.0 - tail)
        # no cast that does nothing: torch 2.11 compiles it to a gradient of zero
        return y if x.dtype == torch.float32 else y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """(Φ(x) + x·φ(x)) · g."""
        (x,) = ctx.saved_tensors
        wide = x.float()
        tail, bell = below(wide)
        slope = torch.where(wide < 0, tail, 1.0 - tail) + wide * bell * 0.3989422804  # 1/√(2π)
        return (grads[0].float() * slope).to(x.dtype)


def gelu(x: Tensor) -> Tensor:
    """x·Φ(x) to 3e-7 of |x|."""
    y: Tensor = _Gelu.apply(x)
    return y


class CheapGelu(OwnForwards):
    """The encoder's GELUs by a formula of an exponential and a division, a third of erf's own work.

    A pass over the widest values of a block is bound by its arithmetic otherwise, and not by memory. Only
    where a compiler makes one kernel of it.

    Args:
        encoder: any; GELUs by tanh are left alone.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__((module, gelu) for module in encoder.modules() if _is_exact(module))


def _is_exact(module: nn.Module) -> bool:
    by_erf = isinstance(module, nn.GELU) and module.approximate == "none"
    return by_erf or isinstance(module, GELUActivation)
