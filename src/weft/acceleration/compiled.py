"""Compiles a model in pieces: each block of the encoder, the heads, the losses.

A block is small and all blocks have the same form: one compiled block serves all of them and, with dynamic
lengths, every length. The whole encoder as one graph takes minutes to compile, again for each length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from weft.acceleration.compiler_options import compiler_options, inductor_options
from weft.acceleration.fused_qkv import FusedMaps, groups_of
from weft.acceleration.patch import Patch, PatchStack
from weft.encoder.anatomy import anatomy_of
from weft.encoder.checkpointing import checkpoint_of
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

PIECES = ("answered", "example_losses")
"""The methods of a model that are compiled in addition to its blocks."""


def blocks_of(encoder: nn.Module) -> list[nn.Module]:
    """Return the blocks of a Hugging Face encoder, from the lowest on."""
    return list(encoder.get_submodule(anatomy_of(encoder).blocks).children())


def is_compiled(model: Model) -> bool:
    """Return whether a model runs under an engine that has compiled it."""
    return PIECES[0] in model.__dict__


def check_free(model: Model) -> None:
    """Raise an error if a model already runs under an engine; called before anything is changed."""
    if is_compiled(model):
        raise WeftError("this model already runs under another engine; close that one first")


class Compiled:
    """A model whose pieces are compiled.

    Args:
        model: the model; with method `separate`, batches must have one task, which `SeparateBodies.only` must
            name.
        fused: whether query, key and value are one product where adapters do not define their components.
            This is faster in training, where batches are small. In inference an adapter adds to its map's
            result in place, which is impossible for a slice of a fused result. Numbers of rows are then
            dynamic for biases too.
    """

    def __init__(self, model: Model, fused: bool = True) -> None:
        check_free(model)
        device = next(model.parameters()).device
        options = inductor_options()
        self._model = model
        self._blocks = [block for encoder in model.encoders for block in blocks_of(encoder)]
        self._under = PatchStack(list(patches_of(model, fused, device.type == "cuda")))
        for block in self._blocks:
            block.compile(dynamic=True, options=options)
        self._calls = [_Block(block, fused) for block in self._blocks]
        written = {name: getattr(type(model), name).__get__(model) for name in PIECES}
        self._pieces = {
            name: _Piece(torch.compile(piece, dynamic=True, options=options), fused)
            for name, piece in written.items()
        }
        self.apply()

    def apply(self) -> None:
        """Run compiled, one pass at a time: the patches under the blocks keep a pass's tensors on modules."""
        with self._model.lock:
            self._model.takes_turns = True
            self._under.apply()
            self._put_calls()

    def undo(self) -> None:
        """Run uncompiled."""
        with self._model.lock:
            self._under.undo()
            self._drop_calls()
            self._model.takes_turns = False

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Inside, nothing runs compiled; all other patches of the model stay applied."""
        self._drop_calls()
        try:
            yield
        finally:
            self._put_calls()

    def _put_calls(self) -> None:
        for block, call in zip(self._blocks, self._calls, strict=True):
            block._compiled_call_impl = call
        for name, piece in self._pieces.items():
            self._model.__dict__[name] = piece

    def _drop_calls(self) -> None:
        for block in self._blocks:
            block._compiled_call_impl = None
        for name in self._pieces:
            self._model.__dict__.pop(name, None)


class _Piece:
    """A compiled function; the compiler's options are set while it runs, since it is compiled then.

    Args:
        call: the result of `torch.compile`.
        static: see `compiler_options`.
    """

    def __init__(self, call: Callable[..., Any], static: bool) -> None:
        self._call, self._static = call, static

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with compiler_options(self._static):
            return self._call(*args, **kwargs)


class _Block(_Piece):
    """A compiled block, which is checkpointed as a whole if it is to be.

    Args:
        block: a block on which `compile` was called.
        static: see `compiler_options`.
    """

    def __init__(self, block: nn.Module, static: bool) -> None:
        compiled: Any = block._compiled_call_impl
        super().__init__(compiled, static)
        self._block = block

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        checkpoint = checkpoint_of(self._block)
        if checkpoint is not None:
            return checkpoint(partial(super().__call__, **kwargs), *args)
        return super().__call__(*args, **kwargs)


def patches_of(model: Model, fused: bool, gpu: bool) -> Iterator[Patch]:
    """Yield the patches of a model under its compiled pieces, each of them already applied.

    Args:
        model: the model.
        fused: see `Compiled`.
        gpu: whether it runs on a GPU.
    """
    from weft.acceleration.attached_tables import AttachedTables
    from weft.acceleration.attention import AttentionByLength
    from weft.acceleration.bias_tables import BiasTables
    from weft.acceleration.gelu import CheapGelu
    from weft.acceleration.hashed_dropout import FusedDropout
    from weft.acceleration.joined_maps import JoinedMaps
    from weft.acceleration.merged_maps import MergedMaps

    encoders = model.encoders
    joins = model.kernels == "auto"
    if joins and not fused and gpu:  # in inference
        yield MergedMaps(model, [m for encoder in encoders for maps in groups_of(encoder) for m in maps])
    joined = JoinedMaps([maps for encoder in encoders for maps in groups_of(encoder)] if joins else [])
    yield joined
    if fused:
        yield from (FusedMaps(encoder, but=joined.modules) for encoder in encoders)
    # blocks that are recomputed in the backward would read what a later pass looked up
    again = any(getattr(module, "gradient_checkpointing", False) for module in model.encoder.modules())
    # what is not fused is inference, where no parameter changes
    yield AttachedTables(model, once=not fused, attach=joins and not again)
    if gpu:
        if model.kernels == "auto" and not again:
            yield BiasTables(model, but=joined.adapters)
        yield CheapGelu(model.encoder)
        yield AttentionByLength(model.encoder)
    if not again:
        yield FusedDropout(
            model, [block for encoder in encoders for block in blocks_of(encoder)] if gpu else []
        )
