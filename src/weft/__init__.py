"""weft: one pretrained text encoder, many tasks, a few extra parameters for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazy

if TYPE_CHECKING:
    from weft.bundle.load import load
    from weft.encoder.load import load_encoder
    from weft.errors import WeftError
    from weft.model import Model
    from weft.output import Output
    from weft.tasks.suites import load_suite
    from weft.tasks.task import Task
    from weft.training.run import Run, train
    from weft.training.settings import Training

__version__ = "0.1.0"
__all__ = [
    "Model",
    "Output",
    "Run",
    "Task",
    "Training",
    "WeftError",
    "load",
    "load_encoder",
    "load_suite",
    "train",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Model": "weft.model",
        "Output": "weft.output",
        "Run": "weft.training.run",
        "Task": "weft.tasks.task",
        "Training": "weft.training.settings",
        "WeftError": "weft.errors",
        "load": "weft.bundle.load",
        "load_encoder": "weft.encoder.load",
        "load_suite": "weft.tasks.suites",
        "train": "weft.training.run",
    },
    modules=("adapters", "data", "encoder", "interop", "methods", "sampling", "tasks"),
)
