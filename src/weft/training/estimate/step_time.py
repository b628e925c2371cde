"""The time of eager steps on this machine: a few real steps are timed, and a cost model predicts the others.

A batch of R rows of L tokens costs about

    cost = R·L·(P + L·layers·(2·d + 64·heads)),

where P is the number of weights in the linear maps that every token passes. The second term is the attention
over pairs of tokens, where each score counts as 64 further products. A step takes a + b·cost seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from weft.data.batching.batch import make_batch
from weft.training.optim.clip import clip_by
from weft.training.optim.owners import OwnerOptimizers
from weft.training.optim.precision import precision
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model

PASSES = 3
"""The number of passes per timed batch; their median counts."""


class Examples(NamedTuple):
    """The examples of a batch: (tokens, example) and the model's task id of each."""

    items: Sequence[tuple[Tokens, int]]
    task: NDArray[np.int64]

    def first(self, count: int) -> Examples:
        """The first `count` examples."""
        return Examples(self.items[:count], self.task[:count])

    @property
    def shape(self) -> tuple[int, int]:
        """The rows R and their length L in one batch."""
        rows = sum(int(tokens.row_counts[i]) for tokens, i in self.items)
        return rows, max(int(tokens.lengths[i]) for tokens, i in self.items)


@dataclass(frozen=True)
class Rate:
    """Seconds = fixed + slope·cost.

    Attributes:
        fixed: seconds per batch, whatever its size.
        slope: seconds per unit of cost.
        spread: the longest over the shortest time of the same batch: about 1 on a quiet machine.
    """

    fixed: float
    slope: float
    spread: float = 1.0

    def seconds(self, cost: float) -> float:
        """The time of a batch of this cost."""
        return self.fixed + self.slope * cost


class Costs:
    """The cost of a batch for a model, by its shape.

    Args:
        model: the model.
    """

    def __init__(self, model: Model) -> None:
        encoder = model.encoders[0]
        tables = {id(m.weight) for m in encoder.modules() if isinstance(m, nn.Embedding)}
        self._maps = sum(p.numel() for p in encoder.parameters() if p.dim() == 2 and id(p) not in tables)
        config: Any = encoder.config
        self._pairs = model.num_layers * (2 * int(config.hidden_size) + 64 * int(config.num_attention_heads))

    def of(self, rows: ArrayLike, length: ArrayLike) -> NDArray[np.float64]:
        """The cost of batches with these rows and lengths, arrays of any shape."""
        rows, length = np.asarray(rows, float), np.asarray(length, float)
        return rows * length * (self._maps + length * self._pairs)


def time_training(
    model: Model, training: Training, batches: Sequence[Examples], costs: Costs, budget: float
) -> tuple[Rate, int]:
    """Time steps: forward pass, backward pass and optimizer; the weights do not change.

    Args:
        model: the model, on its device.
        training: the settings of `train`.
        batches: real batches, the most typical first. Slow ones are timed on fewer examples.
        costs: the cost model of the model's batches.
        budget: about how many seconds may be spent.

    Returns:
        The rate, and the number of batches that were timed.
    """
    device = next(model.parameters()).device
    with restored(model):
        model.train()
        optimizers = OwnerOptimizers(model, lr=0.0, weight_decay=0.0, optimizer=training.optimizer)

        def step(examples: Examples) -> None:
            optimizers.zero_grad()
            batch = make_batch(model, examples.items, examples.task, device)
            with precision(training, device):
                output = model(**batch.inputs)
            model.example_losses(output, batch.labels).mean().backward()
            if training.clip is not None:
                optimizers.clip(training.clip, clip_by(training))
            optimizers.step(np.unique(examples.task).tolist())

        return _timed(step, batches, costs, device, budget)


def time_evaluation(model: Model, batches: Sequence[Examples], costs: Costs, budget: float) -> Rate:
    """Time forward passes in eval mode; see `time_training`."""
    device = next(model.parameters()).device
    with restored(model), torch.no_grad():
        model.eval()

        def run(examples: Examples) -> None:
            model(**make_batch(model, examples.items, examples.task, device).inputs)

        return _timed(run, batches, costs, device, budget)[0]


def _timed(
    run: Callable[[Examples], None],
    batches: Sequence[Examples],
    costs: Costs,
    device: torch.device,
    budget: float,
) -> tuple[Rate, int]:
    def seconds(examples: Examples) -> float:
        began = time.perf_counter()
        run(examples)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    few = batches[0].first(2)
    seconds(few)  # the first pass is a warm-up
    small = float(costs.of(*few.shape)), seconds(few)
    per_cost = small[1] / small[0]  # an upper bound: small batches are slow
    end = time.perf_counter() + budget
    points: list[tuple[float, float]] = []
    spread = 1.0
    for number, batch in enumerate(batches):
        left = end - time.perf_counter()
        if points and left <= 0:
            break
        # the remaining time is divided equally among the batches, and each is run three times
        allowed = max(left, budget / 10) / (len(batches) - number) / PASSES
        count = _affordable(batch, allowed / per_cost, costs)
        taken = seconds(batch.first(count))
        while count < len(batch.items) and 2 * taken <= allowed:
            # a small batch is slow for its size, so more examples fit than its time suggests
            count = min(2 * count, len(batch.items))
            taken = seconds(batch.first(count))
        chosen = batch.first(count)
        cost = float(costs.of(*chosen.shape))
        times = [taken, *(seconds(chosen) for _ in range(PASSES - 1))]
        taken = float(np.median(times))
        spread = max(spread, max(times) / max(min(times), 1e-9))
        points.append((cost, taken))
        per_cost = min(per_cost, taken / cost)
    # one batch alone cannot tell the fixed part of a step from the part that grows with the batch
    line = fitted_line(points if len(points) > 1 else [small, *points])
    return replace(line, spread=spread), len(points)


def _affordable(batch: Examples, cost: float, costs: Costs) -> int:
    """The number of a batch's examples, at least 1, that together have about this cost."""
    share = min(1.0, cost / float(costs.of(*batch.shape)))
    return max(1, int(share * len(batch.items)))


def fitted_line(points: Sequence[tuple[float, float]]) -> Rate:
    """The line that best fits the points and has no negative intercept or slope."""
    cost, taken = np.array(points).T
    if len(set(cost.tolist())) > 1:
        slope, fixed = np.polyfit(cost, taken, 1)
        if slope > 0 and fixed >= 0:
            return Rate(float(fixed), float(slope))
    return Rate(0.0, float(taken.sum() / cost.sum()))


@contextmanager
def restored(model: Model) -> Iterator[None]:
    """Run steps with lr 0 inside; at the end mode, gradients and random generators are restored."""
    training = model.training
    gradients = [p.grad for p in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = None
    device = next(model.parameters()).device
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        model.train(training)
