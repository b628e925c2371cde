"""Files for the test servers of GLUE and SuperGLUE: written from predictions, and checked."""

from weft.registry import Registry
from weft.submission.benchmark import Benchmark

BENCHMARKS: Registry[Benchmark] = Registry(
    "benchmark",
    {"glue": "weft.submission.glue:GLUE", "superglue": "weft.submission.superglue:SUPERGLUE"},
)

__all__ = ["BENCHMARKS", "Benchmark"]
