"""DoRA: the rows of an updated weight, each normalized and given a learned magnitude (Liu et al., 2024)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.lora import LoraAdapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site

SMALLEST = 1e-30
"""The smallest ‖·‖² of a row: W and the update may cancel, and rounding may go below zero."""


class DoraAdapter(LoraAdapter):
    """y = g_t∘(W·x + s·B_t·A_t·x) + b, g_t = m_t/‖W + s·B_t·A_t‖, the norm of each row.

    A [S, r, i] and B [S, o, r] start as LoRA's, m [S, o] at ‖W‖: g is exactly 1, so the initial model equals
    the base exactly. As in the paper (section 4.3) and in PEFT, no gradient flows through the norm. In
    training it is computed in every pass, from small products and never from a whole updated weight:

        ‖W + s·B·A‖² = ‖W‖² + Σ_r B∘(2s·W·Aᵀ + s²·B·(A·Aᵀ))

    In inference g is constant. It is kept, and computed again only if a parameter may have changed: its
    version, which every write to it increases, is a different one, or there was a pass with gradients or a
    captured step, after which optimizers count no versions. Dropout is applied to the input of the update
    alone; PEFT applies it to that of W too.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        slots: the slots of A, B and m.
        rank: r.
        scale: s.
        dropout: dropout probability of the update's input, in training.
        seed: the random seed of A's initial values.

    Attributes:
        fresh: whether the kept gains belong to the present parameters.
    """

    fits = LINEAR
    scales = True
    keeps = True

    def __init__(self, site: Site, slots: Slots, rank: int, scale: float, dropout: float, seed: int) -> None:
        super().__init__(site, slots, rank, scale, dropout, seed)
        self.stack("m", (site.out_width,), slots, "norm")
        nn.init.ones_(self.get_parameter("m"))  # until `bind_map`
        shape = self.get_parameter("m").shape
        self.register_buffer("_squares", torch.ones(site.out_width), persistent=False)  # ‖W‖², [o]
        self.register_buffer("_gain", torch.ones(shape), persistent=False)  # g, [S, o]
        self.register_buffer("_shift", torch.zeros(shape), persistent=False)  # b − g∘b, [S, o]
        self.fresh = False
        self._versions: tuple[tuple[int, int], ...] = ()
        self._version_of_weight = -1
        self._map: tuple[nn.Linear, ...] = ()

    @torch.no_grad()
    def bind_map(self, module: nn.Linear) -> None:
        """Keep the map, in a tuple so that it does not become a submodule; m starts at ‖W‖."""
        self._map = (module,)
        self._follow_weight()
        if not module.weight.is_meta:
            self.get_parameter("m").copy_(self.get_buffer("_squares").sqrt())

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`; what was kept for inference is computed again after training."""
        super().train(mode)
        if mode:
            self.fresh = False
            self._follow_weight()
        return self

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]; `add_to`, which has y already, saves a product."""
        y = F.linear(x, self._weight(), self._bias())
        return self.add_to(y, x, route) - y

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """g∘(y + s·B·A·x) + (b − g∘b), [R, L, o]; y is the output of the map itself."""
        gain, shift = self._gains()
        y = self._update(x, route, y)
        rows, moved = self.of_rows(gain, "m", route)[:, None], self.of_rows(shift, "m", route)[:, None]
        if y.dtype == rows.dtype:
            return torch.addcmul(moved, y, rows)
        return (y * rows + moved).to(y.dtype)  # g is near 1: in half precision it would lose its change

    def can_join(self) -> bool:
        """See `Adapter`: the joined product has no factor on its output."""
        return False

    def refresh(self) -> None:
        """See `Adapter`: compute g again if a parameter has changed.

        While a whole model is compiled, versions cannot be read, and g is computed in the graph.
        """
        compiling = torch.compiler.is_compiling()
        if not compiling:
            if not self._is_whole():
                self.fresh = False
                return
            # with the identity: the parameters of a copy count their versions from the beginning
            read = (*self.parameters(), *self._map[0].parameters())
            versions = tuple((id(parameter), parameter._version) for parameter in read)
            if self.fresh and versions == self._versions:
                return
            self._versions = versions
            self._follow_weight()
        with torch.inference_mode(False), torch.no_grad():
            gain, shift = self._computed(apart=True)
            self.get_buffer("_gain").copy_(gain)  # in place: captured passes read it where it lies
            self.get_buffer("_shift").copy_(shift)
        if gain.is_cuda and not compiling and not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream().synchronize()  # a second thread may read it on a different stream
        self.fresh = True

    def outdate(self) -> None:
        """See `Adapter`."""
        self.fresh = False

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor] | None:
        """None: the update has a full rank."""
        return None

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = g∘(W + s·B·A) − W, [o, i]."""
        weight = self._weight()
        updated = weight + self.slot("B", task) @ self.slot("A", task) * self.scale
        gain = self.slot("m", task) / updated.norm(dim=1).clamp(min=SMALLEST**0.5)
        return gain[:, None] * updated - weight, None

    def inner_products(self) -> tuple[Tensor | None, Tensor | None] | None:
        """See `Adapter`: from the whole updates."""
        return super(LoraAdapter, self).inner_products()

    def factors(self, task: int) -> tuple[Tensor, Tensor, Tensor]:
        """s·B [o, r], A [r, i] and m [o] of one task, as PEFT holds them with a scale of 1."""
        return self.slot("B", task) * self.scale, self.slot("A", task), self.slot("m", task)

    def _gains(self) -> tuple[Tensor, Tensor]:
        """g and b − g∘b, [S, o] each: kept ones in inference, else with a gradient for m."""
        trains = torch.is_grad_enabled() and self.get_parameter("m").requires_grad
        if self.fresh and not self.training and not trains:
            return self.get_buffer("_gain"), self.get_buffer("_shift")
        if trains and not torch.compiler.is_compiling():
            self.fresh = False  # a step may follow, and fused optimizers count no versions
        return self._computed()

    def _computed(self, apart: bool = False) -> tuple[Tensor, Tensor]:
        gain = self.get_parameter("m") / self._norms(apart)
        bias = self._bias()
        return gain, torch.zeros_like(gain) if bias is None else bias - gain * bias

    @torch.no_grad()
    def _norms(self, apart: bool) -> Tensor:
        """‖W + s·B_t·A_t‖ of every slot and row, [S, o], in float32.

        Args:
            apart: whether a slot's bits must not depend on the other slots: one product per slot, all in one
                call.
        """
        with torch.autocast(self.get_buffer("_squares").device.type, enabled=False):
            weight = self._weight().float()
            down, up = self.get_parameter("A").float(), self.get_parameter("B").float()
            squares = self.get_buffer("_squares")
            if self._map[0].weight.requires_grad:
                squares = weight.square().sum(1)
            if apart:
                weight = weight.clone()  # aligned: the bits of this product depend on where a file was mapped
                crossed = torch.bmm(weight.expand(down.size(0), -1, -1), down.transpose(1, 2))
            else:
                crossed = F.linear(down.flatten(0, 1), weight).unflatten(0, down.shape[:2]).transpose(1, 2)
            inner = torch.bmm(down, down.transpose(1, 2))  # A·Aᵀ, [S, r, r]
            grown = 2 * self.scale * crossed + self.scale**2 * torch.bmm(up, inner)  # [S, o, r]
            return (squares + (up * grown).sum(-1)).clamp(min=SMALLEST).sqrt()

    def _follow_weight(self) -> None:
        """Compute ‖W‖² again if W has changed. A rounded copy of W (`Bf16Weights`) is not a change."""
        weight = self._map[0].weight if self._map else None
        if weight is None or weight.is_meta or not self._is_whole():
            return
        if weight._version != self._version_of_weight:
            self._version_of_weight = weight._version
            with torch.inference_mode(False), torch.no_grad():
                self.get_buffer("_squares").copy_(self._weight().float().square().sum(1))

    def _is_whole(self) -> bool:
        """Whether the map's weight is in one piece; a sharded one is so only while its block runs."""
        return type(self._map[0].weight.data) is Tensor

    def _weight(self) -> Tensor:
        """W, [o, i]: the site's rows of the map."""
        return self.site.rows(self._map[0].weight.detach())

    def _bias(self) -> Tensor | None:
        """b, [o]: the site's part of the map's bias."""
        bias: Tensor | None = self._map[0].bias
        return None if bias is None else self.site.rows(bias)
