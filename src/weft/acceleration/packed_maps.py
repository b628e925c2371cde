"""Packs the encoder's linear maps for oneDNN, for float32 inference on a CPU.

    y = W·x + b

The numbers differ by rounding only. PyTorch multiplies by MKL, which on an AMD EPYC with AVX-512 reaches 95
GFLOP/s per core, and oneDNN with packed weights 215. The weights are kept beside their packed copies, since
adapters and files read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.acceleration.patch import OwnForwards
from weft.encoder.anatomy import anatomy_of

if TYPE_CHECKING:
    from weft.model.model import Model

SHAPE = (16, 32)
"""Rows and tokens of the pass that is timed."""
GAIN = 1.05
"""A packed model is kept if it is so many times as fast."""
TOLERANCE = 1e-4
"""The largest difference of a product, beside the largest value of the right one."""

STEPS = ((64, 8), (512, 32), (2048, 128))
"""Up to so many rows, the number of rows is rounded up to a multiple of the second number."""
LAST_STEP = 512
"""As above, for more rows."""


def rounded(rows: int) -> int:
    """The number of rows that a product is computed with.

    oneDNN compiles a kernel for every number of rows, which takes a third of a millisecond and half a
    megabyte; rows of zeros are cheaper.
    """
    step = next((step for most, step in STEPS if rows <= most), LAST_STEP)
    return -(-rows // step) * step


class PackedMap:
    """A linear map with packed weights, for inference: [.., i] → [.., o].

    Example:
        >>> packed = PackedMap(torch.nn.Linear(384, 1536))
        >>> packed(torch.ones(2, 3, 384)).shape
        torch.Size([2, 3, 1536])

    Args:
        linear: the map, in float32 on a CPU. Its weights must not change afterwards.

    Raises:
        RuntimeError: this release or build of PyTorch has no such operator.
    """

    def __init__(self, linear: nn.Linear) -> None:
        self._weight = linear.weight.detach()
        self._bias = None if linear.bias is None else linear.bias.detach()
        try:
            self._packed = _reorder(self._weight)
            x = torch.linspace(-1, 1, 2 * linear.in_features).view(2, -1)
            right = F.linear(x, self._weight, self._bias)
            difference = float((self(x) - right).abs().max() / right.abs().max().clamp(min=1e-6))
        except (AttributeError, NotImplementedError, RuntimeError, TypeError) as wrong:
            raise RuntimeError(f"this PyTorch cannot pack linear maps: {wrong}") from None
        if not difference <= TOLERANCE:
            raise RuntimeError(f"a packed linear map differs by {difference:.1e}")

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the map; inputs of another dtype take PyTorch's own way."""
        if x.dtype != torch.float32 or not x.numel():
            return F.linear(x, self._weight, self._bias)
        flat = x.reshape(-1, x.size(-1))
        rows = len(flat)
        if rounded(rows) != rows:
            flat = F.pad(flat, (0, 0, 0, rounded(rows) - rows))
        return _product(flat, self._packed, self._bias)[:rows].view(*x.shape[:-1], -1)


def _reorder(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


def _product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return y


class PackedMaps(OwnForwards):
    """A patch: the linear maps of a model's blocks run packed; the adapters around them stay.

    Only for inference: no gradients pass, and changed weights are not noticed.

    Args:
        model: the model, in float32 on a CPU.
    """

    def __init__(self, model: Model) -> None:
        places: list[tuple[nn.Module, Callable[..., Any]]] = []
        for encoder in model.encoders:
            for module in encoder.get_submodule(anatomy_of(encoder).blocks).modules():
                if isinstance(module, nn.Linear):
                    places.append((module, PackedMap(module)))
        super().__init__(places)


@torch.no_grad()
def pack_if_faster(model: Model) -> PackedMaps | None:
    """Pack the maps of a model that will only be used for inference, if it then runs faster on this machine.

    Args:
        model: the model, in eval mode. On a GPU, or in another dtype than float32, it is not changed.

    Returns:
        The packed maps, whose `undo` restores the model; None if it was not changed.
    """
    first = next(model.encoders[0].parameters())
    if first.device.type != "cpu" or first.dtype != torch.float32:
        return None
    before = _seconds(model)
    try:
        packed = PackedMaps(model)
    except RuntimeError:
        return None
    if before / _seconds(model) >= GAIN:
        return packed
    packed.undo()
    return None


def _seconds(model: Model) -> float:
    """The seconds of a pass, after a first one; the fastest of three."""
    rows, length = SHAPE
    inputs = {
        "input_ids": torch.full((rows, length), model.pad_id),
        "attention_mask": torch.ones(rows, length, dtype=torch.long),
        "task": torch.arange(rows) % len(model.tasks),
    }
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        model.run(**inputs)
        taken.append(time.perf_counter() - began)
    return min(taken[1:])
