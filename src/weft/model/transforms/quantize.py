"""Quantizes the encoder's linear maps to int8, for inference on a CPU.

    y = W·x + b,   W[o] = S_o·Q_o with one scale per output,   x = s·q with one scale per token

PyTorch's own dynamic quantization has one scale for all of x: an answer then depends on the other texts of
its batch, since one large value makes the steps of all others coarse. Here it depends on its own text alone.

Outputs differ slightly: docs/performance.md says by how much, and what it gains. Adapters and heads are not
quantized. The float32 weights are kept, since adapters, merging and files read them.
"""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.encoder.anatomy import anatomy_of
from weft.encoder.weave import innermost_woven
from weft.encoder.woven import Inner
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model


class Int8Map:
    """y = s·S·(Q·q) + b, with integer products and one scale s per row of x, [.., i] → [.., o]."""

    def __init__(self, linear: nn.Linear) -> None:
        weight = linear.weight.detach()
        scale = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
        zero = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a deprecation warning of torch
            whole = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)
        self.packed: Any = torch.ops.quantized.linear_prepack(whole, None)
        self.bias = None if linear.bias is None else linear.bias.detach().float()

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the map, in the dtype of x; rows that are not finite become NaN.

        All 8 bits of x are used if the CPU sums products in 32 bits; CPUs that sum pairs in 16 bits use 7.
        """
        step, zero = (1.0, 128) if _sums_in_32_bits() else (2.0, 64)
        whole = x.float()  # there is no such product for half precision
        scale = whole.abs().amax(-1, keepdim=True).clamp(min=1e-20) / 127  # NaN stays NaN
        scale = scale + 0 * scale  # and infinite becomes NaN
        # the rows have one scale by now, which is passed as a number: it must not follow from the batch
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            whole / scale, step, zero, self.packed
        )
        y = y * scale if self.bias is None else torch.addcmul(self.bias, y, scale)
        return y.to(x.dtype)


@torch.no_grad()
def quantize(model: Model) -> Model:
    """Return a copy of a model on the CPU with the maps of its blocks in int8; the model is not changed."""
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
    """Replace the computation of a map; its adapters stay."""
    woven = innermost_woven(module)
    if woven is None:
        module.forward = mapped
    else:
        woven.inner = mapped


def _sums_in_32_bits() -> bool:
    """Return whether the CPU adds 8-bit products without an overflow (VNNI)."""
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())
