"""The `forward` of woven modules: the original bound method, and the site's adapters around it.

These are plain callables, not modules: they are not part of the encoder's names and state dict, and they are
copied and pickled with the encoder.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.core.route import Memory, Route, RouteHolder
from weft.encoder.bound import HoldsMethods
from weft.encoder.norms import normalized
from weft.kernels.rows import compute_dtype

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter

Inner = Callable[..., Any]


class WovenLinear(HoldsMethods):
    """y = W·x + b + Σ adapter(x), for each equal part of a fused map.

    The input is [R, L, i]; [R, i] at the pooler; or [1, S, i] if all rows share it (DeBERTa's relative
    positions under a shared query map), and then the output is [R, S, o].

    Args:
        inner: the map's original forward.
        holder: holds the route.
        parts: the adapters of each part.
        groups: `Site.groups`.
    """

    def __init__(
        self, inner: Inner, holder: RouteHolder, parts: Sequence[Sequence[Adapter]], groups: int = 1
    ) -> None:
        self.inner = inner
        self.holder = holder
        self.parts = parts
        self.groups = groups

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the map and its terms; without a route, only the map."""
        route = self.holder.adapting
        if route is None:
            return self.inner(x)
        if not torch.is_grad_enabled():
            x = x.to(compute_dtype(x))  # once: autocast would cast x for the map and again for each adapter
        y = self.inner(x)
        if x.dim() == 2:
            return self._add(y[:, None], x[:, None], route)[:, 0]
        return self._add(y, x.expand(route.rows, -1, -1), route)

    def _add(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        if len(self.parts) == 1:
            return add_terms(y, x, self.parts[0], route)
        whole = y if self.groups == 1 else self._sorted(y, self.groups, len(self.parts))
        pieces = whole.chunk(len(self.parts), dim=-1)
        whole = torch.cat(
            [add_terms(p, x, adapters, route) for p, adapters in zip(pieces, self.parts, strict=True)], dim=-1
        )
        return whole if self.groups == 1 else self._sorted(whole, len(self.parts), self.groups)

    @staticmethod
    def _sorted(y: Tensor, outer: int, inner: int) -> Tensor:
        """[R, L, outer · inner · o] → [R, L, inner · outer · o]: what was outermost is now in the middle."""
        return y.unflatten(-1, (outer, inner, -1)).transpose(-2, -3).flatten(-3)


class WovenNorm(HoldsMethods):
    """y = norm(x) + Σ adapter(x̂), x̂ the input normalized without weight and bias (`norms.py`).

    A change of weight and bias is written as a term, x̂·Δweight + Δbias, so that with a zero change the output
    is bit-identical to the base's.
    """

    def __init__(
        self, inner: Inner, holder: RouteHolder, adapters: Sequence[Adapter], norm: nn.Module
    ) -> None:
        self.inner = inner
        self.holder = holder
        self.adapters = adapters
        self.norm = norm
        self.reads = any(a.reads_input for a in adapters)

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the norm and its terms; without a route, only the norm."""
        y = self.inner(x)
        route = self.holder.adapting
        if route is None:
            return y
        return add_terms(y, normalized(x, self.norm) if self.reads else x, self.adapters, route)


class WovenScores(HoldsMethods):
    """scores = q·kᵀ/√d_head + Σ adapter(x) + mask; padding is masked after the term is added.

    The mask may be None, boolean or float, and positional or a keyword argument. It is passed on as
    where(allowed, term, lowest) in the query's dtype.
    """

    def __init__(self, inner: Inner, holder: RouteHolder, adapters: Sequence[Adapter]) -> None:
        self.inner = inner
        self.holder = holder
        self.adapters = adapters
        self.position = list(inspect.signature(inner).parameters).index("attention_mask")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the attention with the masked term in place of its mask."""
        route = self.holder.adapting
        hidden = args[0] if args else kwargs["hidden_states"]
        term = None if route is None else sum_terms(hidden, self.adapters, route)
        if term is None:
            return self.inner(*args, **kwargs)
        if "attention_mask" in kwargs:
            kwargs = {**kwargs, "attention_mask": masked_scores(term, kwargs["attention_mask"], hidden)}
        elif len(args) > self.position:
            mask = masked_scores(term, args[self.position], hidden)
            args = (*args[: self.position], mask, *args[self.position + 1 :])
        else:
            kwargs = {**kwargs, "attention_mask": masked_scores(term, None, hidden)}
        return self.inner(*args, **kwargs)


class WovenValue(HoldsMethods):
    """v ← adapter(v) for each adapter in turn; v is the module's output, or the first of several outputs.

    Args:
        inner: the module's original forward.
        holder: holds the route.
        adapters: the adapters that replace the value.
        collect: the value's index among the collected layers, if it is collected.
        masked: whether the family sets the value to zero where a row is padded; it is then set to zero again
            after the adapters.

    Attributes:
        repeats: whether the module may run several times in a pass; its value is then that of the last run.
    """

    repeats = False

    def __init__(
        self,
        inner: Inner,
        holder: RouteHolder,
        adapters: Sequence[Adapter],
        collect: int | None = None,
        masked: bool = False,
    ) -> None:
        self.inner = inner
        self.holder = holder
        self.adapters = adapters
        self.collect = collect
        self.masked = masked and bool(adapters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module and replace the value; the result has the form of the module's result."""
        route = self.holder.route
        if route is not None and route.trunk is not None and self.collect is not None:
            return route.trunk.hidden  # embeddings, or a module after block 0: the trunk includes them
        return self._run(route, *args, **kwargs)

    def _run(self, route: Route | None, *args: Any, **kwargs: Any) -> Any:
        output = self.inner(*args, **kwargs)
        if route is None:
            return output
        value = output if isinstance(output, Tensor) else output[0]
        for adapter in () if route.bare else self.adapters:
            value = adapter(value, route)
        if self.masked and not route.bare and route.attention_mask is not None:
            value = value.masked_fill(~route.attention_mask[..., None], 0.0)
        layers, number = route.layers, self.collect
        # a block that runs again under gradient checkpointing must not be collected again
        if layers is not None and number is not None and (self.repeats or layers[number] is None):
            layers[number] = value
        return value if isinstance(output, Tensor) else (value, *output[1:])


class WovenInput(HoldsMethods):
    """v ← adapter(v) for each adapter in turn, where v is what a linear map reads.

    Args:
        inner: the map's forward, with its own adapters.
        holder: holds the route.
        adapters: the adapters that replace the value.
    """

    def __init__(self, inner: Inner, holder: RouteHolder, adapters: Sequence[Adapter]) -> None:
        self.inner = inner
        self.holder = holder
        self.adapters = adapters

    def __call__(self, x: Tensor) -> Tensor:
        """Replace the input and apply the map; without a route, only the map."""
        route = self.holder.adapting
        for adapter in () if route is None else self.adapters:
            x = adapter(x, route)
        y: Tensor = self.inner(x)
        return y


class Remember(HoldsMethods):
    """Stores the input and output of a norm in the route.

    Args:
        inner: the norm's forward, with its adapters.
        holder: holds the route.
        entering: the names under which the norm's input is stored.
        leaving: the names under which its output is stored.
    """

    def __init__(
        self, inner: Inner, holder: RouteHolder, entering: Sequence[Memory], leaving: Sequence[Memory]
    ) -> None:
        self.inner = inner
        self.holder = holder
        self.entering = entering
        self.leaving = leaving

    def __call__(self, x: Tensor) -> Tensor:
        """Run the norm, unchanged."""
        y: Tensor = self.inner(x)
        route = self.holder.route
        if route is not None:
            for name in self.entering:
                setattr(route, name, x)
            for name in self.leaving:
                setattr(route, name, y)
        return y


def sum_terms(x: Tensor, adapters: Iterable[Adapter], route: Route) -> Tensor | None:
    """Return Σ adapter(x), or None if no adapter adds anything."""
    total: Tensor | None = None
    for adapter in adapters:
        term = adapter(x, route)
        if term is not None:
            total = term if total is None else total + term
    return total


def add_terms(y: Tensor, x: Tensor, adapters: Iterable[Adapter], route: Route) -> Tensor:
    """Return y + Σ adapter(x), in the dtype of y; y is overwritten where no gradient is needed."""
    for adapter in adapters:
        y = adapter.add_to(y, x, route)
    return y


def masked_scores(term: Tensor, mask: Tensor | None, hidden: Tensor) -> Tensor:
    """Return the term where attention is allowed, the lowest number elsewhere, in the query's dtype.

    Args:
        term: [R or 1, H or 1, L, L].
        mask: None (all allowed), booleans (true: allowed) or floats (below zero: not), [R, 1, 1 or L, L].
        hidden: the attention's input, [R, L, d].
    """
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    term = term.to(dtype)
    if mask is None:
        return term
    allowed = mask if mask.dtype == torch.bool else mask >= 0
    return torch.where(allowed, term, torch.finfo(dtype).min)
