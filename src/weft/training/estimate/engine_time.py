"""How long steps take by the engine that will run them: a few real ones, compiled or captured as in a run."""

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
from weft.training.estimate.step_time import PASSES, Costs, Rate, fitted_line, left_as_it_is
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
"""Where among the steps, from the cheapest to the dearest, those lie that are timed: the ends first."""

LEAST = 2
"""So many are timed whatever it takes: a step has a part that does not grow with its batch."""


@dataclass(frozen=True)
class EngineTime:
    """How long the steps of a run take by an engine.

    Attributes:
        step_seconds: a step, on average, candidates that are measured before it included.
        startup_seconds: compiling and capturing, for all shapes of the run.
        timed: how many steps were run to time them.
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
    """Time steps by the engine that a run would use; the model stays as it is.

    What has to be compiled is compiled, once, whatever the budget: the time of a step cannot be known before.

    Args:
        model: the model, on the device that it is to be trained on.
        training: how it is to be trained.
        plan: which examples each step trains on.
        train: the tokenized training rows of each task of the plan, in its order.
        steps: some steps of the plan, as many as are to be looked at.
        costs: of the model.
        count: the activations of a batch of a shape.
        room: the bytes that activations may take; None: any.
        budget: seconds that may be spent on timing, about, besides compiling.

    Returns:
        The times, None where steps run eagerly; the engine that was timed or is to be; and what a user should
        know of it, in a sentence.
    """
    name, note = drivers.choose_engine(model, training, Processes())
    if not ENGINES[name].compiles:  # its steps take what their passes take
        return None, name, note
    # what is kept of the trunk would take a pass over all rows, and verifying is no part of a step
    training = training.model_copy(update={"trunk_cache": False, "verify_engine": False})
    ids = np.array([model.task_id(task) for task in plan.names], np.int64)
    with left_as_it_is(model):
        running = drivers.Driver(model, training, train, list(plan.names), ids, plan, Processes())
        try:
            running.begin(
                OwnerOptimizers(model, lr=0.0, weight_decay=0.0, optimizer=training.optimizer), None
            )
            found = _Timing(running, costs, plan, train, count, room).of(steps, budget)
        except (EngineFailed, WeftError, RuntimeError) as why:  # a RuntimeError: of the device, of memory
            first = (str(why).strip().splitlines() or [type(why).__name__])[0]
            return None, "eager", f"engine {name} could not be timed, and eager was: {first}"
        finally:
            running.close()
    return found, name, note


class _Timing:
    """Runs real steps by a driver's engine."""

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
        """The times of steps like these."""
        shapes = [self._shapes(step) for step in steps]
        cost = np.array([self._cost(one) for one in shapes])
        chosen = self._chosen(cost, shapes)
        if not chosen:
            raise WeftError("its batches have no room in memory")
        end = time.perf_counter() + budget
        points: list[tuple[float, float]] = []
        startups: list[float] = []
        for place in chosen:
            if len(points) >= LEAST and time.perf_counter() > end:
                break
            startup, seconds = self._timed(self._step(steps[place]))
            startups.append(startup)
            points.append((float(cost[place]), seconds))
            end += startup
        rate = fitted_line(points)
        step_seconds = float(np.mean([rate.seconds(one) for one in cost.tolist()]))
        startup = startups[0] + (self._forms(steps, shapes) - 1) * float(np.mean(startups[1:] or [0.0]))
        if self._chooser is not None:
            own, first = self._candidates(steps)
            step_seconds, startup = step_seconds + own, startup + first
        return EngineTime(step_seconds, startup, len(points))

    def _timed(self, run: Callable[[], object]) -> tuple[float, float]:
        """What the first run takes more than another, and what one takes."""
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
        """The seconds of the pass over a step's candidates, on average, and those of its start."""
        assert self._chooser is not None
        every = [self.plan.candidates(step.number) for step in steps]
        cost = np.array([self._cost(self._shapes(one)) for one in every])
        typical = int(np.argsort(cost, kind="stable")[len(cost) // 2])
        measures, dropout = self._chooser.measures, self._chooser.settings.dropout
        engine = self.driver.engine
        startup, seconds = self._timed(lambda: engine.measured(every[typical], measures, dropout))
        rate = Rate(0.0, seconds / float(cost[typical]))
        return float(np.mean([rate.seconds(one) for one in cost.tolist()])), startup

    def _chosen(self, cost: NDArray[np.float64], shapes: Sequence[Shapes]) -> list[int]:
        """The places of the steps that are timed: of different costs, and such as have room."""
        room = self._room
        order = [
            place
            for place in np.argsort(cost, kind="stable").tolist()
            if room is None or max(self._count(*shape) for shape in shapes[place]) <= room
        ]
        found = [order[round(q * (len(order) - 1))] for q in QUANTILES] if order else []
        return list({float(cost[place]): place for place in found}.values())

    def _shapes(self, step: Step | Candidates) -> Shapes:
        """The rows and lengths that the parts of a step are padded to."""
        assert self.driver.shapes is not None
        found = []
        for part in np.array_split(np.arange(len(step.task)), self.training.accumulate):
            if len(part):
                shape = self.driver.shapes.of(step.task[part], step.index[part])
                found.append((shape.rows, shape.length))
        return found

    def _cost(self, shapes: Shapes) -> float:
        rows, lengths = zip(*shapes, strict=True)
        return float(self.costs.of(rows, lengths).sum())

    def _forms(self, steps: Sequence[Step], shapes: Sequence[Shapes]) -> int:
        """How many different batches are compiled or captured; of `separate`, each task has its own."""
        found: set[Any] = set()
        for step, own in zip(steps, shapes, strict=True):
            task = int(step.task[0]) if self.model.method.separate else 0
            found |= {(task, shape) for shape in own}
        return len(found)
