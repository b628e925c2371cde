"""L0 gates on the components of an update: the hard concrete distribution (Louizos et al., 2018)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.stacked import slot_sigmoid
from weft.core.gate_settings import DECIDED
from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule

if TYPE_CHECKING:
    from weft.core.gate_settings import L0

OPEN, SHUT = DECIDED, -DECIDED
"""α of a gate that is decided: z is then exactly 1 or 0."""

SMALLEST_U = 1e-4
"""Draws are kept this far from 0 and 1, as in DiffPruning."""


def hard_concrete(
    alpha: Tensor, u: Tensor | None, low: float, high: float, temperature: float = 1.0
) -> Tensor:
    """z = min(1, max(0, s·(r − l) + l)), s = σ((log u − log(1 − u) + α)/β); of any shape.

    Args:
        alpha: α.
        u: uniform draws of α's shape; None for the deterministic value after training, s = σ(α).
        low: l < 0.
        high: r > 1.
        temperature: β.
    """
    noisy = None if u is None else (u.log() - (1 - u).log() + alpha) / temperature
    s = slot_sigmoid(alpha) if noisy is None else torch.sigmoid(noisy)
    # not clamp: at the very ends hardtanh has no gradient, as in the authors' code
    return F.hardtanh(s * (high - low) + low, 0.0, 1.0)


def open_probability(alpha: Tensor, low: float, high: float, temperature: float = 1.0) -> Tensor:
    """Return P(z ≠ 0) = σ(α − β·log(−l/r)), which is penalized."""
    return torch.sigmoid(alpha - temperature * math.log(-low / high))


class RankGate(StackedModule):
    """z [S, r], one gate per component of an update of rank r.

    α [S, r] starts at `start`, far open. While there is noise (phase one, in training) z is random; else it
    is the deterministic value from σ(α), which is 1 or 0 for a gate that is decided.

    Args:
        slots: the slots of the gates.
        rank: r.
        settings: the constants and λ.

    Attributes:
        noise: the step's u, [S, r], one number per gate; None outside phase one.
    """

    noise: Tensor | None

    def __init__(self, slots: Slots, rank: int, settings: L0) -> None:
        super().__init__()
        self.settings = settings
        self.stack("alpha", (rank,), slots, "gate")
        nn.init.constant_(self.get_parameter("alpha"), settings.start)
        self.register_buffer("noise", None, persistent=False)

    def forward(self, route: Route) -> Tensor:
        """The gates of each row, [R, r] or [1, r]."""
        return self.of_rows(self.values(self.noise if self.training else None), "alpha", route)

    def values(self, noise: Tensor | None = None) -> Tensor:
        """z of every slot, [S, r]."""
        settings = self.settings
        return hard_concrete(
            self.get_parameter("alpha"), noise, settings.low, settings.high, settings.temperature
        )

    def open_probability(self) -> Tensor:
        """P(z ≠ 0) of every slot, [S, r]."""
        settings = self.settings
        return open_probability(
            self.get_parameter("alpha"), settings.low, settings.high, settings.temperature
        )

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None) -> None:
        """Draw the step's u, the same for all of its rows; with None, gates are deterministic from now on."""
        alpha = self.get_parameter("alpha")
        if generator is None:
            self.noise = None
            return
        # on the CPU whatever the device, so that a seed means the same gates everywhere
        u = torch.rand(alpha.shape, generator=generator).clamp_(SMALLEST_U, 1 - SMALLEST_U)
        if self.noise is None:
            self.noise = u.to(alpha.device)
        else:  # into the same memory: a captured step reads it there
            self.noise.copy_(u, non_blocking=True)

    @torch.no_grad()
    def decide(self) -> None:
        """Open or shut every gate permanently; α no longer trains."""
        alpha = self.get_parameter("alpha")
        shut = alpha < self.settings.threshold
        alpha.copy_(torch.where(shut, SHUT, OPEN))
        alpha.requires_grad_(False)
