"""Compiling a model in pieces: each block of the encoder, the heads, the losses.

A block is small and all blocks are alike: the compiler's work for one serves every other of the same form,
and with lengths left open it serves every length. The whole encoder as one graph takes minutes, each length
anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.fx.experimental import _config as shapes

from weft.encoder.anatomy import anatomy_of
from weft.engines.dress import Dress, Garment
from weft.engines.fused import FusedMaps, groups_of
from weft.errors import WeftError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.model import Model

RECOMPILATIONS = 512
"""Each block of each model is a variant of one piece of code to the compiler, whose own limit is 8."""

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
        config: Any = torch._dynamo.config
        # What is looked up for the rows of a pass hangs on an adapter, and has as many rows as they are. In
        # training these are few numbers, and open ones take twice the graphs; answers have any.
        config.force_nn_module_property_static_shapes = fused
        config.recompile_limit = max(config.recompile_limit, RECOMPILATIONS)
        config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, 8 * RECOMPILATIONS)
        # as many rows as tokens are so by chance: taken for one number, the next batch compiles all anew
        shapes.use_duck_shape = False
        device = next(model.parameters()).device
        # on a GPU torch's own dropout draws four numbers at a time, a compiled one throws three away
        options: dict[str, Any] = {"fallback_random": device.type == "cuda"}
        self._model = model
        self._blocks = [block for encoder in model.encoders for block in blocks_of(encoder)]
        self._under = Dress(list(garments_of(model, fused, device.type == "cuda")))
        for block in self._blocks:
            block.compile(dynamic=True, options=options)
        self._calls = [block._compiled_call_impl for block in self._blocks]
        written = {name: getattr(type(model), name).__get__(model) for name in PIECES}
        self._pieces = {
            name: torch.compile(piece, dynamic=True, options=options) for name, piece in written.items()
        }
        self.on()

    def on(self) -> None:
        """Run compiled, one pass at a time: what is under the blocks keeps tensors of a pass on modules."""
        with self._model.lock:
            self._model.takes_turns = True
            self._under.on()
            for block, call in zip(self._blocks, self._calls, strict=True):
                block._compiled_call_impl = call
            for name, piece in self._pieces.items():
                self._model.__dict__[name] = piece

    def remove(self) -> None:
        """Run as it was written."""
        with self._model.lock:
            self._under.remove()
            for block in self._blocks:
                block._compiled_call_impl = None
            for name in self._pieces:
                self._model.__dict__.pop(name, None)
            self._model.takes_turns = False


def garments_of(model: Model, fused: bool, gpu: bool) -> Iterator[Garment]:
    """What a model wears under its compiled pieces, each on already.

    Args:
        model: the model.
        fused: see `Compiled`.
        gpu: whether it runs on a GPU.
    """
    from weft.engines.attention import AttentionByLength
    from weft.engines.dropout import FusedDropout
    from weft.engines.gelu import CheapGelu
    from weft.engines.joined import JoinedMaps
    from weft.engines.tables import BiasTables

    encoders = model.encoders
    joins = model.kernels == "auto"
    joined = JoinedMaps([maps for one in encoders for maps in groups_of(one)] if joins else [])
    yield joined
    if fused:
        yield from (FusedMaps(one, but=joined.modules) for one in encoders)
    if gpu:
        # blocks that run again in the backward would find what a later pass looked up
        again = any(getattr(module, "gradient_checkpointing", False) for module in model.encoder.modules())
        if model.kernels == "auto" and not again:
            yield BiasTables(model, but=joined.adapters)
        if not again:
            yield FusedDropout(model, [block for one in encoders for block in blocks_of(one)])
        yield CheapGelu(model.encoder)
        yield AttentionByLength(model.encoder)
