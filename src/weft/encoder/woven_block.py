"""What a woven block's `forward` is: the block with its adapters, or what a trunk gave in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weft.core.route import RouteHolder
from weft.encoder.woven import Inner, WovenValue

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter


class BlockForm:
    """The form in which the blocks of an encoder give their hidden states; all of one encoder have the same.

    Attributes:
        rest: how many things come after them; None: nothing, and they are no tuple; -1: no block has run yet.
    """

    def __init__(self) -> None:
        self.rest: int | None = -1

    def learn(self, output: Any) -> None:
        """See how a block gives its output."""
        self.rest = None if isinstance(output, Tensor) else len(output) - 1

    def of(self, hidden: Tensor) -> Any:
        """Hidden states in the form of a block's output."""
        assert self.rest != -1, "a trunk is of the model that runs it, whose blocks have run once"
        return hidden if self.rest is None else (hidden, *[None] * self.rest)


class WovenBlock(WovenValue):
    """A value site whose route knows, while it runs, what entered the block.

    Args:
        inner: the block's own forward.
        holder: where the route is.
        adapters: what replaces its output.
        collect: its output's place among the collected layers, if it has one.
        number: the block's, from 0.
        form: how the blocks of this encoder give their output.
    """

    def __init__(
        self,
        inner: Inner,
        holder: RouteHolder,
        adapters: Sequence[Adapter],
        collect: int | None,
        number: int,
        form: BlockForm,
    ) -> None:
        super().__init__(inner, holder, adapters, collect)
        self.number = number
        self.form = form

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The block; what the route remembers of it is dropped before it returns."""
        route = self.holder.route
        if route is None:
            return self._run(None, *args, **kwargs)
        entered = args[0] if args else kwargs["hidden_states"]
        if route.trunk is not None and self.number < route.trunk.depth:
            return self.form.of(route.trunk.hidden)
        if route.until is not None and self.number >= route.until:
            return self.form.of(entered)
        route.block_input = entered
        route.attention_input = route.block_input  # a norm before the attention says otherwise
        try:
            output = self._run(route, *args, **kwargs)
        finally:  # checkpointing ends a recomputation by an exception
            route.forget_block()
        if route.until is not None:
            self.form.learn(output)
        return output
