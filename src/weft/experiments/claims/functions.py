"""The functions of claims: their arguments, and where their values come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VARIANT, TASK, NUMBER, SERIES, MEASURE = "variant", "task", "number", "series", "measure"
"""The types of arguments. A series has one value per task: NAME, or NAME(VARIANT)."""

SCORES, CURVE, FACTS, TASKS = "scores", "curve", "facts", "tasks"
"""Where values come from: the reported scores, the evaluations during training, single numbers of a run, or
values per task."""


@dataclass(frozen=True)
class Function:
    """A function of claims.

    Attributes:
        name: as in a test.
        arguments: the types of its arguments; a type that ends in `?` may be left out.
        source: where its values come from.
        about: what it is, for documentation and messages.
        exact: whether its value follows from the settings, and does not vary with the seed.
    """

    name: str
    arguments: tuple[str, ...]
    source: str
    about: str
    exact: bool = False

    @property
    def fewest(self) -> int:
        """The number of arguments that cannot be left out."""
        return sum(not argument.endswith("?") for argument in self.arguments)

    @property
    def signature(self) -> str:
        """Its form: `score(variant, task)`, `steps_to(variant, number[, task])`."""
        required = ", ".join(self.arguments[: self.fewest])
        optional = "".join(f"[, {argument[:-1]}]" for argument in self.arguments[self.fewest :])
        return f"{self.name}({required}{optional})"


_ALL = (
    Function("average", (VARIANT,), SCORES, "the average score, in points"),
    Function("score", (VARIANT, TASK), SCORES, "the score of one task, in points"),
    Function("gain", (VARIANT, VARIANT), SCORES, "average(first) − average(second), in points"),
    Function("spread", (VARIANT,), FACTS, "the standard deviation over all metrics of all tasks, in points"),
    Function(
        "steps_to",
        (VARIANT, NUMBER, f"{TASK}?"),
        CURVE,
        "the first evaluated step at which the curve reaches this share of its best value",
    ),
    Function(
        "steps_to_score",
        (VARIANT, NUMBER, f"{TASK}?"),
        CURVE,
        "the first evaluated step at which the curve reaches this score, in points",
    ),
    Function("peak", (VARIANT, f"{TASK}?"), CURVE, "the best value of the curve, in points"),
    Function("last", (VARIANT, f"{TASK}?"), CURVE, "the last value of the curve, in points"),
    Function("fall", (VARIANT, f"{TASK}?"), CURVE, "the best minus the last value of the curve, in points"),
    Function(
        "parameters",
        (VARIANT,),
        FACTS,
        "trained parameters in percent of the encoder; with L0 gates those that are left",
        exact=True,
    ),
    Function(
        "total_ratio", (VARIANT,), FACTS, "what serving all tasks holds, divided by one encoder", exact=True
    ),
    Function("seconds", (VARIANT,), FACTS, "seconds of training"),
    Function("memory", (VARIANT,), FACTS, "the peak of memory in GiB"),
    Function(
        "measure",
        (VARIANT, MEASURE, f"{TASK}?", f"{TASK}?"),
        FACTS,
        "a value of `measures`: of values per task that of the task, of values per pair that of two tasks; "
        "without tasks their mean",
    ),
    Function(
        "best_task_count", (VARIANT, VARIANT), TASKS, "how many tasks the first has at or above the second"
    ),
    Function("task_count", (SERIES, SERIES), TASKS, "for how many tasks the first is at or above the second"),
    Function("rank_correlation", (SERIES, SERIES), TASKS, "Spearman's rank correlation over tasks"),
)

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _ALL}
"""The functions by name."""

OF_DATA = ("difficulty",)
"""Series that follow from the data alone, so that they are the same for every variant."""

SERIES_ABOUT: Mapping[str, str] = {
    "score": "the score of each task, in points",
    "peak_step": "the step of the best value of each task's curve",
    "difficulty": "the difficulty of each task (measures: [difficulty])",
    "first_peak": "the step of each task's first peak under MT-Uncertainty (measures: [first_peak])",
    "covariance": "the mean CovSim of each task with the others (measures: [covariance])",
    "uncertainty": "the mean entropy of each task's outputs (measures: [uncertainty])",
}
"""The series: values per task."""
