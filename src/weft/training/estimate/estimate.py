"""Estimate the memory and time of a run before it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.errors import train_key
from weft.inference.batches import POSITIONS, TOKENS
from weft.training.engines import ENGINES
from weft.training.estimate.engine_time import time_engine
from weft.training.estimate.memory import Count, Memory, count_activations, memory_at, working_memory
from weft.training.estimate.step_time import Costs, Examples, time_evaluation, time_training
from weft.training.optim.precision import precision
from weft.training.settings import Training
from weft.training.uncertainty import choice_cost
from weft.utils.counter_rng import draw_key
from weft.utils.permutation import permute

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.sampling.plan.plan import Candidates, Plan, Step

SAMPLE = 256
"""The number of the plan's steps in the sample."""
TYPICAL = (0.5, 0.1, 0.9)
"""The quantiles of the batches' cost at which batches are timed."""
BUSY = 1.8
"""If repeated passes differ by this factor, the machine is busy with something else."""
EVALUATED = 64
"""The approximate number of rows in an evaluation batch, for its time."""


@dataclass(frozen=True)
class Estimate:
    """The estimated memory and time of a run.

    Attributes:
        memory: the memory at the largest batch of the sample.
        step_seconds: the mean time of a step with the engine of the run.
        steps: the steps of the run.
        evaluation_seconds: the time of all evaluations; None without validation rows.
        looked_at: the number of steps in the sample.
        timed: the number of batches that were timed.
        machine: the machine that they ran on.
        room: the memory of the machine, in bytes; None if unknown.
        engine: the engine that ran the timed steps.
        startup_seconds: the time to compile and capture, before steps reach `step_seconds`.
        note: a note for the user about the engine; None: nothing.
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
        """The time of the whole run."""
        return self.startup_seconds + self.steps * self.step_seconds + (self.evaluation_seconds or 0.0)

    @property
    def fits(self) -> bool:
        """Whether the run fits into the machine's memory; true if that is unknown."""
        return self.room is None or self.memory.peak < self.room

    def as_dict(self) -> dict[str, Any]:
        """All fields, JSON-serializable."""
        return {**vars(self), "memory": self.memory.as_dict(), "seconds": self.seconds, "fits": self.fits}

    def lines(self) -> list[str]:
        """The estimate as lines of text."""
        m = self.memory
        time = f"{duration(self.step_seconds)} per step on this machine ({self.machine}), "
        time += f"{_steps(self.steps)} {duration(self.steps * self.step_seconds)}"
        if self.evaluation_seconds is not None:
            time += f", evaluations {duration(self.evaluation_seconds)}"
        averages = f"moving average {size(m.averages)}, " if m.averages else ""
        lines = [
            f"memory: about {size(m.peak)}: weights {size(m.weights)}, gradients {size(m.gradients)}, "
            f"optimizer {size(m.optimiser)}, {averages}activations {size(m.passing)} "
            f"({m.rows} rows of {m.length} tokens, the largest of {_steps(self.looked_at)}); "
            "the program itself and its allocator need more",
            f"time: about {time} ({self._timed()})",
        ]
        if self.note is not None:
            lines.append(f"note: {self.note}")
        if not self.fits:
            lines.append(
                f"warning: this machine has {size(self.room or 0)} of memory; lower "
                f"{train_key('batch_size')} or {train_key('max_length')}, or raise {train_key('accumulate')}"
            )
        return lines

    def _timed(self) -> str:
        """A description of what was timed."""
        if not ENGINES[self.engine].compiles:
            return f"engine {self.engine}, {self.timed} {'batch' if self.timed == 1 else 'batches'} timed"
        startup = f"about {duration(self.startup_seconds)} more to compile and capture"
        return f"engine {self.engine}, {_steps(self.timed)} timed; {startup}, partly done by this estimate"


def estimate(
    model: Model,
    training: Training,
    plan: Plan,
    train: Sequence[Tokens],
    validation: Mapping[str, Tokens] | None = None,
    *,
    budget: float = 5.0,
) -> Estimate:
    """Estimate a run's memory and time by a few real passes; the model does not change.

    Args:
        model: the model, on the training device.
        training: the settings of `train`.
        plan: which examples each step trains on.
        train: the tokenized training rows of each task of the plan, in its order.
        validation: the tokenized validation rows by name, `TASK` or `TASK:SET`.
        budget: about how many seconds may be spent on timing.
    """
    ids = np.array([model.task_id(name) for name in plan.names], np.int64)
    costs = Costs(model)
    device = next(model.parameters()).device
    numbers = permute(np.arange(min(SAMPLE, plan.steps)), plan.steps, draw_key(plan.seed, "sample"))
    sample = sorted(numbers.tolist())
    apart = training.conflict is not None
    sampled_steps = [_step(plan, n) for n in sample]
    steps = [list(_batches(step, train, ids, training.accumulate, apart)) for step in sampled_steps]
    batches = [batch for step in steps for batch in step]
    shapes = np.array([batch.shape for batch in batches])
    cost = costs.of(shapes[:, 0], shapes[:, 1])
    count = count_activations(model, plan.mixed and not apart, precision(training, device))
    largest = max({batch.shape for batch in batches}, key=lambda s: count(*s) + working_memory(model, *s))
    by_cost = np.argsort(cost, kind="stable")
    typical = [batches[by_cost[round(q * (len(batches) - 1))]] for q in TYPICAL]
    room = _room(device)
    typical = [_fitting(batch, count, None if room is None else room // 2) for batch in typical]
    typical = list({batch.shape: batch for batch in typical}.values())
    without_backward = time_evaluation(model, typical[:1], costs, budget / 5).slope
    evaluations = None
    if validation:
        evaluations = without_backward * _evaluated(training, validation, costs, plan.steps)
    half = None if room is None else room // 2
    times, engine, note = time_engine(model, training, plan, train, sampled_steps, costs, count, half, budget)
    if times is None:
        rate, timed = time_training(model, training, typical, costs, budget)
        step_seconds, startup = sum(map(rate.seconds, cost.tolist())) / len(steps), 0.0
        if note is None and rate.spread > BUSY:
            note = (
                f"the same batch took up to {rate.spread:.1f} times as long as at its fastest: this machine "
                "is busy, and the times above are rough"
            )
    else:
        step_seconds, startup, timed = times.step_seconds, times.startup_seconds, times.timed
    lengths = [tokens.row_lengths for tokens in (validation or {}).values()]
    shapes_without = [evaluation_shape(np.concatenate(lengths), device)] if lengths else [(0, 0)]
    if plan.chooses:  # a pass over all candidates comes before a step in which the model chooses
        passes = [_batches(plan.candidates(n), train, ids, training.accumulate) for n in sample]
        measured = np.array([batch.shape for step in passes for batch in step])
        if times is None:
            total = float(costs.of(measured[:, 0], measured[:, 1]).sum())
            step_seconds += without_backward * choice_cost(plan, model) * total / len(steps)
        shapes_without.append((int(measured[:, 0].max()), int(measured[:, 1].max())))
    widest = max(shapes_without, key=lambda s: working_memory(model, *s))
    tasks = min(len(plan.names), training.batch_size) if apart else 0
    memory = memory_at(model, count, largest, widest, tasks, training.ema is not None)
    facts = (len(steps), timed, _machine(device), room, engine, startup, note)
    # a run without steps has a plan of one step that is never followed
    return Estimate(memory, step_seconds, plan.steps if training.steps else 0, evaluations, *facts)


def evaluation_shape(lengths: NDArray[np.int64], device: torch.device) -> tuple[int, int]:
    """The rows R and the length L of the evaluation batch with the longest rows.

    The token positions of a batch are limited, so long rows are evaluated a few at a time.

    Args:
        lengths: the length of each row, [n].
        device: the device that evaluates.
    """
    longest = int(lengths.max())
    positions = TOKENS if device.type == "cuda" else POSITIONS
    return min(len(lengths), max(1, positions // longest)), longest


def size(count: float) -> str:
    """Format a number of bytes: `1.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}" if unit == "GB" and count < 100 else f"{count:.0f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Format seconds: `40 ms`, `1.2 s`, `4 min`, `2.5 h`."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.2g} h"


def _step(plan: Plan, number: int) -> Step:
    """A step of the plan; if the choice depends on the weights, evenly spaced candidates."""
    if not plan.chooses:
        return plan.step(number)
    candidates = plan.candidates(number)
    size = len(candidates.task)
    spread = np.linspace(0, size, min(plan.batch_size, size), endpoint=False).astype(np.int64)
    return plan.chosen(candidates, spread)


def _batches(
    step: Step | Candidates,
    train: Sequence[Tokens],
    ids: NDArray[np.int64],
    accumulate: int,
    apart: bool = False,
) -> Iterator[Examples]:
    """The micro-batches of a step, as in training; `apart`: split further by task."""
    for chunk in np.array_split(np.arange(len(step.task)), accumulate):
        tasks = step.task[chunk]
        for rows in [chunk[tasks == t] for t in np.unique(tasks)] if apart else [chunk]:
            if len(rows):
                pairs = zip(step.task[rows].tolist(), step.index[rows].tolist(), strict=True)
                yield Examples([(train[t], i) for t, i in pairs], ids[step.task[rows]])


def _fitting(batch: Examples, count: Count, room: int | None) -> Examples:
    """As many of the examples as fit into memory: timing must not crash the program."""
    while room is not None and len(batch.items) > 1 and count(*batch.shape) > room:
        batch = batch.first(len(batch.items) // 2)
    return batch


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


def _steps(number: int) -> str:
    return f"{number} step{'s' * (number != 1)}"


def _room(device: torch.device) -> int | None:
    """The memory of the device, in bytes; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system reports it
        return None


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' * (threads > 1)}"
