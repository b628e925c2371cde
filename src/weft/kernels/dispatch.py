"""One product for rows of several tasks: the cheapest of four ways, chosen here and nowhere else.

A stacked map is weight [S, o, i]; row r of x [R, L, i] goes through the slot that it is told, slot [R]:

    y[r] = x[r] · weight[slot[r]]ᵀ

- `reference`: a weight for each row is gathered, then one batched product. What a row gets does not depend
  on which other tasks there are, to the last bit.
- `side`: all slots' maps side by side are one product, and each row keeps its own. Cheap while S·o or S·i is
  small; a task whose weights are not finite spoils the rows of the others.
- `segments`: rows sorted by slot, one plain product for each slot that is present. The host must know how
  many rows each has: on a CPU, and not compiled.
- `grouped`: rows sorted by slot, one product for all by `torch.nn.functional.grouped_mm`: bf16 on CUDA.

All give the same to rounding. The loop over segments is the only one over tasks. Nothing here waits for a
device, and what is chosen does not depend on R or L while a graph is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.errors import WeftError, did_you_mean
from weft.kernels.grouped import add_product, grouped
from weft.kernels.rows import add as add  # adapters find these here too
from weft.kernels.rows import add_rows as add_rows
from weft.kernels.rows import compute_dtype as compute_dtype
from weft.kernels.rows import is_half as is_half
from weft.kernels.rows import may_overwrite as may_overwrite
from weft.kernels.rows import row_linear as row_linear
from weft.kernels.rows import select as select
from weft.kernels.setting import Setting

Strategy = Literal["reference", "side", "segments", "grouped"]

WIDE_CPU = 96
"""The narrower side from which `segments` answers faster on a CPU. Two cores, float32, MiniLM (384 wide),
nine tasks, 36x32, ms a batch (bare encoder 175): maps to 64 reference 208, segments 210; to 204 reference
293, segments 231. A map to 8 costs by `reference` hardly more than one plain product (µs: 235 against 210),
by `side` 592."""

WIDE_TRAINING_CPU = 32
"""The same in training: the gather's gradient is a weight for each row. ms a step: to 8 reference 415,
segments 441, side 426; to 64 (one core) reference 969, segments 836; to 204 reference 1803, segments 1324."""

ROWS_A_SEGMENT = 2
"""The mean rows of a segment from which `segments` is chosen: with one row each it is no faster."""

GROUPED_CUDA = 32
"""The narrower side from which `grouped` is chosen on CUDA. A batched product of narrower maps is bound by
reading x as well; and the grouped one of width 8 ended in an illegal address (H200, torch 2.11, backward)."""

SIDE_CUDA = 256
"""S·narrow up to which `side` is chosen on CUDA: up to there both products are bound by reading x and writing
y, whatever their number of columns."""


class Mix(NamedTuple):
    """Which slot each row uses, and what is known of their order.

    Attributes:
        slot: [R].
        ends: the number of rows that use a slot up to this one, [S]; None where rows are not sorted by slot,
            or `grouped` cannot run.
        counts: how many rows each slot has, where rows are sorted by slot and the host knows it.
        setting: `auto`, or `reference` for that everywhere.
    """

    slot: Tensor
    ends: Tensor | None = None
    counts: tuple[int, ...] | None = None
    setting: Setting = "auto"


def checked_setting(kernels: str) -> Setting:
    """The setting itself, or an error that says what it could have been."""
    if kernels not in get_args(Setting):
        raise WeftError(f"kernels: {kernels!r}; {did_you_mean(kernels, get_args(Setting))}")
    return cast(Setting, kernels)


def choose(
    slots: int, out_width: int, in_width: int, *, device: str, half: bool, trains: bool, ordered: bool
) -> Strategy:
    """The cheapest way for a stacked map.

    Args:
        slots: S.
        out_width: o.
        in_width: i.
        device: `cpu`, `cuda`, …
        half: whether the product is in bf16.
        trains: whether gradients are wanted.
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
    """Whether some of these maps, (S, o, i) each, would be faster if rows were sorted by slot."""
    if device.type == "cpu":
        if torch.compiler.is_compiling():
            return False  # a graph for every number of rows a task is worse than a gather
    elif not _can_group(device, half):
        return False
    trains = torch.is_grad_enabled()
    return any(
        choose(*shape, device=device.type, half=half, trains=trains, ordered=True) in ("segments", "grouped")
        for shape in shapes
    )


def stacked_linear(x: Tensor, weight: Tensor, mix: Mix | None, bias: Tensor | None = None) -> Tensor:
    """Each row through its slot's map: y[r] = x[r] · weight[slot[r]]ᵀ + bias[slot[r]].

    Args:
        x: [R, L, i].
        weight: [S, o, i].
        mix: the rows' slots; None where all use the one slot there is.
        bias: [S, o], or none.

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
) -> Tensor:
    """Down to a few numbers and up again: y[r] = onto[r] + s · (x[r] · downᵀ ∘ factor) · upᵀ, by slot.

    The one place for adapters of low rank: under `side` all slots' components are two products, with the
    mask, the factors and s between them at once.

    Args:
        x: [R, L, i].
        down: [S, r, i], or [1, r, i] if all slots share it.
        up: [S, o, r], or [1, o, r]; shared if `down` is.
        mix: the rows' slots; None where all use the one slot there is.
        factor: on the components, [S, r] or [1, r], or none.
        scale: s.
        onto: what the result is added to, [R, L, o]; overwritten where no gradient is wanted.

    Returns:
        [R, L, o].
    """
    slots, rank = down.shape[:2]
    if mix is None or slots == 1:
        rows = factor if factor is None or factor.size(0) == 1 or mix is None else select(factor, mix.slot)
        low = _scaled(F.linear(x, down[0]), rows, scale)
        return _product(low, up, onto)
    strategy = _chosen(x, down, mix)
    if strategy == "side":
        low = F.linear(x, down.flatten(0, 1))  # [R, L, S·r]
        keep = _own(mix.slot, slots, rank).to(down.dtype)  # [R, S·r]
        if factor is not None:
            keep = keep * factor.expand(slots, -1).flatten()
        return _product(_scaled(low, keep, scale), _beside(up)[None], onto)
    rows = factor if factor is None or factor.size(0) == 1 else select(factor, mix.slot)
    low = _scaled(stacked_linear(x, down, mix), rows, scale)
    if strategy == "reference":
        return _product(low, select(up, mix.slot), onto)
    y = stacked_linear(low, up, mix)
    return y if onto is None else add(onto, y)


def _can_group(device: torch.device, half: bool) -> bool:
    """Whether `grouped` runs without asking the host: bf16 from Hopper on; older ones loop there."""
    if device.type != "cuda" or not half or not hasattr(F, "grouped_mm"):
        return False
    capability: Any = torch.cuda.get_device_capability(device)
    return bool(capability[0] in (9, 10))


def _chosen(x: Tensor, weight: Tensor, mix: Mix) -> Strategy:
    """`choose`, for these tensors."""
    if mix.setting == "reference":
        return "reference"
    slots, out_width, in_width = weight.shape
    ordered = mix.ends is not None
    if x.device.type == "cpu":
        ordered = False
        if not torch.compiler.is_compiling() and mix.counts is not None:
            present = sum(count > 0 for count in mix.counts)
            ordered = x.size(0) >= ROWS_A_SEGMENT * present
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
    """One product for each slot that has rows; they follow one another."""
    assert mix.counts is not None
    # by unbind: the backward of weight[slot] would fill a gradient of all slots for each
    maps = weight.unbind(0)
    shifts = [None] * len(maps) if bias is None else list(bias.unbind(0))
    present = [slot for slot, count in enumerate(mix.counts) if count]
    parts = x.split([mix.counts[slot] for slot in present])
    return torch.cat(
        [F.linear(part, maps[slot], shifts[slot]) for part, slot in zip(parts, present, strict=True)]
    )


def _side(x: Tensor, weight: Tensor, mix: Mix) -> Tensor:
    """All slots' maps as one product: each row keeps its part of the result, or is put in its place."""
    slots, out_width, in_width = weight.shape
    if slots == 1:  # nothing to choose from; see `select` for why an index would be wrong here
        return F.linear(x, weight[0])
    if out_width <= in_width:
        every = F.linear(x, weight.flatten(0, 1)).unflatten(-1, (slots, out_width))  # [R, L, S, o]
        own = mix.slot[:, None, None, None].expand(-1, every.size(1), 1, out_width)
        return every.gather(2, own)[:, :, 0]
    keep = _own(mix.slot, slots, in_width)[:, None]  # [R, 1, S·i]
    placed = torch.where(keep, x.repeat(1, 1, slots), 0.0)  # [R, L, S·i]
    return F.linear(placed, _beside(weight))


def _own(slot: Tensor, slots: int, width: int) -> Tensor:
    """True where a number belongs to the row's slot, [R, S·width]."""
    owner = torch.arange(slots * width, device=slot.device) // width
    return owner == slot[:, None]


def _beside(weight: Tensor) -> Tensor:
    """[S, o, i] → [o, S·i], the slots' maps side by side."""
    return weight.transpose(0, 1).flatten(1)


def _scaled(low: Tensor, factor: Tensor | None, scale: float) -> Tensor:
    """low · factor · scale in the dtype of low; [R, L, r] and [R or 1, r]."""
    if factor is not None:
        return low * (factor if scale == 1.0 else factor * scale)[:, None].to(low.dtype)
    return low if scale == 1.0 else low * scale


def _product(low: Tensor, up: Tensor, onto: Tensor | None) -> Tensor:
    """onto + low · upᵀ: [R, L, r] and [R or 1, o, r] → [R, L, o]."""
    if onto is None or onto.size(0) != low.size(0) or onto.dtype != low.dtype:
        y = row_linear(low, up)
        return y if onto is None else onto + y.to(onto.dtype)
    return add_product(onto, low, up.to(low.dtype).transpose(1, 2), may_overwrite(onto))
