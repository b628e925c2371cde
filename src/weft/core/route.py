"""The route of a forward pass: which row of a batch belongs to which task. Every adapter reads it.

A batch has *rows* [R, L] (the encoder's inputs) and *examples* [E] (the loss's inputs). Choices, windows and
separately encoded texts are several rows of one example. No code here, and none that uses a route, knows a
task's name or loops over tasks. The parameters that a row looks up by its task are in `weft.core.stacked`.
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
"""Names of the tensors that a route may store for the block that is running."""


@dataclass(eq=False)
class Route:
    """The description of a batch that all modules of one forward pass share.

    Gradient checkpointing, which runs blocks again in the backward, keeps the route of the first pass. The
    tensors that a route stores for a block are dropped before that block returns.

    Attributes:
        task: the task id of each row, [R].
        attention_mask: true where a row has a token, [R, L]; None if nothing is padded.
        layers: filled with the embeddings and every block's output, if requested.
        single: the task of all rows, if they have one in common and the host knows it: each parameter is
            then one slot and each map one product, and nothing is gathered.
        attention: filled, if requested, with the attention probabilities of the adapters by name, each
            [R, heads, L, L].
        bare: whether the adapters are off, and the encoder runs without them.
        trunk: the stored output of the lowest blocks for these rows, which then do not run; None: all run.
        kernels: the strategy for stacked maps: `auto`, or `reference` (see `weft.kernels.dispatch`).
        ends: the cumulative number of rows up to and including each task, [T], if rows are sorted by task
            and a grouped product can run.
        counts: the number of rows of each task, if rows are sorted by task and the host knows it.
        prepared: what modules have computed for the whole pass before the first block, by their place.
        tables: the tables of adapters that compute theirs before the first block, by the adapter's number;
            see `weft.adapters.derived`.
        until: the number of blocks that run; the blocks above return their input. None: all run.
        block_input: the input of the block that is running, [R, L, d].
        attention_input: the input of its attention, [R, L, d]: the block's input in a post-norm encoder, the
            output of norm 1 in a pre-norm one.
        after_attention: the residual stream between its attention and its feed-forward network, [R, L, d]:
            the output of norm 1 in a post-norm encoder, the input of norm 2 in a pre-norm one.
        ffn_input: the input of its feed-forward network, [R, L, d]: the same as `after_attention` in a
            post-norm encoder, the output of norm 2 in a pre-norm one.
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
    tables: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)
    block_input: Tensor | None = None
    attention_input: Tensor | None = None
    after_attention: Tensor | None = None
    ffn_input: Tensor | None = None

    def forget_block(self) -> None:
        """Drop the tensors that are stored for a block."""
        self.block_input = self.attention_input = self.after_attention = self.ffn_input = None

    def remembered(self, name: Memory) -> Tensor:
        """Return the tensor that is stored under this name for the block that is running, [R, L, d]."""
        value: Tensor | None = getattr(self, name)
        assert value is not None, f"no adapter of this block declares that it reads {name}"
        return value

    @property
    def rows(self) -> int:
        """The number of rows R."""
        return self.task.size(0)

    @property
    def only(self) -> int | None:
        """The single task of all rows; None while a graph is compiled, which must serve every mix."""
        return None if torch.compiler.is_compiling() else self.single


class RouteHolder(PerThread):
    """Holds the route for woven modules, one per thread.

    Attributes:
        route: the route of the forward pass that this thread is running; None between passes: the encoder
            then runs without adapters.
    """

    def __init__(self) -> None:
        self.route: Route | None = None

    @property
    def adapting(self) -> Route | None:
        """The route that adapters run under; None if the encoder runs without them."""
        route = self.route
        return None if route is None or route.bare else route
