"""Compiling a model in pieces: each block of the encoder, the heads, the losses.

A block is small and all blocks are alike: the compiler's work for one serves every other of the same form,
and with lengths left open it serves every length. The whole encoder as one graph takes minutes, each length
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from weft.acceleration.compiler_options import compiler_options, inductor_options
from weft.acceleration.fused_qkv import FusedMaps, groups_of
from weft.acceleration.patch import Patch, PatchStack
from weft.encoder.anatomy import anatomy_of
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

PIECES = ("answered", "example_losses")
"""The methods of a model that are compiled beside its blocks."""


def blocks_of(encoder: nn.Module) -> list[nn.Module]:
    """The blocks of a Hugging Face encoder, from the lowest on."""
    return list(encoder.get_submodule(anatomy_of(encoder).blocks).children())


def is_compiled(model: Model) -> bool:
    """Whether a model runs under an engine that has compiled it."""
    return PIECES[0] in model.__dict__


def check_free(model: Model) -> None:
    """An error if a model runs under an engine already; before anything is changed."""
    if is_compiled(model):
        raise WeftError("this model runs under another engine already; close that one first")


class Compiled:
    """A model whose pieces are compiled.

    Args:
        model: the model; one of method `separate` must be given batches of one task, and be told it
            (`SeparateBodies.only`).
        fused: whether query, key and value are one product where adapters do not say their components. It
            pays in training, where batches are small; in inference an adapter adds to its map's result in
            place, which it cannot to a part of another. Numbers of rows are then left open for biases too.
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
        calls: list[Any] = [block._compiled_call_impl for block in self._blocks]
        self._calls = [_Piece(call, fused) for call in calls]
        written = {name: getattr(type(model), name).__get__(model) for name in PIECES}
        self._pieces = {
            name: _Piece(torch.compile(piece, dynamic=True, options=options), fused)
            for name, piece in written.items()
        }
        self.apply()

    def apply(self) -> None:
        """Run compiled, one pass at a time: what is under the blocks keeps tensors of a pass on modules."""
        with self._model.lock:
            self._model.takes_turns = True
            self._under.apply()
            self._put_calls()

    def undo(self) -> None:
        """Run as it was written."""
        with self._model.lock:
            self._under.undo()
            self._drop_calls()
            self._model.takes_turns = False

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Inside, nothing is compiled; all else that the model wears stays on."""
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
    """A compiled function; the compiler's options are set while it runs, which is when it is compiled.

    Args:
        call: what `torch.compile` gives.
        static: see `compiler_options`.
    """

    def __init__(self, call: Callable[..., Any], static: bool) -> None:
        self._call, self._static = call, static

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with compiler_options(self._static):
            return self._call(*args, **kwargs)


def patches_of(model: Model, fused: bool, gpu: bool) -> Iterator[Patch]:
    """What a model wears under its compiled pieces, each on already.

    Args:
        model: the model.
        fused: see `Compiled`.
        gpu: whether it runs on a GPU.
    """
    from weft.acceleration.attention import AttentionByLength
    from weft.acceleration.bias_tables import BiasTables
    from weft.acceleration.gelu import CheapGelu
    from weft.acceleration.hashed_dropout import FusedDropout
    from weft.acceleration.joined_maps import JoinedMaps

    encoders = model.encoders
    joins = model.kernels == "auto"
    joined = JoinedMaps([maps for one in encoders for maps in groups_of(one)] if joins else [])
    yield joined
    if fused:
        yield from (FusedMaps(one, but=joined.modules) for one in encoders)
    # blocks that run again in the backward would find what a later pass looked up
    again = any(getattr(module, "gradient_checkpointing", False) for module in model.encoder.modules())
    if gpu:
        if model.kernels == "auto" and not again:
            yield BiasTables(model, but=joined.adapters)
        yield CheapGelu(model.encoder)
        yield AttentionByLength(model.encoder)
    if not again:
        yield FusedDropout(model, [block for one in encoders for block in blocks_of(one)] if gpu else [])
