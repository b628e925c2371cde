"""Merges wide updates into one weight per task, for inference: a grouped product instead of two wide ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.acceleration.patch import Forwards
from weft.core.route import RouteHolder
from weft.encoder.weave import woven_of
from weft.encoder.woven import WovenLinear
from weft.kernels.dispatch import Mix, can_group, stacked_linear

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.model.model import Model

SHARE = 4
"""At most a quarter of the device's free memory holds merged weights; beyond that nothing is merged."""


class MergedMaps(Forwards):
    """Computes y = W_t·x + b_t at frozen maps with a wide update (VeRA), W_t = W + ΔW_t of the row's task.

    An update of rank 1024 of a map that is 768 wide takes more than twice the products of the map itself; its
    merged weight takes none. Rows are sorted by task once per pass (`OrderedBody`). The weights of all tasks
    are computed when this is created, so the model must not be trained while it is applied.

    Args:
        model: the model, frozen.
        maps: the linear maps of its blocks.
        anyway: whether to merge on a device without a grouped product and whatever it takes, for tests.
    """

    def __init__(self, model: Model, maps: Sequence[nn.Linear], anyway: bool = False) -> None:
        self._ordered = model.ordered
        tasks = len(model.tasks)
        wovens = [(linear, woven_of(linear)) for linear in maps]
        merging = [(linear, woven) for linear, woven in wovens if _can_merge(linear, woven)]
        if not anyway and not _fits([linear for linear, _ in merging], tasks):
            merging = []
        self.modules = [linear for linear, _ in merging]
        self._shapes = tuple({(tasks, *linear.weight.shape): None for linear in self.modules})
        places: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = [
            (linear, _Merged(linear, woven, tasks).whole) for linear, woven in merging
        ]
        super().__init__(places)

    def apply(self) -> None:
        """Use the merged weights, and let rows be sorted for them."""
        super().apply()
        self._ordered.maps = (*self._ordered.maps, *self._shapes)

    def undo(self) -> None:
        """Use the map and its adapters."""
        super().undo()
        count = len(self._ordered.maps) - len(self._shapes)
        self._ordered.maps = self._ordered.maps[:count]


def _can_merge(linear: nn.Linear, woven: Any) -> bool:
    """Return whether a map is frozen, has a wide update, and all its updates can be merged."""
    # a map whose computation was replaced, for example by int8, cannot be merged
    if not isinstance(woven, WovenLinear) or getattr(woven.inner, "__self__", None) is not linear:
        return False
    adapters = _adapters(woven)
    if not any(adapter.is_wide() for adapter in adapters):
        return False
    trained = [*linear.parameters(), *(p for adapter in adapters for p in adapter.parameters())]
    if any(parameter.requires_grad for parameter in trained):
        return False
    return all(adapter.weight_delta(0) is not None for adapter in adapters)


def _adapters(woven: WovenLinear) -> list[Adapter]:
    return [adapter for part in woven.parts for adapter in part]


def _fits(maps: Sequence[nn.Linear], tasks: int) -> bool:
    """Return whether the device has a grouped product for these maps, and memory for one weight per task."""
    if not maps or tasks == 1:
        return False
    device = maps[0].weight.device
    if not all(can_group(device, linear.weight.dtype == torch.bfloat16) for linear in maps):
        return False
    free, _ = torch.cuda.mem_get_info(device)
    needed = sum(linear.weight.numel() * linear.weight.element_size() for linear in maps) * tasks
    return SHARE * needed <= free


class _Merged:
    """One map with the updates of every task merged into it.

    Args:
        linear: the map.
        woven: the object that it was woven with.
        tasks: T.
    """

    @torch.no_grad()
    def __init__(self, linear: nn.Linear, woven: WovenLinear, tasks: int) -> None:
        self.linear = linear
        self.holder: RouteHolder = woven.holder
        merged = [_of_task(linear, woven, task) for task in range(tasks)]
        self.weight = torch.stack([weight for weight, _ in merged])  # [T, P·o, i]
        bias = torch.stack([bias for _, bias in merged])  # [T, P·o]
        self.bias = bias if bias.any() else None

    def whole(self, x: Tensor) -> Tensor:
        """[R, L, i] → [R, L, P·o]; without a route, only the map."""
        route = self.holder.adapting
        if route is None:
            return F.linear(x, self.linear.weight, self.linear.bias)
        if route.only is not None:
            bias = None if self.bias is None else self.bias[route.only]
            return F.linear(x, self.weight[route.only], bias)
        mix = Mix(route.task, route.ends, route.counts, route.kernels)
        return stacked_linear(x, self.weight, mix, self.bias)


def _of_task(linear: nn.Linear, woven: WovenLinear, task: int) -> tuple[Tensor, Tensor]:
    """Return the merged weight and bias of one task, in the dtype of the map's weight."""
    weight, dtype, parts = linear.weight.float().clone(), linear.weight.dtype, len(woven.parts)
    bias = weight.new_zeros(weight.size(0)) if linear.bias is None else linear.bias.float().clone()
    for index, adapters in enumerate(woven.parts):
        # before anything is added: the update of a map may depend on the map's own weight
        deltas = [adapter.weight_delta(task) for adapter in adapters]
        for delta in deltas:
            assert delta is not None, "checked in _can_merge"
            for whole, change in zip((weight, bias), delta, strict=True):
                if change is not None:
                    whole.chunk(parts)[index].add_(change)
    return weight.to(dtype), bias.to(dtype)
