"""What a run will take, before it is begun: memory and time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.training.engines import ENGINES
from weft.training.estimate.engine_time import time_engine
from weft.training.estimate.memory import Count, Memory, count_activations, memory_at, working_memory
from weft.training.estimate.step_time import Costs, Examples, time_evaluation, time_training
from weft.training.optim.precision import precision
from weft.training.settings import Training
from weft.utils.counter_rng import draw_key
from weft.utils.permutation import permute

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.sampling.plan.plan import Candidates, Plan, Step

SAMPLE = 256
"""How many of the plan's steps are looked at."""
TYPICAL = (0.5, 0.1, 0.9)
"""Where among the batches, from the cheapest to the dearest, those lie that are timed."""
EVALUATED = 64
"""The rows of a batch of an evaluation, about."""


@dataclass(frozen=True)
class Estimate:
    """What a run will take.

    Attributes:
        memory: at the largest batch that was looked at.
        step_seconds: a step, on average, by the engine that will run.
        steps: the steps of the run.
        evaluation_seconds: all evaluations together; None where no validation rows were given.
        looked_at: how many steps of the plan this follows from.
        timed: how many batches were run to time them.
        machine: what they ran on.
        room: the memory that this has, in bytes; None where it is not known.
        engine: what ran the steps that were timed.
        startup_seconds: compiling and capturing, before steps take the time they are said to take.
        note: what a user should know of the engine, in a sentence; None: nothing.
    """

    memory: Memory
    step_seconds: float
    steps: int
    evaluation_seconds: float | None
    looked_at: int
    timed: int
    machine: str
    room: int | None
    engine: str = "eager"
    startup_seconds: float = 0.0
    note: str | None = None

    @property
    def seconds(self) -> float:
        """The whole run."""
        return self.startup_seconds + self.steps * self.step_seconds + (self.evaluation_seconds or 0.0)

    @property
    def fits(self) -> bool:
        """Whether the machine has the memory, as far as it is known."""
        return self.room is None or self.memory.peak < self.room

    def as_dict(self) -> dict[str, Any]:
        """Every number, JSON-able."""
        return {**vars(self), "memory": self.memory.as_dict(), "seconds": self.seconds, "fits": self.fits}

    def lines(self) -> list[str]:
        """The same for a reader."""
        m = self.memory
        time = f"{duration(self.step_seconds)} a step on this machine ({self.machine}), "
        time += f"{self.steps} steps {duration(self.steps * self.step_seconds)}"
        if self.evaluation_seconds is not None:
            time += f", evaluations {duration(self.evaluation_seconds)}"
        averages = f"moving average {size(m.averages)}, " if m.averages else ""
        told = [
            f"memory: about {size(m.peak)}: weights {size(m.weights)}, gradients {size(m.gradients)}, "
            f"optimiser {size(m.optimiser)}, {averages}activations {size(m.passing)} "
            f"({m.rows} rows of {m.length} tokens, the largest of {self.looked_at} steps); "
            "the program and what its allocator keeps come on top",
            f"time: about {time} ({self._timed()})",
        ]
        if self.note is not None:
            told.append(f"note: {self.note}")
        if not self.fits:
            told.append(
                f"warning: this machine has {size(self.room or 0)} of memory; lower train.batch_size or "
                "train.max_length, or raise train.accumulate"
            )
        return told

    def _timed(self) -> str:
        """What was timed, for a reader."""
        if not ENGINES[self.engine].compiles:
            return f"engine {self.engine}, {self.timed} batches timed"
        startup = f"about {duration(self.startup_seconds)} more to compile and capture"
        return f"engine {self.engine}, {self.timed} steps timed; {startup}, some of it done for this"


def estimate(
    model: Model,
    training: Training,
    plan: Plan,
    train: Sequence[Tokens],
    validation: Mapping[str, Tokens] | None = None,
    *,
    budget: float = 5.0,
) -> Estimate:
    """Estimate a run's memory and time by a few real passes; the model stays as it is.

    Args:
        model: the model, on the device that it is to be trained on.
        training: how it is to be trained.
        plan: which examples each step trains on.
        train: the tokenized training rows of each task of the plan, in its order.
        validation: the tokenized validation rows by name, `TASK` or `TASK:SET`.
        budget: seconds that may be spent on timing, about.
    """
    ids = np.array([model.task_id(name) for name in plan.names], np.int64)
    costs = Costs(model)
    device = next(model.parameters()).device
    numbers = permute(np.arange(min(SAMPLE, plan.steps)), plan.steps, draw_key(plan.seed, "sample"))
    looked_at = sorted(numbers.tolist())
    apart = training.conflict is not None
    numbered = [_step(plan, n) for n in looked_at]
    steps = [list(_parts(step, train, ids, training.accumulate, apart)) for step in numbered]
    parts = [part for step in steps for part in step]
    shapes = np.array([part.shape for part in parts])
    cost = costs.of(shapes[:, 0], shapes[:, 1])
    count = count_activations(model, plan.mixed and not apart, precision(training, device))
    largest = max({part.shape for part in parts}, key=lambda s: count(*s) + working_memory(model, *s))
    by_cost = np.argsort(cost, kind="stable")
    typical = [parts[by_cost[round(q * (len(parts) - 1))]] for q in TYPICAL]
    room = _room(device)
    typical = [_fitting(part, count, None if room is None else room // 2) for part in typical]
    typical = list({part.shape: part for part in typical}.values())
    without_backward = time_evaluation(model, typical[:1], costs, budget / 5).slope
    evaluations = None
    if validation:
        evaluations = without_backward * _evaluated(training, validation, costs, plan.steps)
    half = None if room is None else room // 2
    by, engine, note = time_engine(model, training, plan, train, numbered, costs, count, half, budget)
    if by is None:
        rate, timed = time_training(model, training, typical, costs, budget)
        step_seconds, startup = sum(map(rate.seconds, cost.tolist())) / len(steps), 0.0
    else:
        step_seconds, startup, timed = by.step_seconds, by.startup_seconds, by.timed
    lengths = [int(tokens.row_lengths.max()) for tokens in (validation or {}).values()]
    shapes_without = [(EVALUATED, max(lengths))] if lengths else [(0, 0)]
    if plan.chooses:  # a pass over all candidates comes before each step
        passes = [_parts(plan.candidates(n), train, ids, training.accumulate) for n in looked_at]
        seen = np.array([part.shape for step in passes for part in step])
        if by is None:
            step_seconds += without_backward * float(costs.of(seen[:, 0], seen[:, 1]).sum()) / len(steps)
        shapes_without.append((int(seen[:, 0].max()), int(seen[:, 1].max())))
    widest = max(shapes_without, key=lambda s: working_memory(model, *s))
    tasks = min(len(plan.names), training.batch_size) if apart else 0
    memory = memory_at(model, count, largest, widest, tasks, training.ema is not None)
    facts = (len(steps), timed, _machine(device), room, engine, startup, note)
    return Estimate(memory, step_seconds, plan.steps, evaluations, *facts)


def size(count: float) -> str:
    """Bytes for a reader: `1.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}" if unit == "GB" and count < 100 else f"{count:.0f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Seconds for a reader: `40 ms`, `1.2 s`, `4 min`, `2.5 h`."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.2g} h"


def _step(plan: Plan, number: int) -> Step:
    """A step of the plan; where the choice depends on the weights, some of its candidates."""
    if not plan.chooses:
        return plan.step(number)
    candidates = plan.candidates(number)
    size = len(candidates.task)
    spread = np.linspace(0, size, min(plan.batch_size, size), endpoint=False).astype(np.int64)
    return plan.chosen(candidates, spread)


def _parts(
    step: Step | Candidates,
    train: Sequence[Tokens],
    ids: NDArray[np.int64],
    accumulate: int,
    apart: bool = False,
) -> Iterator[Examples]:
    """The batches of a step, as training cuts it; `apart`: each task's by itself."""
    for part in np.array_split(np.arange(len(step.task)), accumulate):
        tasks = step.task[part]
        for places in [part[tasks == t] for t in np.unique(tasks)] if apart else [part]:
            if len(places):
                pairs = zip(step.task[places].tolist(), step.index[places].tolist(), strict=True)
                yield Examples([(train[t], i) for t, i in pairs], ids[step.task[places]])


def _fitting(part: Examples, count: Count, room: int | None) -> Examples:
    """As many of the examples as there is room for: what is timed must not end the program."""
    while room is not None and len(part.items) > 1 and count(*part.shape) > room:
        part = part.first(len(part.items) // 2)
    return part


def _evaluated(training: Training, validation: Mapping[str, Tokens], costs: Costs, steps: int) -> float:
    """The cost of all evaluations of a run: rows sorted by length, in batches."""
    times = -(-steps // training.evaluate_every) if training.evaluate_every else 0
    once = whole = 0.0
    for tokens in validation.values():
        lengths = np.sort(tokens.row_lengths)
        longest = np.maximum.reduceat(lengths, np.arange(0, len(lengths), EVALUATED))
        rows = np.full(len(longest), EVALUATED)
        rows[-1] = len(lengths) - EVALUATED * (len(longest) - 1)
        cost = float(costs.of(rows, longest).sum())
        whole += cost
        once += cost * min(1.0, (training.evaluate_rows or np.inf) / len(tokens.lengths))
    return times * once + (whole if training.last_evaluation == "whole" else once)


def _room(device: torch.device) -> int | None:
    """The memory of the device, in bytes; None where it cannot be known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' * (threads > 1)}"
