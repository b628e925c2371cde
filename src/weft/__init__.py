"""weft: one pretrained text encoder, many tasks, a few extra parameters for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazy

if TYPE_CHECKING:
    from weft.encoder.load import load_encoder
    from weft.errors import WeftError
    from weft.model import Model, Output
    from weft.tasks.task import Task

__version__ = "0.1.0"
__all__ = ["Model", "Output", "Task", "WeftError", "load_encoder"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Model": "weft.model",
        "Output": "weft.model",
        "Task": "weft.tasks.task",
        "WeftError": "weft.errors",
        "load_encoder": "weft.encoder.load",
    },
)
