"""Bodies turn rows of token ids into hidden states and pooled vectors, under a route."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from weft.core.route import Route, RouteHolder
from weft.encoder.anatomy import anatomy_of, sites_of
from weft.encoder.sites import Site
from weft.encoder.weave import weave
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter


class Body(Protocol):
    """The interface that a model needs.

    Attributes:
        reads_layers: whether an adapter needs `route.layers` to be filled.
        takes_token_types: whether the encoder reads segment ids.
    """

    reads_layers: bool
    takes_token_types: bool

    def encode(self, route: Route, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Hidden states [R, L, d], after `top`, and pooled vectors [R, d]; fills `route.layers`."""
        ...

    def refresh(self) -> None:
        """Bring what adapters keep for inference up to date; `encode` does it too, a captured pass cannot."""
        ...

    def outdate(self) -> None:
        """Mark it as outdated; called after a captured step, which changes parameters without a trace."""
        ...

    def enable_checkpointing(self) -> None:
        """Recompute blocks in the backward pass instead of storing them."""
        ...


class WovenBody:
    """One encoder for all tasks, with adapters woven in.

    Args:
        encoder: a Hugging Face encoder.
        pairs: the adapters and their sites.
    """

    def __init__(self, encoder: nn.Module, pairs: Sequence[tuple[Site, Adapter]] = ()) -> None:
        self.encoder = encoder
        self.holder = RouteHolder()
        self.top = [adapter for site, adapter in pairs if site.kind == "top"]
        self.reads_layers = any(adapter.reads_layers for _, adapter in pairs)
        self.keeping = [adapter for _, adapter in pairs if adapter.keeps]
        self.sites = sites_of(encoder)
        weave(encoder, anatomy_of(encoder), self.sites, pairs, self.holder)
        taken = inspect.signature(type(encoder).forward).parameters
        types = getattr(encoder.config, "type_vocab_size", 0)
        # families without segments ignore token types, so one batch works for every family
        self.takes_token_types = "token_type_ids" in taken and types > 1

    def encode(self, route: Route, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Body`."""
        if not self.takes_token_types:
            inputs = {name: value for name, value in inputs.items() if name != "token_type_ids"}
        if not route.bare:
            for adapter in self.keeping:
                if not adapter.training:
                    adapter.refresh()
        before, self.holder.route = self.holder.route, route
        try:
            if route.trunk is not None and route.layers is not None:
                route.layers[: route.trunk.depth + 1] = route.trunk.collected
            output: Any = self.encoder(**inputs)
            hidden: Tensor = output.last_hidden_state
            top = [] if route.bare or route.until is not None else self.top
            for adapter in top:
                hidden = adapter(hidden, route)
            if top and route.layers is not None:
                route.layers[-1] = hidden  # the top adapters replace the last output
            if getattr(self.encoder, "pooler", None) is None:
                return hidden, hidden[:, 0]
            return hidden, pooled(self.encoder, hidden) if top else output.pooler_output
        finally:
            # None, unless this pass began inside another: outside a pass the encoder runs without adapters
            self.holder.route = before

    def refresh(self) -> None:
        """See `Body`."""
        for adapter in self.keeping:
            adapter.refresh()

    def outdate(self) -> None:
        """See `Body`."""
        for adapter in self.keeping:
            adapter.outdate()

    def enable_checkpointing(self) -> None:
        """See `Body`."""
        encoder: Any = self.encoder
        if not encoder.supports_gradient_checkpointing:
            raise WeftError(f"encoder family {encoder.config.model_type!r} has no gradient checkpointing")
        encoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def pooled(encoder: Any, hidden: Tensor) -> Tensor:
    """Return what the encoder's pooler makes of hidden states, [R, L, d] → [R, d]."""
    if isinstance(encoder.pooler, nn.Linear):  # ALBERT's pooler is a map and an activation
        return encoder.pooler_activation(encoder.pooler(hidden[:, 0]))
    return encoder.pooler(hidden)


class SeparateBodies:
    """One whole encoder per task. Only this class sends rows to separate modules by task.

    Args:
        encoders: the Hugging Face encoder of each task, in the order of the task ids.

    Attributes:
        only: the task of all rows in the following passes, if it is known; None: rows may be of any task.
    """

    def __init__(self, encoders: Sequence[nn.Module]) -> None:
        self.bodies = [WovenBody(encoder) for encoder in encoders]
        self.reads_layers = False
        self.takes_token_types = self.bodies[0].takes_token_types
        self.only: int | None = None

    def encode(self, route: Route, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Body`; the rows of each task run through its encoder, and keep their order in the result."""
        if self.only is not None:
            return self.bodies[self.only].encode(route, inputs)
        encoded: tuple[Tensor, Tensor] = self._encode_by_task(route, inputs)
        return encoded

    # the number of rows per task differs between batches: compiled, every batch would be recompiled
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _encode_by_task(self, route: Route, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        order: list[Tensor] = []
        outputs: list[tuple[Tensor, ...]] = []
        for task in route.task.unique().tolist():
            rows = (route.task == task).nonzero()[:, 0]
            task_route = replace(
                route,
                task=route.task[rows],
                attention_mask=None if route.attention_mask is None else route.attention_mask[rows],
                layers=None if route.layers is None else [None] * len(route.layers),
            )
            hidden, pooled = self.bodies[task].encode(task_route, {k: v[rows] for k, v in inputs.items()})
            order.append(rows)
            outputs.append((hidden, pooled, *(x for x in task_route.layers or () if x is not None)))
        back = torch.cat(order).argsort()
        hidden, pooled, *layers = (torch.cat(p).index_select(0, back) for p in zip(*outputs, strict=True))
        if route.layers is not None:
            route.layers[:] = layers
        return hidden, pooled

    def refresh(self) -> None:
        """See `Body`."""
        for body in self.bodies:
            body.refresh()

    def outdate(self) -> None:
        """See `Body`."""
        for body in self.bodies:
            body.outdate()

    def enable_checkpointing(self) -> None:
        """See `Body`."""
        for body in self.bodies:
            body.enable_checkpointing()
