"""The `forward` of woven blocks: the block with its adapters, or the stored output of a trunk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from weft.core.route import RouteHolder
from weft.encoder.checkpointing import checkpoint_of
from weft.encoder.woven import Inner, WovenValue

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter


class BlockForm:
    """The form of a block's output, which is the same for all blocks of an encoder.

    Attributes:
        rest: the number of items after the hidden states; None: the output is a tensor, not a tuple; -1: no
            block has run yet.
    """

    def __init__(self) -> None:
        self.rest: int | None = -1

    def learn(self, output: Any) -> None:
        """Record the form of a block's output."""
        self.rest = None if isinstance(output, Tensor) else len(output) - 1

    def of(self, hidden: Tensor) -> Any:
        """Return hidden states in the form of a block's output."""
        assert self.rest != -1, "a trunk is used by the model that made it, whose blocks have run before"
        return hidden if self.rest is None else (hidden, *[None] * self.rest)


class WovenBlock(WovenValue):
    """A value site that stores the block's input in the route while the block runs.

    Args:
        inner: the block's original forward, which does not checkpoint by itself.
        block: the block.
        holder: holds the route.
        adapters: the adapters that replace its output.
        collect: the output's index among the collected layers, if it is collected.
        number: the block's number, from 0.
        form: the form of the output of this encoder's blocks.
    """

    def __init__(
        self,
        inner: Inner,
        block: nn.Module,
        holder: RouteHolder,
        adapters: Sequence[Adapter],
        collect: int | None,
        number: int,
        form: BlockForm,
    ) -> None:
        super().__init__(inner, holder, adapters, collect)
        self.block = block
        self.number = number
        self.form = form

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the block, checkpointed if it is to be."""
        checkpoint = checkpoint_of(self.block)
        if checkpoint is not None:
            return checkpoint(partial(self.once, **kwargs), *args)
        return self.once(*args, **kwargs)

    def once(self, *args: Any, **kwargs: Any) -> Any:
        """Run the block; what the route stores for it is dropped before this returns."""
        route = self.holder.route
        if route is None:
            return self._run(None, *args, **kwargs)
        entered = args[0] if args else kwargs["hidden_states"]
        if route.trunk is not None and self.number < route.trunk.depth:
            return self.form.of(route.trunk.hidden)
        if route.until is not None and self.number >= route.until:
            return self.form.of(entered)
        route.block_input = entered
        route.attention_input = route.block_input  # a norm before the attention overwrites it
        try:
            output = self._run(route, *args, **kwargs)
        finally:  # checkpointing ends a recomputation by an exception
            route.forget_block()
        if route.until is not None:
            self.form.learn(output)
        return output
