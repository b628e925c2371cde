"""The time of steps with an engine that compiles: a few real steps are compiled or captured, and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.training.engines import ENGINES
from weft.training.engines.engine import EngineFailed, Move
from weft.training.estimate.memory import Count
from weft.training.estimate.step_time import PASSES, Costs, Rate, fitted_line, restored
from weft.training.optim.owners import OwnerOptimizers
from weft.training.settings import Training
from weft.training.step import driver as drivers
from weft.training.uncertainty import chooser_of
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.sampling.plan.plan import Candidates, Plan, Step

Shapes = list[tuple[int, int]]

QUANTILES = (0.1, 0.9, 0.5)
"""The quantiles of the steps' cost at which steps are timed, the extremes first."""

LEAST = 2
"""The number of steps that are timed in any case: a step has a cost that does not grow with its batch."""


@dataclass(frozen=True)
class EngineTime:
    """The time of a run's steps with an engine.

    Attributes:
        step_seconds: the mean time of a step, including the measurement of candidates.
        startup_seconds: the time to compile and capture all shapes of the run.
        timed: the number of steps that were timed.
    """

    step_seconds: float
    startup_seconds: float
    timed: int


def time_engine(
    model: Model,
    training: Training,
    plan: Plan,
    train: Sequence[Tokens],
    steps: Sequence[Step],
    costs: Costs,
    count: Count,
    room: int | None,
    budget: float,
) -> tuple[EngineTime | None, str, str | None]:
    """Time steps with the engine that a run would use; the model does not change.

    Compilation is not limited by the budget: without it, the time of a step is unknown.

    Args:
        model: the model, on the training device.
        training: the settings of `train`.
        plan: which examples each step trains on.
        train: the tokenized training rows of each task of the plan, in its order.
        steps: a sample of the plan's steps.
        costs: the cost model of the model's batches.
        count: the activation bytes of a batch, by its shape.
        room: the bytes that activations may take; None: unlimited.
        budget: about how many seconds may be spent on timing, besides compiling.

    Returns:
        The times, None if steps run eagerly; the name of the engine; and a note for the user, or None.
    """
    name, note = drivers.choose_engine(model, training, Processes())
    if not ENGINES[name].compiles:  # the caller times the passes instead
        return None, name, note
    # the trunk cache would need a pass over all rows, and verification is not part of a step
    training = training.model_copy(update={"trunk_cache": False, "verify_engine": False})
    ids = np.array([model.task_id(task) for task in plan.names], np.int64)
    with restored(model):
        running = drivers.Driver(model, training, train, list(plan.names), ids, plan, Processes())
        try:
            running.begin(
                OwnerOptimizers(model, lr=0.0, weight_decay=0.0, optimizer=training.optimizer), None
            )
            times = _Timing(running, costs, plan, train, count, room).of(steps, budget)
        except (EngineFailed, WeftError, RuntimeError) as why:  # RuntimeError: of the device, out of memory
            first = (str(why).strip().splitlines() or [type(why).__name__])[0]
            return None, "eager", f"engine {name} could not be timed; these are the times of eager: {first}"
        finally:
            running.close()
    return times, name, note


class _Timing:
    """Runs and times real steps with a driver's engine."""

    def __init__(
        self,
        driver: drivers.Driver,
        costs: Costs,
        plan: Plan,
        train: Sequence[Tokens],
        count: Count,
        room: int | None,
    ) -> None:
        self.driver, self.costs, self.plan = driver, costs, plan
        self.model, self.training = driver.gradients.model, driver.gradients.training
        self._count, self._room = count, room
        self._chooser = chooser_of(self.model, list(plan.names), [len(tokens) for tokens in train], plan)

    def of(self, steps: Sequence[Step], budget: float) -> EngineTime:
        """The times of a run, from a sample of its steps."""
        shapes = [self._shapes(step) for step in steps]
        cost = np.array([self._cost(step_shapes) for step_shapes in shapes])
        chosen = self._chosen(cost, shapes)
        if not chosen:
            raise WeftError("its batches do not fit into memory")
        end = time.perf_counter() + budget
        points: list[tuple[float, float]] = []
        startups: list[float] = []
        for index in chosen:
            if len(points) >= LEAST and time.perf_counter() > end:
                break
            startup, seconds = self._timed(self._step(steps[index]))
            startups.append(startup)
            points.append((float(cost[index]), seconds))
            end += startup
        rate = fitted_line(points)
        step_seconds = float(np.mean([rate.seconds(c) for c in cost.tolist()]))
        startup = startups[0] + (self._forms(steps, shapes) - 1) * float(np.mean(startups[1:] or [0.0]))
        if self._chooser is not None:
            candidate_seconds, candidate_startup = self._candidates(steps)
            step_seconds, startup = step_seconds + candidate_seconds, startup + candidate_startup
        return EngineTime(step_seconds, startup, len(points))

    def _timed(self, run: Callable[[], object]) -> tuple[float, float]:
        """The additional seconds of the first run (startup), and the seconds of a later run."""
        device = self.driver.gradients.device

        def seconds() -> float:
            began = time.perf_counter()
            run()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            return time.perf_counter() - began

        first = seconds()
        again = float(np.median([seconds() for _ in range(PASSES)]))
        return max(0.0, first - again), again

    def _step(self, step: Step) -> Callable[[], object]:
        prepared = self.driver.prepared(step)
        present = self.driver.microbatches.ids[np.unique(step.task[: step.real])].tolist()
        return lambda: self.driver.engine.step(prepared, Move(1.0, None, present, [], None))

    def _candidates(self, steps: Sequence[Step]) -> tuple[float, float]:
        """The mean seconds of the pass over a step's candidates, and its startup seconds."""
        assert self._chooser is not None
        candidates = [self.plan.candidates(step.number) for step in steps]
        cost = np.array([self._cost(self._shapes(c)) for c in candidates])
        typical = int(np.argsort(cost, kind="stable")[len(cost) // 2])
        measures, dropout = self._chooser.measures, self._chooser.settings.dropout
        engine = self.driver.engine
        with self.model.running_until(self._chooser.settings.exit_layer):
            startup, seconds = self._timed(lambda: engine.measured(candidates[typical], measures, dropout))
        rate = Rate(0.0, seconds / float(cost[typical]) / self._chooser.settings.every)
        return float(np.mean([rate.seconds(c) for c in cost.tolist()])), startup

    def _chosen(self, cost: NDArray[np.float64], shapes: Sequence[Shapes]) -> list[int]:
        """The indices of the steps that are timed: with different costs, and such that fit into memory."""
        room = self._room
        order = [
            index
            for index in np.argsort(cost, kind="stable").tolist()
            if room is None or max(self._count(*shape) for shape in shapes[index]) <= room
        ]
        chosen = [order[round(q * (len(order) - 1))] for q in QUANTILES] if order else []
        return list({float(cost[index]): index for index in chosen}.values())

    def _shapes(self, step: Step | Candidates) -> Shapes:
        """The padded (rows, length) of each micro-batch of a step."""
        assert self.driver.shapes is not None
        shapes = []
        for chunk in np.array_split(np.arange(len(step.task)), self.training.accumulate):
            if len(chunk):
                shape = self.driver.shapes.of(step.task[chunk], step.index[chunk])
                shapes.append((shape.rows, shape.length))
        return shapes

    def _cost(self, shapes: Shapes) -> float:
        rows, lengths = zip(*shapes, strict=True)
        return float(self.costs.of(rows, lengths).sum())

    def _forms(self, steps: Sequence[Step], shapes: Sequence[Shapes]) -> int:
        """The number of different batch forms that are compiled or captured; under `separate`, per task."""
        forms: set[Any] = set()
        for step, step_shapes in zip(steps, shapes, strict=True):
            task = int(step.task[0]) if self.model.method.separate else 0
            forms |= {(task, shape) for shape in step_shapes}
        return len(forms)
