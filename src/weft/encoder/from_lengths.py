"""Caches on the GPU what an encoder computes from the length of its rows only.

Some families compute a table of relative positions from the length in every pass, and copy numbers from the
host to do so. A CUDA graph cannot contain such a copy, and an eager pass waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from weft.encoder.bound import HoldsMethods

KEPT_ON = ("cuda",)
"""Device types on which results are cached."""


class FromLengths(HoldsMethods):
    """A method of an encoder's module whose result depends only on the length of the rows.

    On a GPU it runs once per length, and its result lives as long as the encoder: CUDA graphs read it. On
    other devices, and while a graph is compiled, the original method is called.

    Args:
        inner: the method; its first argument is hidden states [R, L, d], or integers [L, L].
        module: the module that the method belongs to.
    """

    def __init__(self, inner: Callable[..., Tensor], module: nn.Module) -> None:
        self.inner, self.module = inner, module
        self._known: dict[tuple[object, ...], Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_known": {}}

    def __call__(self, first: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return the method's result."""
        device = next(self.module.parameters()).device
        numbers = (*args, *kwargs.values())
        plain = all(x is None or isinstance(x, int) for x in numbers)
        expected_dims = first.dim() == (3 if first.is_floating_point() else 2)
        if device.type not in KEPT_ON or torch.compiler.is_compiling() or not plain or not expected_dims:
            return self.inner(first, *args, **kwargs)
        key = (device, first.size(-2), numbers)
        if key not in self._known:
            # a tensor made in inference mode could not be used in training later
            with torch.inference_mode(False):
                result = self.inner(first.clone(), *args, **kwargs).to(device)
            # two threads that compute it at once must use the same tensor: a graph may read it already
            self._known.setdefault(key, result)
        return self._known[key]


def keep_from_lengths(encoder: nn.Module, methods: tuple[tuple[str, str], ...]) -> None:
    """Let some methods of an encoder's modules run once per length.

    Args:
        encoder: a Hugging Face encoder.
        methods: the path of the module and the name of the method.
    """
    for path, name in methods:
        module = encoder.get_submodule(path)
        setattr(module, name, FromLengths(getattr(module, name), module))


def drop_from_lengths(module: nn.Module) -> None:
    """Restore a module's original methods."""
    for name, value in list(module.__dict__.items()):
        if isinstance(value, FromLengths):
            del module.__dict__[name]
