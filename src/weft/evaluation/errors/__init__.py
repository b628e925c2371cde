"""What a model gets wrong: one analysis per answer type, one file each.

A kind of task decodes its outputs to answer types (`weft.metrics.ANSWER_TYPES`), and each answer type has an
analysis of its errors. So a new kind has error tables without further code, and a new analysis is one file
and one line in `ANALYSES`.
"""

from weft.evaluation.errors.analysis import Analysis
from weft.registry import Registry

_HERE = "weft.evaluation.errors"

ANALYSES: Registry[type[Analysis]] = Registry(
    "analysis of errors",
    {
        "choices": f"{_HERE}.choices:ChoiceErrors",
        "entities": f"{_HERE}.entities:EntityErrors",
        "label_sets": f"{_HERE}.label_sets:LabelSetErrors",
        "labels": f"{_HERE}.labels:LabelErrors",
        "numbers": f"{_HERE}.numbers:NumberErrors",
        "rankings": f"{_HERE}.rankings:RankingErrors",
        "tags": f"{_HERE}.tags:TagErrors",
        "texts": f"{_HERE}.texts:TextErrors",
    },
)
"""The analysis of each answer type."""

__all__ = ["ANALYSES", "Analysis"]
