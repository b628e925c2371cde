"""Temperature scaling (Guo et al., 2017): one number per task that makes probabilities agree with reality.

    p_i = exp(s_i/T) / Σ_j exp(s_j/T)

T minimizes the negative log likelihood of the validation labels. All logits of a task are divided by the same
number, so their order and therefore every answer stay the same; only probabilities change. A large network is
usually too certain, and T is above 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.evaluation.calibration import expected_calibration_error
from weft.inference.examples import Examples
from weft.inference.runner import answers
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.inference.precision import PassContext
    from weft.model.model import Model
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task

OPTION = "temperature"
"""Kinds whose options include this predict probabilities."""
LOWEST, HIGHEST = 0.01, 100.0
"""The range of the search. If all decisions are right, T would fall without end."""
FEW = 100
"""With fewer decisions than this, a temperature is uncertain."""


@dataclass(frozen=True)
class FittedTemperature:
    """The temperature of one task.

    Attributes:
        temperature: the number by which logits are divided.
        count: the number of decisions that it was fitted on.
        nll: the negative log likelihood with this temperature, on these decisions.
        nll_at_one: the same with the temperature 1.
        ece: the expected calibration error with this temperature.
        ece_at_one: the same with the temperature 1.
    """

    temperature: float
    count: int
    nll: float
    nll_at_one: float
    ece: float
    ece_at_one: float

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


def best_temperature(decisions: Decisions) -> float:
    """Return the temperature with the smallest negative log likelihood; 1 if none is better.

    The search is over ln T by Brent's method, from `LOWEST` to `HIGHEST`.

    Args:
        decisions: the decisions, with raw scores.
    """
    from scipy.optimize import minimize_scalar

    if not len(decisions):
        return 1.0
    search = minimize_scalar(
        lambda log: decisions.negative_log_likelihood(math.exp(log)),
        bounds=(math.log(LOWEST), math.log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    best = math.exp(float(search.x))
    at_one = decisions.negative_log_likelihood()
    return best if decisions.negative_log_likelihood(best) < at_one else 1.0


def fitted(decisions: Decisions) -> FittedTemperature:
    """Fit the temperature of one task's decisions."""
    best = best_temperature(decisions)
    return FittedTemperature(
        best,
        len(decisions),
        decisions.negative_log_likelihood(best),
        decisions.negative_log_likelihood(),
        expected_calibration_error(decisions, best),
        expected_calibration_error(decisions),
    )


def with_temperature(task: Task, temperature: float | None, split: str | None) -> Task:
    """Return the task with another temperature; it gives the same answers, with other probabilities.

    Thresholds are probabilities, so they change too: t becomes σ(logit(t)·T_before/T).

    Args:
        task: the task.
        temperature: the new temperature; None: 1.
        split: the split that it was fitted on; None: it was not fitted.
    """
    ratio = (task.temperature or 1.0) / (temperature or 1.0)
    thresholds = tuple(scaled_threshold(t, ratio) for t in task.thresholds)
    return replace(task, temperature=temperature, calibrated_on=split, thresholds=thresholds)


def scaled_threshold(threshold: float, factor: float) -> float:
    """σ(factor·logit(t)): the threshold of probabilities whose logits were multiplied by a factor."""
    if threshold in (0.0, 1.0) or factor == 1:
        return threshold
    logit = factor * (math.log(threshold) - math.log1p(-threshold))
    # σ without an overflow of exp
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def calibrate_model(
    model: Model,
    data: Mapping[str, Tokens],
    rows: Mapping[str, Sequence[int]],
    split: str,
    precision: PassContext | None = None,
) -> dict[str, FittedTemperature]:
    """Fit the temperatures of the model's tasks that predict probabilities; the model's tasks are changed.

    Args:
        model: the model.
        data: the tokenized split of each task, with labels.
        rows: the examples of each split to use.
        split: the name of the split, which the tasks remember.
        precision: what makes the context of each pass.
    """
    by_name = {task.name: task for task in model.tasks}
    names = [name for name in data if name in by_name and OPTION in KINDS[by_name[name].kind].options]
    if not names:
        having = ", ".join(kind for kind in KINDS if OPTION in KINDS[kind].options)
        kinds = ", ".join(f"{task.name}: {task.kind}" for task in model.tasks)
        raise WeftError(
            f"no task predicts probabilities that could be calibrated; the kinds {having} do; found {kinds}"
        )
    results = {}
    for name in names:
        number = model.task_id(name)
        task, tokens, which = model.tasks[number], data[name], rows[name]
        logits = answers(model, Examples.of_sets([(number, tokens, which)]), precision=precision)[:]
        labels: Any = tokens.labels
        decisions = KINDS[task.kind]().decisions(
            logits, [labels[i] for i in which], task, tokens.examples(which)
        )
        if decisions is None:
            raise WeftError(f"task {name!r}: the kind {task.kind!r} has a temperature, but no decisions")
        results[name] = fitted(decisions)
        changed = with_temperature(task, results[name].temperature, split)
        model.tasks = (*model.tasks[:number], changed, *model.tasks[number + 1 :])
    return results


def without_fitted(task: Task) -> Task:
    """The task without a temperature that was fitted for other weights; that of a run file is kept."""
    return task if task.calibrated_on is None else with_temperature(task, None, None)
