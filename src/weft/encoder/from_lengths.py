"""What an encoder computes from the length of its rows alone, kept on the GPU.

Some families make a table of relative positions in every pass, from the length alone, and copy numbers from
the host to do so. A CUDA graph cannot contain such a copy, and an eager pass waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from weft.encoder.bound import HoldsMethods

KEPT_ON = ("cuda",)
"""Where results are kept."""


class FromLengths(HoldsMethods):
    """A method of an encoder's module whose result depends on the length of the rows and nothing else.

    On a GPU it runs once for each length. What it gave then stays as long as the encoder: graphs read it.
    Elsewhere, and while a graph is compiled, it is the method itself.

    Args:
        inner: the method; its first argument is hidden states [R, L, d], or integers [L, L].
        module: the module that it is of.
    """

    def __init__(self, inner: Callable[..., Tensor], module: nn.Module) -> None:
        self.inner, self.module = inner, module
        self._known: dict[tuple[object, ...], Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_known": {}}

    def __call__(self, first: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """What the method gives."""
        device = next(self.module.parameters()).device
        numbers = (*args, *kwargs.values())
        plain = all(x is None or isinstance(x, int) for x in numbers)
        form = first.dim() == (3 if first.is_floating_point() else 2)
        if device.type not in KEPT_ON or torch.compiler.is_compiling() or not plain or not form:
            return self.inner(first, *args, **kwargs)
        key = (device, first.size(-2), numbers)
        if key not in self._known:
            # a tensor made in inference mode could not be used in training later
            with torch.inference_mode(False):
                made = self.inner(first.clone(), *args, **kwargs).to(device)
            # of two threads that compute it at once, both keep one's: a graph may read it already
            self._known.setdefault(key, made)
        return self._known[key]


def keep_from_lengths(encoder: nn.Module, methods: tuple[tuple[str, str], ...]) -> None:
    """Let some methods of an encoder's modules run once for each length.

    Args:
        encoder: a Hugging Face encoder.
        methods: the path of the module and the name of the method.
    """
    for path, name in methods:
        module = encoder.get_submodule(path)
        setattr(module, name, FromLengths(getattr(module, name), module))


def drop_from_lengths(module: nn.Module) -> None:
    """Give a module its own methods back."""
    for name, value in list(module.__dict__.items()):
        if isinstance(value, FromLengths):
            del module.__dict__[name]
