"""Gradient checkpointing of woven blocks: a block that runs again in the backward pass runs as it did before.

A woven block reads the route, and the route stores the block's input while the block runs. So the whole woven
block is checkpointed, with its adapters, and the recomputation sees the route of the first pass.

Where Hugging Face checkpoints depends on its version. Before transformers 5.23 it is `__call__` of a block,
which is outside the woven `forward`: nothing is left to do. Since 5.23 it is `forward` of the block's class,
which is inside: `plain_forward` returns the function below it, and `WovenBlock` checkpoints itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from weft.core.route import RouteHolder
from weft.encoder.bound import HoldsMethods

INSIDE = "__call__" not in vars(GradientCheckpointingLayer)
"""Whether Hugging Face checkpoints in a block's `forward`, and not in its `__call__`."""


def plain_forward(block: nn.Module) -> Callable[..., Any]:
    """Return the block's `forward`, bound to it, which does not checkpoint by itself.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> bert = BertModel(BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1))
        >>> plain_forward(bert.encoder.layer[0]).__self__ is bert.encoder.layer[0]
        True
    """
    forward: Any = block.forward
    wrapped = getattr(type(block).forward, "__wrapped__", None)
    if INSIDE and isinstance(block, GradientCheckpointingLayer) and wrapped is not None:
        return MethodType(wrapped, block)
    return forward


def checkpoint_of(block: nn.Module) -> Callable[..., Any] | None:
    """Return the function that checkpoints this block now; None: it is not checkpointed, or from outside.

    A block that is being compiled is checkpointed from outside, by `weft.acceleration.compiled`: the compiler
    cannot trace a checkpointed function that changes the route.
    """
    if not INSIDE or torch.compiler.is_compiling() or not isinstance(block, GradientCheckpointingLayer):
        return None
    return block._gradient_checkpointing_func if block.gradient_checkpointing and block.training else None


class RoutedEnable(HoldsMethods):
    """Hugging Face's `gradient_checkpointing_enable`; recomputed blocks use the route of the first pass."""

    def __init__(self, plain: Callable[..., Any], encoder: nn.Module, holder: RouteHolder) -> None:
        self.plain = plain
        self.encoder = encoder
        self.holder = holder

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Enable checkpointing, then wrap every block's checkpoint function."""
        with warnings.catch_warnings():
            # since transformers 5.23 the old name is deprecated; the new one calls this, if it is replaced
            warnings.filterwarnings("ignore", ".*gradient_checkpointing_enable.*", FutureWarning)
            self.plain(*args, **kwargs)
        for module in self.encoder.modules():
            function = module.__dict__.get("_gradient_checkpointing_func")
            if function is not None and not isinstance(function, RoutedCheckpoint):
                module.__dict__["_gradient_checkpointing_func"] = RoutedCheckpoint(function, self.holder)
            for key, hook in module._forward_hooks.items():
                if getattr(hook, "__name__", None) == "make_inputs_require_grads":
                    # the same, but picklable: Hugging Face's hook is a local function
                    module._forward_hooks[key] = require_grads


def require_grads(module: nn.Module, inputs: Any, output: Tensor) -> None:
    """Make the embeddings require a gradient (a forward hook): a checkpointed block needs such an input."""
    output.requires_grad_(True)


class RoutedCheckpoint(HoldsMethods):
    """A checkpoint function whose recomputation sees the route of the first pass."""

    def __init__(self, plain: Callable[..., Any], holder: RouteHolder) -> None:
        self.plain = plain
        self.holder = holder

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """Checkpoint `function(*args)`."""
        route = self.holder.route

        def under_route(*inputs: Any) -> Any:
            now, self.holder.route = self.holder.route, route
            try:
                return function(*inputs)
            finally:
                self.holder.route = now

        return self.plain(under_route, *args)
