"""From the row statistics of many runs to tables with honest intervals. numpy and scipy only; no torch.

`compare` is the entry. docs/reference/statistics.md explains what is measured, and what a verdict means.

Example:
    >>> from weft.experiments.statistics import Contrast, compare
    >>> runs = {"lora": {1: rows, 2: …, 3: …}, "full": {1: …, 2: …, 3: …}}  # variant → seed → RunRows
    >>> comparison = compare(runs, [Contrast("lora", "full")])
    >>> comparison.contrasts[0].verdict
    'undecided'
"""

from weft.experiments.statistics.combination import Combination, CombinationTerm
from weft.experiments.statistics.compare import Contrast, against_baseline, compare
from weft.experiments.statistics.results import Comparison, ContrastResult, Difference, Estimate, Needs
from weft.experiments.statistics.targets import AVERAGE, Target, Term, average_target, task_targets

__all__ = [
    "AVERAGE",
    "Combination",
    "CombinationTerm",
    "Comparison",
    "Contrast",
    "ContrastResult",
    "Difference",
    "Estimate",
    "Needs",
    "Target",
    "Term",
    "against_baseline",
    "average_target",
    "compare",
    "task_targets",
]
