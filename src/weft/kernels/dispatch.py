"""Linear maps for rows of several tasks: picks the cheapest of four strategies. Only this module picks one.

A stacked map is weight [S, o, i]; row r of x [R, L, i] uses slot[r], slot [R]:

    y[r] = x[r] · weight[slot[r]]ᵀ

- `reference`: gather one weight per row, then one batched product. The result of a row is bit-identical
  whichever other tasks exist.
- `side`: one product with the maps of all slots side by side, of which each row keeps its slot's part. It is
  cheap while S·o or S·i is small. A task with non-finite weights makes the rows of other tasks non-finite.
- `segments`: rows sorted by slot, one plain product per slot that is present. The host must know how many
  rows each slot has: on a CPU, and not compiled.
- `grouped`: rows sorted by slot, one `torch.nn.functional.grouped_mm` for all: bf16 on CUDA.

All results agree up to rounding. The loop over segments is the only loop over tasks. Nothing here waits for a
device, and the choice does not depend on R or L while a graph is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.errors import WeftError, did_you_mean
from weft.kernels.grouped import add_product, grouped
from weft.kernels.rows import add as add  # re-exported for adapters
from weft.kernels.rows import add_rows as add_rows
from weft.kernels.rows import compute_dtype as compute_dtype
from weft.kernels.rows import is_half as is_half
from weft.kernels.rows import may_overwrite as may_overwrite
from weft.kernels.rows import row_linear as row_linear
from weft.kernels.rows import select as select
from weft.kernels.setting import Setting

Strategy = Literal["reference", "side", "segments", "grouped"]

WIDE_CPU = 96
"""The width of the narrower side from which `segments` is faster in inference on a CPU. Measured with two
cores, float32, MiniLM (384 wide), nine tasks, 36x32, in ms per batch (bare encoder 175): maps to 64 reference
208, segments 210; to 204 reference 293, segments 231. A map to 8 by `reference` costs hardly more than one
plain product (µs: 235 against 210), by `side` 592."""

WIDE_TRAINING_CPU = 32
"""The same in training, where the gradient of the gather has one weight per row. In ms per step: to 8
reference 415, segments 441, side 426; to 64 (one core) reference 969, segments 836; to 204 reference 1803,
segments 1324."""

ROWS_PER_SEGMENT = 2
"""The mean number of rows per segment from which `segments` is chosen: with one row each it is not faster."""

GROUPED_CUDA = 32
"""The width of the narrower side from which `grouped` is chosen on CUDA. For narrower maps a batched product
is bound by reading x as well; and the grouped one of width 8 failed with an illegal address (H200, torch
2.11, backward)."""

SIDE_CUDA = 256
"""The S·narrow up to which `side` is chosen on CUDA. Up to this size both products are bound by reading x and
writing y, whatever their number of columns."""


class Mix(NamedTuple):
    """Which slot each row uses, and what is known about the rows' order.

    Attributes:
        slot: [R].
        ends: the cumulative number of rows up to and including each slot, [S]; None if rows are not sorted by
            slot or `grouped` cannot run.
        counts: the number of rows of each slot, if rows are sorted by slot and the host knows it.
        setting: `auto`, or `reference` to force that strategy.
    """

    slot: Tensor
    ends: Tensor | None = None
    counts: tuple[int, ...] | None = None
    setting: Setting = "auto"


def checked_setting(kernels: str) -> Setting:
    """Return the setting, or raise an error that lists the possible values."""
    if kernels not in get_args(Setting):
        raise WeftError(f"kernels: {kernels!r}; {did_you_mean(kernels, get_args(Setting))}")
    return cast(Setting, kernels)


def choose(
    slots: int, out_width: int, in_width: int, *, device: str, half: bool, trains: bool, ordered: bool
) -> Strategy:
    """Return the cheapest strategy for a stacked map.

    Args:
        slots: S.
        out_width: o.
        in_width: i.
        device: `cpu`, `cuda`, …
        half: whether the product is in bf16.
        trains: whether gradients are needed.
        ordered: whether rows are sorted by slot in the way that the device needs.
    """
    narrow = min(out_width, in_width)
    if device == "cpu":
        wide = WIDE_TRAINING_CPU if trains else WIDE_CPU
        return "segments" if ordered and narrow >= wide else "reference"
    if slots * narrow <= SIDE_CUDA:
        return "side"
    return "grouped" if ordered and half and narrow >= GROUPED_CUDA else "reference"


def wants_order(shapes: Iterable[tuple[int, int, int]], device: torch.device, half: bool) -> bool:
    """Return whether some of these maps, (S, o, i) each, would be faster if rows were sorted by slot."""
    if device.type == "cpu":
        if torch.compiler.is_compiling():
            return False  # one graph for every number of rows per task is worse than a gather
    elif not can_group(device, half):
        return False
    trains = torch.is_grad_enabled()
    return any(
        choose(*shape, device=device.type, half=half, trains=trains, ordered=True) in ("segments", "grouped")
        for shape in shapes
    )


def stacked_linear(x: Tensor, weight: Tensor, mix: Mix | None, bias: Tensor | None = None) -> Tensor:
    """Map each row by its slot's weight: y[r] = x[r] · weight[slot[r]]ᵀ + bias[slot[r]].

    Args:
        x: [R, L, i].
        weight: [S, o, i].
        mix: the rows' slots; None if there is a single slot.
        bias: [S, o], or None.

    Returns:
        [R, L, o].
    """
    if mix is None:
        return row_linear(x, weight, bias)
    strategy = _chosen(x, weight, mix)
    if strategy == "segments":
        return _segments(x, weight, mix, bias)
    if strategy == "side":
        y = _side(x, weight, mix)
    elif strategy == "grouped":
        assert mix.ends is not None
        y = grouped(x, weight, mix.ends, compute_dtype(x))
    else:
        y = torch.bmm(x, select(weight, mix.slot).transpose(1, 2))
    return y if bias is None else add(y, select(bias, mix.slot)[:, None])


def low_rank(
    x: Tensor,
    down: Tensor,
    up: Tensor,
    mix: Mix | None,
    factor: Tensor | None = None,
    scale: float = 1.0,
    onto: Tensor | None = None,
    shift: Tensor | None = None,
) -> Tensor:
    """Apply each row's low-rank map: y[r] = onto[r] + s · ((x[r] · downᵀ + shift) ∘ factor) · upᵀ.

    All low-rank adapters use this function. Under `side` the components of all slots are two products, and
    the mask, the factors and s are applied between them in one multiplication.

    Args:
        x: [R, L, i].
        down: [S, r, i], or [1, r, i] if all slots share it.
        up: [S, o, r], or [1, o, r]; shared if `down` is.
        mix: the rows' slots; None if there is a single slot.
        factor: factors of the components, [S, r] or [1, r], or None.
        scale: s.
        onto: the tensor that the result is added to, [R, L, o]; overwritten where no gradient is needed.
        shift: what is added to the components, [S, r], of the slots of `down`; None: nothing.

    Returns:
        [R, L, o].
    """
    slots, rank = down.shape[:2]
    if mix is None or slots == 1:
        rows = factor if factor is None or factor.size(0) == 1 or mix is None else select(factor, mix.slot)
        low = _scaled(F.linear(x, down[0], None if shift is None else shift[0]), rows, scale)
        return _product(low, up, onto)
    strategy = _chosen(x, down, mix)
    if strategy == "side":
        low = F.linear(x, down.flatten(0, 1), None if shift is None else shift.flatten())  # [R, L, S·r]
        keep = _slot_mask(mix.slot, slots, rank).to(down.dtype)  # [R, S·r]
        if factor is not None:
            keep = keep * factor.expand(slots, -1).flatten()
        return _product(_scaled(low, keep, scale), _beside(up)[None], onto)
    rows = factor if factor is None or factor.size(0) == 1 else select(factor, mix.slot)
    low = _scaled(stacked_linear(x, down, mix, shift), rows, scale)
    if strategy == "reference":
        return _product(low, select(up, mix.slot), onto)
    y = stacked_linear(low, up, mix)
    return y if onto is None else add(onto, y)


def shared_linear(x: Tensor, weight: Tensor, onto: Tensor | None = None) -> Tensor:
    """Map all rows by one weight: y = onto + x·weightᵀ, in one pass over `onto` where possible.

    Args:
        x: [R, L, i].
        weight: [o, i].
        onto: [R, L, o], or None; overwritten where no gradient is needed.
    """
    return _product(x, weight[None], onto)


def can_group(device: torch.device, half: bool) -> bool:
    """Return whether `grouped` runs without the host: in bf16, from Hopper on (else the host loops)."""
    if device.type != "cuda" or not half or not hasattr(F, "grouped_mm"):
        return False
    capability: Any = torch.cuda.get_device_capability(device)
    return bool(capability[0] in (9, 10))


def _chosen(x: Tensor, weight: Tensor, mix: Mix) -> Strategy:
    """Call `choose` for these tensors."""
    if mix.setting == "reference":
        return "reference"
    slots, out_width, in_width = weight.shape
    ordered = mix.ends is not None
    if x.device.type == "cpu":
        ordered = False
        if not torch.compiler.is_compiling() and mix.counts is not None:
            present = sum(count > 0 for count in mix.counts)
            ordered = x.size(0) >= ROWS_PER_SEGMENT * present
    return choose(
        slots,
        out_width,
        in_width,
        device=x.device.type,
        half=is_half(x),
        trains=torch.is_grad_enabled(),
        ordered=ordered,
    )


def _segments(x: Tensor, weight: Tensor, mix: Mix, bias: Tensor | None) -> Tensor:
    """Compute one product per slot that has rows; the rows of a slot are contiguous."""
    assert mix.counts is not None
    # unbind, because the backward of weight[slot] would fill a gradient of all slots for each slot
    maps = weight.unbind(0)
    shifts = [None] * len(maps) if bias is None else list(bias.unbind(0))
    present = [slot for slot, count in enumerate(mix.counts) if count]
    parts = x.split([mix.counts[slot] for slot in present])
    return torch.cat(
        [F.linear(part, maps[slot], shifts[slot]) for part, slot in zip(parts, present, strict=True)]
    )


def _side(x: Tensor, weight: Tensor, mix: Mix) -> Tensor:
    """Compute the maps of all slots as one product, and select each row's part of the output or input."""
    slots, out_width, in_width = weight.shape
    if slots == 1:  # nothing to choose from; see `select` for why an index would be wrong here
        return F.linear(x, weight[0])
    if out_width <= in_width:
        outputs = F.linear(x, weight.flatten(0, 1)).unflatten(-1, (slots, out_width))  # [R, L, S, o]
        index = mix.slot[:, None, None, None].expand(-1, outputs.size(1), 1, out_width)
        return outputs.gather(2, index)[:, :, 0]
    keep = _slot_mask(mix.slot, slots, in_width)[:, None]  # [R, 1, S·i]
    placed = torch.where(keep, x.repeat(1, 1, slots), 0.0)  # [R, L, S·i]
    return F.linear(placed, _beside(weight))


def _slot_mask(slot: Tensor, slots: int, width: int) -> Tensor:
    """Return a mask of the columns that belong to the row's slot, [R, S·width]."""
    owner = torch.arange(slots * width, device=slot.device) // width
    return owner == slot[:, None]


def _beside(weight: Tensor) -> Tensor:
    """Put the slots' maps side by side, [S, o, i] → [o, S·i]."""
    return weight.transpose(0, 1).flatten(1)


def _scaled(low: Tensor, factor: Tensor | None, scale: float) -> Tensor:
    """Return low · factor · scale in the dtype of low; [R, L, r] and [R or 1, r]."""
    if factor is not None:
        return low * (factor if scale == 1.0 else factor * scale)[:, None].to(low.dtype)
    return low if scale == 1.0 else low * scale


def _product(low: Tensor, up: Tensor, onto: Tensor | None) -> Tensor:
    """Return onto + low · upᵀ: [R, L, r] and [R or 1, o, r] → [R, L, o]."""
    if onto is None or onto.size(0) != low.size(0) or onto.dtype != low.dtype:
        y = row_linear(low, up)
        return y if onto is None else onto + y.to(onto.dtype)
    return add_product(onto, low, up.to(low.dtype).transpose(1, 2), may_overwrite(onto))
