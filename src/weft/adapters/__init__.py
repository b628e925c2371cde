"""The primitive modules, one a file, each with its equation and its shapes."""

from weft.adapters.adapter import Adapter
from weft.adapters.attention import StackedAttention
from weft.adapters.bias import BiasAdapter
from weft.adapters.connection import ParallelAdapter, ResidualAdapter, SerialAdapter
from weft.adapters.feed_forward import StackedFeedForward
from weft.adapters.lhuc import LhucAdapter
from weft.adapters.lora import LoraAdapter
from weft.adapters.projected import Projected, Projection
from weft.adapters.stacked import StackedLinear, StackedNorm
from weft.adapters.task_linear import TaskLinearAdapter
from weft.adapters.task_norm import TaskNormAdapter
from weft.adapters.top import TopLayer, TopStack

__all__ = [
    "Adapter",
    "BiasAdapter",
    "LhucAdapter",
    "LoraAdapter",
    "ParallelAdapter",
    "Projected",
    "Projection",
    "ResidualAdapter",
    "SerialAdapter",
    "StackedAttention",
    "StackedFeedForward",
    "StackedLinear",
    "StackedNorm",
    "TaskLinearAdapter",
    "TaskNormAdapter",
    "TopLayer",
    "TopStack",
]
