"""Sorts a batch's rows by task while they run through the encoder, if that makes stacked maps cheaper."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.adapters.derived import DerivedAdapter, DerivedTables
from weft.core.route import Route
from weft.core.stacked import StackedModule
from weft.encoder.body import Body
from weft.kernels.dispatch import select, wants_order

Shape = tuple[int, int, int]


@runtime_checkable
class Prepares(Protocol):
    """A module that computes something once for all blocks."""

    def prepare(self, route: Route) -> None:
        """Compute it for a pass, and put it into `route.prepared`.

        Only what runs under an engine, whose passes take turns (`Model.lock`), may put it elsewhere.
        """
        ...

    def forget(self) -> None:
        """Called after the pass: drop what is not stored in the route."""
        ...


def stacked_maps(modules: nn.Module) -> tuple[Shape, ...]:
    """Return the distinct shapes (S, o, i) of maps with one slot per task."""
    shapes: dict[Shape, None] = {}
    for module in modules.modules():
        if isinstance(module, StackedModule):
            for name, stack in module.stacks.items():
                shape = module.get_parameter(name).shape
                if len(shape) == 3 and shape[0] > 1 and stack.slots.is_identity:
                    shapes[shape[0], shape[1], shape[2]] = None
        if isinstance(module, DerivedAdapter):
            shapes |= {shape: None for shape in module.map_shapes() if shape[0] > 1}
    return tuple(shapes)


class OrderedBody:
    """A body whose rows are sorted by task while it runs, if that makes some map faster.

    Args:
        body: the model's body.
        adapters: the adapters that are woven into it.
        tasks: T.
    """

    def __init__(self, body: Body, adapters: nn.Module, tasks: int) -> None:
        self.body = body
        self.tasks = tasks
        derived = DerivedTables(adapters.modules())
        self.maps = stacked_maps(adapters)
        self.prepared: list[Prepares] = [
            *([derived] if derived.groups else []),
            *(module for module in adapters.modules() if isinstance(module, Prepares)),
        ]

    def encode(self, route: Route, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the body's result in the batch's order; fill the requested layers and attentions of `route`.

        Args:
            route: the batch's route, in the batch's order.
            inputs: the encoder's inputs, [R, L] each.
        """
        if not self._gains(route, inputs["input_ids"].device):
            return self._run(route, inputs)
        order = route.task.argsort(stable=True)
        back = order.argsort()
        sorted_route = self._sorted(route, order)
        hidden, pooled = self._run(
            sorted_route, {name: select(value, order) for name, value in inputs.items()}
        )
        if route.layers is not None and sorted_route.layers is not None:
            route.layers[:] = [
                None if layer is None else select(layer, back) for layer in sorted_route.layers
            ]
        if route.attention is not None and sorted_route.attention is not None:
            route.attention.update(
                {name: select(probabilities, back) for name, probabilities in sorted_route.attention.items()}
            )
        return select(hidden, back), select(pooled, back)

    def _run(self, route: Route, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        if route.bare:
            return self.body.encode(route, inputs)
        try:
            for module in self.prepared:
                module.prepare(route)
            return self.body.encode(route, inputs)
        finally:
            for module in self.prepared:
                module.forget()

    def _gains(self, route: Route, device: torch.device) -> bool:
        if route.only is not None or route.bare or route.kernels == "reference" or not self.maps:
            return False
        autocast = torch.is_autocast_enabled(device.type)
        half = autocast and torch.get_autocast_dtype(device.type) == torch.bfloat16
        return wants_order(self.maps, device, half)

    def _sorted(self, route: Route, order: Tensor) -> Route:
        """Return the route of the rows sorted by task, with the rows per task in the form that is needed."""
        task = select(route.task, order)
        on_host = task.device.type == "cpu" and not torch.compiler.is_compiling()
        return replace(
            route,
            task=task,
            attention_mask=None if route.attention_mask is None else select(route.attention_mask, order),
            layers=None if route.layers is None else [None] * len(route.layers),
            attention=None if route.attention is None else {},
            trunk=None if route.trunk is None else route.trunk.of_rows(order),
            counts=_counts(task, self.tasks) if on_host else None,
            ends=None if on_host else _ends(task, self.tasks),
            prepared={},
        )


def _counts(task: Tensor, tasks: int) -> tuple[int, ...]:
    """Return the number of rows of each task; `task` is on the host."""
    return tuple(torch.bincount(task, minlength=tasks).tolist())


def _ends(task: Tensor, tasks: int) -> Tensor:
    """Return the cumulative number of rows up to and including each task, [T], without a device sync."""
    return (task[None] <= torch.arange(tasks, device=task.device)[:, None]).sum(1)
