"""The sites that an encoder offers, and how a method picks among them.

The kind of a site decides how an adapter takes part in the forward pass:

- *term* sites: the adapter's result is added, and None adds nothing. At a linear site
  y = W·x + b + Σ adapter(x); at a norm y = norm(x) + Σ adapter(x̂), with x̂ the input normalized without
  weight and bias; at `scores`, Σ adapter(x) is added to the attention scores, x the attention's input.
- *value* sites: the value is replaced, v ← adapter(v), by each adapter in turn. `ffn_hidden` is what the
  feed-forward part's output map reads: the activation of `ffn_in`'s output or, in a gated one, its product
  with the gate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_LINEAR = ("query", "key", "value", "attention_out", "ffn_in", "ffn_out")
"""The linear maps that a block of every family has."""
BLOCK_MAPS = (*BLOCK_LINEAR, "ffn_gate")
"""All linear maps of a block; `ffn_gate` exists where the gate of an FFN has a map of its own."""
LINEAR = (*BLOCK_MAPS, "pooler")
BLOCK_NORM = ("norm_1", "norm_2")
NORM = (*BLOCK_NORM, "embeddings_norm", "final_norm")
VALUE = ("embeddings", "attention_delta", "ffn_hidden", "ffn_delta", "block", "top")
KINDS = (*LINEAR, *NORM, *VALUE, "scores")


@dataclass(frozen=True)
class Site:
    """One place in the encoder where adapters may be woven in.

    Attributes:
        kind: one of `KINDS`.
        layer: the block's number from 0, or None outside the blocks.
        in_width: the width of an adapter's input.
        out_width: the width of an adapter's output.
        path: the module's path from the encoder's root.
        part: (index, number of parts) if the site is a slice of a fused linear map.
        groups: the number of groups of outputs that a fused map has, each with all parts: 1, or the number of
            heads if query, key and value of a head follow each other.
    """

    kind: str
    layer: int | None
    in_width: int
    out_width: int
    path: str
    part: tuple[int, int] = (0, 1)
    groups: int = 1

    @property
    def key(self) -> str:
        """The site's name in `model.adapters`, files and messages: `3/query`, `top`."""
        return self.kind if self.layer is None else f"{self.layer}/{self.kind}"

    def rows(self, whole: Tensor) -> Tensor:
        """Return the site's rows of a tensor with a row per output of its module: [o_module, …] → [o, …]."""
        return self._view(whole).flatten(0, 1)

    def add_rows(self, whole: Tensor, change: Tensor) -> None:
        """Add to the site's rows of such a tensor, in place; `change` is [o, …]."""
        self._view(whole).add_(change.unflatten(0, (self.groups, -1)))

    def set_rows(self, whole: Tensor, rows: Tensor) -> None:
        """Replace the site's rows of such a tensor, in place; `rows` is [o, …]."""
        self._view(whole).copy_(rows.unflatten(0, (self.groups, -1)))

    def _view(self, whole: Tensor) -> Tensor:
        """[o_module, …] → a view [groups, o / groups, …]."""
        index, parts = self.part
        return whole.unflatten(0, (self.groups, parts, -1))[:, index]


class Sites:
    """All sites of one encoder.

    Args:
        family: the encoder's family, for messages.
        width: the width d of the hidden states.
        num_layers: the number of blocks.
        sites: the available sites.
        lacking: for each kind that is missing somewhere, the reason.
        pre_norm: whether a norm precedes its sub-layer, instead of following the residual.
        heads: the number of attention heads of the encoder.
        norm_eps: the ε of the encoder's norms.
    """

    def __init__(
        self,
        family: str,
        width: int,
        num_layers: int,
        sites: Iterable[Site],
        lacking: dict[str, str],
        pre_norm: bool = False,
        heads: int = 1,
        norm_eps: float = 1e-12,
    ) -> None:
        self.family = family
        self.width = width
        self.num_layers = num_layers
        self.pre_norm = pre_norm
        self.heads = heads
        self.norm_eps = norm_eps
        self.lacking = lacking
        self._sites = {(s.kind, s.layer): s for s in sites}

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites.values())

    def leave_out(self, kind: str, reason: str) -> None:
        """Remove a kind; selecting it later is an error that gives the reason."""
        self._sites = {place: site for place, site in self._sites.items() if site.kind != kind}
        self.lacking[kind] = reason

    def available(self, kinds: Sequence[str], layers: str | Sequence[int] = "all") -> list[Site]:
        """The sites of these kinds in these layers that the family has, block by block."""
        return self._pick(kinds, layers)

    def select(self, kinds: Sequence[str], layers: str | Sequence[int] = "all") -> list[Site]:
        """Like `available`, but a kind that is missing in a selected layer is an error with the reason.

        Args:
            kinds: some of `KINDS`.
            layers: a setting as `parse_layers` reads it.
        """
        sites = self._pick(kinds, layers)
        chosen = parse_layers(layers, self.num_layers)
        for kind in kinds:
            in_blocks = kind not in OUTSIDE
            layers_found = {s.layer for s in sites if s.kind == kind}
            missing = (
                [n for n in chosen if n not in layers_found] if in_blocks else [] if layers_found else [None]
            )
            if missing:
                place = f"in layer {missing[0]}" if in_blocks else "anywhere"
                reason = self.lacking.get(kind, "its anatomy has no such place")
                raise WeftError(
                    f"site {kind!r} does not exist {place} of this {self.family} encoder: {reason}. "
                    f"It has: {', '.join(k for k in KINDS if any(s.kind == k for s in self))}"
                )
        return sites

    def _pick(self, kinds: Sequence[str], layers: str | Sequence[int]) -> list[Site]:
        for kind in kinds:
            check_kind(kind)
        chosen = parse_layers(layers, self.num_layers)
        places = [(kind, n) for n in chosen for kind in kinds] + [(kind, None) for kind in kinds]
        return [self._sites[p] for p in places if p in self._sites]


_SHARE = re.compile(r"(top|bottom) (\d+) ?%")

OUTSIDE = ("pooler", "embeddings_norm", "final_norm", "embeddings", "top")
"""The kinds that exist once, not once per block."""


def check_kind(kind: str) -> str:
    """Return the kind, or raise an error that lists the possible kinds."""
    if kind not in KINDS:
        raise WeftError(f"site {kind!r} does not exist; {did_you_mean(kind, KINDS)}")
    return kind


def _as_kinds(value: object) -> object:
    """Accept `query` and `query, value` as well as a list; every name must exist."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if isinstance(value, list | tuple):
        try:
            kinds = tuple(check_kind(str(kind)) for kind in value)
        except WeftError as wrong:
            raise ValueError(str(wrong)) from None
        if not kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"expected one site or more, each once; found {value!r}")
        return kinds
    return value


SiteKinds = Annotated[tuple[str, ...], BeforeValidator(_as_kinds)]
"""A method's setting that names site kinds."""


HALVES = ("top half", "bottom half")


def parse_layers(layers: str | Sequence[int], count: int) -> list[int]:
    """Return the block numbers that a setting selects, ascending.

    The setting is `all`, `top half`, `bottom half`, `top 75%`, `bottom 25%`, a list of numbers, text such as
    `6-11` or `0,2,4-6`, or `not` before any of these. A percentage is rounded down to whole blocks.
    """
    if isinstance(layers, str):
        layers = " ".join(layers.replace("_", " ").split())
        if layers.startswith("not "):
            named = layers.removeprefix("not ")
            share = _SHARE.fullmatch(named)
            percent = int(share[2]) if share else 50 if named in HALVES else 100
            # less than one block excludes none
            excluded = set() if count * percent < 100 else set(parse_layers(named, count))
            if len(excluded) == count:
                raise WeftError(f"layers {layers!r} leaves no layer; the encoder's are 0-{count - 1}")
            return [n for n in range(count) if n not in excluded]
        if share := _SHARE.fullmatch(layers):
            wanted = count * int(share[2]) // 100
            if not wanted or int(share[2]) > 100:
                raise WeftError(
                    f"layers {layers!r} means {wanted} of the encoder's {count}; expected 1 to {count}"
                )
            return list(range(count - wanted, count)) if share[1] == "top" else list(range(wanted))
    if layers == "all":
        return list(range(count))
    if layers in HALVES:
        half = count // 2
        if not half:  # ALBERT with one group of shared weights, for instance
            raise WeftError(f"layers {layers!r} means none of the encoder's {count}; use 'all' instead")
        return list(range(count - half, count)) if layers == "top half" else list(range(half))
    try:
        if isinstance(layers, str):
            numbers: set[int] = set()
            for part in layers.split(","):
                first, dash, last = part.strip().partition("-")
                span = range(int(first), int(last if dash else first) + 1)
                if not span:
                    raise ValueError
                numbers.update(span)
        else:
            numbers = {int(n) for n in layers}
    except ValueError:
        raise WeftError(
            f"layers {layers!r} cannot be read; expected all, top half, bottom half, top 75%, a range such "
            "as 6-11, a list such as 0,2,4-6, or not 0-4"
        ) from None
    if not numbers or min(numbers) < 0 or max(numbers) >= count:
        raise WeftError(f"layers {layers!r} is outside the encoder, whose layers are 0-{count - 1}")
    return sorted(numbers)
