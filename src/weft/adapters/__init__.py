"""The adapters, one primitive per file, each with its equation and shapes."""

from weft.adapters.adapter import Adapter
from weft.adapters.alignment import FilmAlignment, MatrixAlignment, TaskAlignment
from weft.adapters.attention import StackedAttention
from weft.adapters.bias import BiasAdapter
from weft.adapters.conditional_attention import ConditionalAttention
from weft.adapters.conditional_bottleneck import (
    BlockBottleneck,
    FilmBottleneck,
    ModulatedBottleneck,
    SkipPath,
)
from weft.adapters.conditional_norm import ConditionalNorm, OwnConditionalNorm
from weft.adapters.connection import ParallelAdapter, ResidualAdapter, SerialAdapter
from weft.adapters.cp import CpAdapter
from weft.adapters.derived import DerivedAdapter
from weft.adapters.feed_forward import StackedFeedForward
from weft.adapters.film import Film
from weft.adapters.gate import RankGate
from weft.adapters.hyperformer import HyperAdapter, HyperNetwork
from weft.adapters.lhuc import LhucAdapter
from weft.adapters.lora import LoraAdapter
from weft.adapters.low_rank_bias import LowRankBiasAdapter
from weft.adapters.mixture import HydraAdapter, PolyAdapter
from weft.adapters.projected import Projected, Projection
from weft.adapters.ranked import RankedAdapter
from weft.adapters.reft import ReftAdapter
from weft.adapters.road import RoadAdapter
from weft.adapters.scale import ScaleAdapter
from weft.adapters.stacked import StackedLinear, StackedNorm
from weft.adapters.task_embedding import TaskEmbedding, TransformedEmbedding
from weft.adapters.task_linear import TaskLinearAdapter
from weft.adapters.task_norm import TaskNormAdapter
from weft.adapters.top import TopLayer, TopStack
from weft.adapters.tucker import TuckerAdapter

__all__ = [
    "Adapter",
    "BiasAdapter",
    "BlockBottleneck",
    "ConditionalAttention",
    "ConditionalNorm",
    "CpAdapter",
    "DerivedAdapter",
    "Film",
    "FilmAlignment",
    "FilmBottleneck",
    "HydraAdapter",
    "HyperAdapter",
    "HyperNetwork",
    "LhucAdapter",
    "LoraAdapter",
    "LowRankBiasAdapter",
    "MatrixAlignment",
    "ModulatedBottleneck",
    "OwnConditionalNorm",
    "ParallelAdapter",
    "PolyAdapter",
    "Projected",
    "Projection",
    "RankGate",
    "RankedAdapter",
    "ReftAdapter",
    "ResidualAdapter",
    "RoadAdapter",
    "ScaleAdapter",
    "SerialAdapter",
    "SkipPath",
    "StackedAttention",
    "StackedFeedForward",
    "StackedLinear",
    "StackedNorm",
    "TaskAlignment",
    "TaskEmbedding",
    "TaskLinearAdapter",
    "TaskNormAdapter",
    "TopLayer",
    "TopStack",
    "TransformedEmbedding",
    "TuckerAdapter",
]
