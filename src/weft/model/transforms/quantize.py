"""The encoder's linear maps in 8 bits, for answering on a CPU.

    y = W·x + b,  W[o] = s_o·q_o: a scale for each output,  x = s·(q − z): one for all of x, found as it comes

It changes answers: docs/performance.md says by how much, and what it gains. Nothing else in a model is
rounded, neither adapters nor heads; the float32 weights stay where they are, since adapters, merging and
files read them.
"""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.encoder.anatomy import anatomy_of
from weft.encoder.weave import woven_of
from weft.encoder.woven import Inner, WovenLinear
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model


class Int8Map:
    """y = s·S·(Q·(q − z)) + b: the products of whole numbers, [.., i] → [.., o]."""

    def __init__(self, linear: nn.Linear) -> None:
        weight = linear.weight.detach()
        scale = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
        zero = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch will have another way to make them one day
            whole = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)
        bias = None if linear.bias is None else linear.bias.detach()
        self.packed: Any = torch.ops.quantized.linear_prepack(whole, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """The map of x in its dtype; NaN in rows that are not finite.

        All 8 bits of it are used, where 7 would do for CPUs that sum pairs in 16 bits.
        """
        whole = x.float()  # autocast's halves have no such product
        sound: Tensor | None = None
        if not bool(whole.sum().isfinite()):
            # one scale for all of x: a row that is not finite would spoil the others, and nobody see it
            sound = whole.isfinite().all(-1, keepdim=True)
            whole = torch.where(sound, whole, 0.0)
        found: Tensor = torch.ops.quantized.linear_dynamic(whole, self.packed, not _sums_in_32_bits())
        if sound is not None:
            found = torch.where(sound, found, torch.nan)
        return found.to(x.dtype)


@torch.no_grad()
def quantize(model: Model) -> Model:
    """A copy of a model on the CPU that answers with the maps of its blocks in int8; it stays as it is."""
    device = next(model.parameters()).device
    if device.type != "cpu":
        raise WeftError(f"quantize: the model is on {device}; expected the CPU: call model.cpu() first")
    smaller = copy.deepcopy(model).requires_grad_(False).eval()
    for encoder in smaller.encoders:
        for module in encoder.get_submodule(anatomy_of(encoder).blocks).modules():
            if isinstance(module, nn.Linear):
                _put_in(module, Int8Map(module))
    return smaller


def _put_in(module: Any, mapped: Inner) -> None:
    """Let a map run as this, its adapters around it as before."""
    woven = woven_of(module)
    if isinstance(woven, WovenLinear):
        woven.inner = mapped
    else:
        module.forward = mapped


def _sums_in_32_bits() -> bool:
    """Whether the CPU adds products of 8 bits without an overflow (VNNI)."""
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())
