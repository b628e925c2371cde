"""Submission files for the test servers of GLUE and SuperGLUE: writing and checking them."""

from weft.evaluation.submission.benchmark import Benchmark
from weft.registry import Registry

BENCHMARKS: Registry[Benchmark] = Registry(
    "benchmark",
    {
        "glue": "weft.evaluation.submission.glue:GLUE",
        "superglue": "weft.evaluation.submission.superglue:SUPERGLUE",
    },
)

__all__ = ["BENCHMARKS", "Benchmark"]
