"""The values of expressions: one number per seed, and sums of scores as terms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import WeftError
from weft.experiments.claims.data import AverageCurve, ClaimData, Curve, Term
from weft.experiments.claims.functions import CURVE, FACTS, FUNCTIONS, OF_DATA
from weft.experiments.claims.language import Binary, Call, Node, Number, Series

FEWEST_TASKS = 3
"""A rank correlation of fewer tasks says nothing."""


@dataclass(frozen=True)
class Sum:
    """constant + Σ factor · score."""

    constant: float
    terms: tuple[Term, ...]


def linear(node: Node) -> Sum | None:
    """An expression as a sum of scores, with one term per variant and task; None if it is none."""
    total = _linear(node)
    if total is None:
        return None
    factors: dict[tuple[str, str | None], float] = {}
    for factor, variant, task in total.terms:
        factors[variant, task] = factors.get((variant, task), 0.0) + factor
    terms = tuple(Term(factor, *where) for where, factor in factors.items() if factor != 0)
    return Sum(total.constant, terms) if terms else None


def _linear(node: Node) -> Sum | None:
    if isinstance(node, Number):
        return Sum(node.value, ())
    if isinstance(node, Call):
        names = [str(argument) for argument in node.arguments]
        if node.function == "average":
            return Sum(0.0, (Term(1.0, names[0]),))
        if node.function == "score":
            return Sum(0.0, (Term(1.0, names[0], names[1]),))
        if node.function == "gain":
            return Sum(0.0, (Term(1.0, names[0]), Term(-1.0, names[1])))
        return None
    left, right = _linear(node.left), _linear(node.right)
    if left is None or right is None:
        return None
    if node.operator == "+":
        return Sum(left.constant + right.constant, left.terms + right.terms)
    if node.operator == "-":
        return Sum(left.constant - right.constant, left.terms + _scaled(right, -1.0).terms)
    if node.operator == "*" and (not left.terms or not right.terms):
        return _scaled(right, left.constant) if not left.terms else _scaled(left, right.constant)
    if node.operator == "/" and not right.terms and right.constant != 0:
        return _scaled(left, 1 / right.constant)
    return None


def _scaled(total: Sum, factor: float) -> Sum:
    terms = tuple(term._replace(factor=term.factor * factor) for term in total.terms)
    return Sum(total.constant * factor, terms)


def per_seed(node: Node, data: ClaimData) -> tuple[dict[int, float], str]:
    """The value of an expression for each seed that has everything it needs.

    Returns:
        The values by seed; and why seeds are missing, "" if none is.
    """
    reasons: list[str] = []
    values = _values(node, data, reasons)
    if values is None:
        return {}, "; ".join(dict.fromkeys(reasons))
    usable = {seed: value for seed, value in values.items() if math.isfinite(value)}
    for seed in sorted(set(values) - set(usable)):
        reasons.append(f"seed {seed} has no value (a division by zero)")
    return usable, "; ".join(dict.fromkeys(reasons))


def _values(node: Node, data: ClaimData, reasons: list[str]) -> dict[int, float] | None:
    """The values by seed; None: a constant only, or nothing."""
    if isinstance(node, Call):
        return _call(node, data, reasons)
    if isinstance(node, Number):
        return None
    left, right = (_values(side, data, reasons) for side in (node.left, node.right))
    if left is None and right is None:
        return None
    left_constant, right_constant = _constant(node.left), _constant(node.right)
    seeds = set(left if left is not None else right or {}) & set(right if right is not None else left or {})
    result = {}
    for seed in sorted(seeds):
        a = left[seed] if left is not None else left_constant
        b = right[seed] if right is not None else right_constant
        result[seed] = math.nan if a is None or b is None else _apply(node.operator, a, b)
    return result


def _constant(node: Node) -> float | None:
    """The value of an expression without calls; None if it has one."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Call):
        return None
    left, right = _constant(node.left), _constant(node.right)
    return None if left is None or right is None else _apply(node.operator, left, right)


def _apply(operator: str, a: float, b: float) -> float:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    return a / b if b != 0 else math.nan


def _call(call: Call, data: ClaimData, reasons: list[str]) -> dict[int, float]:
    arguments = call.arguments
    if call.function == "gain":
        pair = Binary("-", Call("average", arguments[:1]), Call("average", arguments[1:]))
        return _values(pair, data, reasons) or {}
    if FUNCTIONS[call.function].source == CURVE:
        return _of_curve(call, data, reasons)
    if call.function == "best_task_count":
        sides = [Series("score", str(variant)) for variant in arguments]
        return _over_tasks("task_count", sides[0], sides[1], data, reasons)
    if call.function in ("task_count", "rank_correlation"):
        first, second = arguments
        assert isinstance(first, Series)
        assert isinstance(second, Series)
        return _over_tasks(call.function, first, second, data, reasons)
    variant = str(arguments[0])
    task = str(arguments[1]) if len(arguments) > 1 else None
    of = tuple(map(str, arguments[2:]))
    values = dict(data.per_seed(call.function, variant, task, *([of] if of else [])))
    if not values:
        what = f" of {task!r}" if task else ""
        what += f" for {' and '.join(of)}," if of else ""
        kind = "no value" if FUNCTIONS[call.function].source == FACTS else "no score"
        reasons.append(f"variant {variant!r} has {kind}{what} for {call.function}")
    return values


def _over_tasks(
    function: str, first: Series, second: Series, data: ClaimData, reasons: list[str]
) -> dict[int, float]:
    left, right = (_series(series, data, reasons) for series in (first, second))
    # what follows from the data alone may be known of one seed only
    if first.name in OF_DATA and left:
        left = dict.fromkeys(right, next(iter(left.values()))) if right else left
    if second.name in OF_DATA and right:
        right = dict.fromkeys(left, next(iter(right.values()))) if left else right
    result = {}
    for seed in sorted(set(left) & set(right)):
        tasks = [task for task in left[seed] if task in right[seed]]
        a, b = [left[seed][task] for task in tasks], [right[seed][task] for task in tasks]
        if function == "task_count":
            result[seed] = float(sum(x >= y for x, y in zip(a, b, strict=True)))
            continue
        if len(tasks) < FEWEST_TASKS:
            reasons.append(f"a rank correlation needs {FEWEST_TASKS} tasks; seed {seed} has {len(tasks)}")
            continue
        value = rank_correlation(a, b)
        if math.isnan(value):
            reasons.append(f"the rank correlation of seed {seed} is not defined: all values are equal")
        else:
            result[seed] = value
    return result


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation; NaN if one side has equal values only."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return math.nan
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def _series(series: Series, data: ClaimData, reasons: list[str]) -> dict[int, Mapping[str, float]]:
    if series.name == "peak_step":
        if series.variant is None:
            raise WeftError("peak_step of which variant? expected peak_step(VARIANT)")
        curves = data.curve(series.variant)
        return {seed: _peak_steps(curve) for seed, curve in curves.items() if curve}
    values = dict(data.series(series.name, series.variant))
    if not values:
        of = f" of {series.variant!r}" if series.variant else ""
        reasons.append(f"there is no {series.name}{of}")
    return values


def _peak_steps(curve: Curve) -> dict[str, float]:
    best: dict[str, tuple[float, int]] = {}
    for step, scores in curve:
        for task, score in scores.items():
            if task not in best or score > best[task][0]:
                best[task] = (score, step)
    return {task: float(step) for task, (_, step) in best.items()}


def _of_curve(call: Call, data: ClaimData, reasons: list[str]) -> dict[int, float]:
    """The values of steps_to, steps_to_score, peak, last and fall."""
    variant, *rest = call.arguments
    number = rest[0] if rest and isinstance(rest[0], float) else None
    task = next((str(argument) for argument in rest if isinstance(argument, str)), None)
    curves = _curves(str(variant), task, data)
    if not curves:
        reasons.append(f"variant {variant!r} has no curve; expected train.evaluate_every above 0")
    result = {}
    for seed, curve in sorted(curves.items()):
        points = [(step, value) for step, value in curve if math.isfinite(value)]
        if not points:
            reasons.append(f"the curve of {variant!r}, seed {seed}, has no {task or 'score'}")
            continue
        best = max(value for _, value in points)
        if call.function == "peak":
            result[seed] = best
        elif call.function == "last":
            result[seed] = points[-1][1]
        elif call.function == "fall":
            result[seed] = best - points[-1][1]
        else:
            assert number is not None
            goal = number * best if call.function == "steps_to" else number
            reached = next((step for step, value in points if value >= goal), None)
            if reached is None:
                reasons.append(f"{variant!r}, seed {seed}, never reaches {goal:.1f}")
            else:
                result[seed] = float(reached)
    return result


def _curves(variant: str, task: str | None, data: ClaimData) -> Mapping[int, AverageCurve]:
    """The curve of a task, or of the average that the tables report, by seed."""
    if task is None:
        return data.average_curve(variant)
    return {
        seed: [(step, scores.get(task, math.nan)) for step, scores in curve]
        for seed, curve in data.curve(variant).items()
    }
