"""The task as data: which row of a batch belongs to which task, seen by every adapter of a forward pass.

A batch has *rows* [R, L] (what the encoder sees) and *examples* [E] (what the loss sees); choices, windows or
texts encoded apart are several rows of one example. Nothing here, and nothing that uses it, knows a task's
name or loops over tasks. The parameters that a row looks up by its task are in `weft.core.stacked`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from weft.kernels.setting import Setting
from weft.utils.threads import PerThread

if TYPE_CHECKING:
    from weft.model.trunk import Trunk

Memory = Literal["block_input", "attention_input", "after_attention", "ffn_input"]
"""What a route may remember of the block that is running."""


@dataclass(eq=False)
class Route:
    """What the modules of one forward pass know of the batch.

    Gradient checkpointing, which runs blocks again in the backward, keeps the route of the first pass. The
    tensors a route remembers of a block are dropped before that block returns.

    Attributes:
        task: the task id of each row, [R].
        attention_mask: true where a row has a token, [R, L]; None if nothing is padded.
        layers: filled with the embeddings and every block's output, where they were asked for.
        single: the task of all rows, where they have one in common and the host knows it: each parameter is
            then one slot and each map one product, and nothing is gathered.
        attention: filled, where asked for, with the probabilities of the adapters' own attentions by name,
            each [R, heads, L, L].
        bare: whether the adapters are off, and the encoder runs as it would by itself.
        trunk: what the lowest blocks gave for these rows, which then do not run; None: they all run.
        kernels: how rows go through stacked maps: `auto`, or `reference` (see `weft.kernels.dispatch`).
        ends: the number of rows whose task is this one or an earlier, [T], where rows are sorted by task and
            a grouped product can run.
        counts: the number of rows of each task, where rows are sorted by task and the host knows it.
        prepared: what modules have computed for the whole pass before the first block, by their place.
        until: the number of blocks that run, those above hand on what they are given; None: all.
        block_input: what entered the block that is running, [R, L, d].
        attention_input: what its attention reads, [R, L, d]: the block's input in a post-norm encoder, the
            output of norm 1 in a pre-norm one.
        after_attention: the residual stream between its attention and its feed-forward part,
            [R, L, d]: the output of norm 1 in a post-norm encoder, the input of norm 2 in a pre-norm one.
        ffn_input: what its feed-forward part reads, [R, L, d]: the same as `after_attention` in a post-norm
            encoder, the output of norm 2 in a pre-norm one.
    """

    task: Tensor
    attention_mask: Tensor | None = None
    layers: list[Tensor | None] | None = None
    attention: dict[str, Tensor] | None = None
    single: int | None = None
    bare: bool = False
    trunk: Trunk | None = None
    until: int | None = None
    kernels: Setting = "auto"
    ends: Tensor | None = None
    counts: tuple[int, ...] | None = None
    prepared: dict[str, Tensor] = field(default_factory=dict)
    block_input: Tensor | None = None
    attention_input: Tensor | None = None
    after_attention: Tensor | None = None
    ffn_input: Tensor | None = None

    def forget_block(self) -> None:
        """Drop what was remembered of a block."""
        self.block_input = self.attention_input = self.after_attention = self.ffn_input = None

    def remembered(self, name: Memory) -> Tensor:
        """What is remembered under this name of the block that is running, [R, L, d]."""
        value: Tensor | None = getattr(self, name)
        assert value is not None, f"no adapter of this block said that it reads {name}"
        return value

    @property
    def rows(self) -> int:
        """The number of rows R."""
        return self.task.size(0)

    @property
    def only(self) -> int | None:
        """The one task of all rows; None while a graph is compiled, which must serve every mix."""
        return None if torch.compiler.is_compiling() else self.single


class RouteHolder(PerThread):
    """The place where woven modules find the route; each thread has a route of its own.

    Attributes:
        route: the route of the forward pass that this thread is running; None between passes: the encoder is
            the bare one then.
    """

    def __init__(self) -> None:
        self.route: Route | None = None

    @property
    def adapting(self) -> Route | None:
        """The route that adapters run under; None where the encoder runs without them."""
        route = self.route
        return None if route is None or route.bare else route
