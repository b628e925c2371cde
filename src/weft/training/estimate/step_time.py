"""How long training takes on this machine: a few real steps are timed, and the others follow from their size.

A batch of R rows of L tokens costs about

    cost = R·L·(P + L·layers·(2·d + 64·heads)),

P the weights of the maps that every token goes through; the second term is the attention over pairs of
tokens, an entry of its scores taken for 64 products beside its own. A step takes a + b·cost seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
"""How often a batch is timed; the median counts."""


class Examples(NamedTuple):
    """Some examples: (tokens, example) and the model's task id of each."""

    items: Sequence[tuple[Tokens, int]]
    task: NDArray[np.int64]

    def first(self, count: int) -> Examples:
        """So many of them."""
        return Examples(self.items[:count], self.task[:count])

    @property
    def shape(self) -> tuple[int, int]:
        """The rows R and their length L in one batch."""
        rows = sum(int(tokens.row_counts[i]) for tokens, i in self.items)
        return rows, max(int(tokens.lengths[i]) for tokens, i in self.items)


@dataclass(frozen=True)
class Rate:
    """Seconds = fixed + slope·cost."""

    fixed: float
    slope: float

    def seconds(self, cost: float) -> float:
        """The time of a batch of this cost."""
        return self.fixed + self.slope * cost


class Costs:
    """What a batch costs a model, by its shape.

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
        """The cost of batches, of any shape."""
        rows, length = np.asarray(rows, float), np.asarray(length, float)
        return rows * length * (self._maps + length * self._pairs)


def time_training(
    model: Model, training: Training, batches: Sequence[Examples], costs: Costs, budget: float
) -> tuple[Rate, int]:
    """How long a forward pass, a backward pass and the optimiser's step take; the weights stay as they are.

    Args:
        model: the model, on its device.
        training: how it is to be trained.
        batches: real ones, the most typical first. What would take too long is timed on fewer examples.
        costs: of the model.
        budget: seconds that may be spent, about.

    Returns:
        The rate, and how many batches were timed.
    """
    device = next(model.parameters()).device
    with left_as_it_is(model):
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
    """How long a forward pass takes when nothing is trained; see `time_training`."""
    device = next(model.parameters()).device
    with left_as_it_is(model), torch.no_grad():
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
    seconds(few)  # the first pass sets things up
    a_cost = seconds(few) / float(costs.of(*few.shape))  # more than it will be: a small batch is slow
    end = time.perf_counter() + budget
    points: list[tuple[float, float]] = []
    for number, batch in enumerate(batches):
        left = end - time.perf_counter()
        if points and left <= 0:
            break
        # an equal part of what is left for each, in which a batch is run three times
        allowed = max(left, budget / 10) / (len(batches) - number) / PASSES
        cost = float(costs.of(*batch.shape))
        share = min(1.0, allowed / (a_cost * cost))
        chosen = batch.first(max(1, int(share * len(batch.items))))
        cost = float(costs.of(*chosen.shape))
        taken = float(np.median([seconds(chosen) for _ in range(PASSES)]))
        points.append((cost, taken))
        a_cost = min(a_cost, taken / cost)
    return fitted_line(points), len(points)


def fitted_line(points: Sequence[tuple[float, float]]) -> Rate:
    """The line nearest to the points that neither begins below zero nor falls."""
    cost, taken = np.array(points).T
    if len(set(cost.tolist())) > 1:
        slope, fixed = np.polyfit(cost, taken, 1)
        if slope > 0 and fixed >= 0:
            return Rate(float(fixed), float(slope))
    return Rate(0.0, float(taken.sum() / cost.sum()))


@contextmanager
def left_as_it_is(model: Model) -> Iterator[None]:
    """Inside, the model may be trained with lr 0; then mode, gradients and random numbers are as before."""
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
