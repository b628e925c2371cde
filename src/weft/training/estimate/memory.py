"""The memory that training takes: counted, not guessed.

Weights, gradients and AdamW's two moments follow from the model's tensors. What the backward pass needs of R
rows of L tokens is a polynomial,

    bytes(R, L) = (a₀ + a₁·R)·(b₀ + b₁·L + b₂·L²) multiplied out: six terms,

for every encoder, method and attention: so six tiny forward passes, in which autograd is asked what it keeps,
tell it for every batch. Beside it a block works with a few tensors that are dropped at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.model.ownership import owned

if TYPE_CHECKING:
    from weft.model.model import Model

ROWS = (2, 4)
LONGEST = 32
"""The shapes that are counted: two numbers of rows and three lengths up to this, for six terms."""

Count = Callable[[int, int], int]
"""(R, L) → bytes."""


@dataclass(frozen=True)
class Memory:
    """What training holds at its largest batch, in bytes.

    Attributes:
        weights: of the whole model.
        gradients: of what trains.
        optimiser: AdamW's two moments of what trains.
        activations: what the forward pass keeps for the backward pass.
        working: what a block works with besides.
        evaluation: what a block works with when the model is evaluated, and there are no activations.
        rows: the rows of that batch.
        length: their length in tokens.
        averages: the moving average of what trains (`train.ema`).
    """

    weights: int
    gradients: int
    optimiser: int
    activations: int
    working: int
    evaluation: int
    rows: int
    length: int
    averages: int = 0

    @property
    def passing(self) -> int:
        """What a pass takes, of training or of an evaluation, whichever is larger."""
        return max(self.activations + self.working, self.evaluation)

    @property
    def peak(self) -> int:
        """All of it together."""
        return self.weights + self.gradients + self.optimiser + self.averages + self.passing

    def as_dict(self) -> dict[str, int]:
        """Every number, the peak too."""
        return {"peak": self.peak, **vars(self)}


def memory_at(
    model: Model,
    activations: Count,
    training: tuple[int, int],
    evaluation: tuple[int, int] = (0, 0),
    apart: int = 0,
    averaged: bool = False,
) -> Memory:
    """The memory of a run whose largest batches have these shapes.

    Args:
        model: the model; it may be on the meta device.
        activations: of `count_activations`.
        training: the rows R and their length L in training.
        evaluation: the same of a pass without a backward.
        apart: how many tasks' gradients are held apart until they are merged; 0: none.
        averaged: whether a moving average of what trains is kept.
    """
    items = list(owned(model))
    size = 4  # float32: the only type of weights that a model takes
    trained = sum(item.numel for item in items if item.trains) * size
    shared = sum(i.numel for i in items if i.trains and not i.owner.startswith("task:")) * size
    held = sum(item.numel for item in items) * size + sum(b.nbytes for b in model.buffers())
    return Memory(
        weights=held,
        gradients=trained + apart * shared,
        optimiser=2 * trained,
        activations=activations(*training),
        working=working_memory(model, *training),
        evaluation=working_memory(model, *evaluation),
        rows=training[0],
        length=training[1],
        averages=trained if averaged else 0,
    )


def count_activations(
    model: Model, mixed: bool = False, precision: AbstractContextManager[object] | None = None
) -> Count:
    """How much the forward pass keeps for the backward pass, for any batch, [R, L] → bytes.

    Of mixed rows it is what the `reference` kernels keep: others keep less, by how much depends on the batch.

    Args:
        model: the model; its mode is put back, and nothing else of it changes.
        mixed: whether the rows of a batch have several tasks.
        precision: autocast or nothing, as in training.
    """
    longest = min(LONGEST, model.max_length)
    shapes = [(rows, max(1, longest * part // 4)) for rows in ROWS for part in (1, 2, 4)]
    device = next(model.parameters()).device
    training, kernels = model.training, model.kernels
    model.train()
    model.kernels = "reference"
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            found = [kept_bytes(model, *_rows(model, r, n, mixed), precision) for r, n in shapes]
    finally:
        model.train(training)
        model.kernels = kernels
    terms = np.linalg.solve(np.array([_powers(*shape) for shape in shapes]), np.array(found, float))

    def count(rows: int, length: int) -> int:
        return max(0, round(float(_powers(rows, length) @ terms)))

    return count


def kept_bytes(
    model: Model,
    inputs: dict[str, Tensor],
    task: Tensor,
    precision: AbstractContextManager[object] | None = None,
) -> int:
    """What autograd keeps of one forward pass, heads included, in bytes: each piece of memory once."""
    weights = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    kept: dict[int, Tensor] = {}  # the tensors themselves: memory that is freed would be counted again

    def pack(tensor: Tensor) -> Tensor:
        where = tensor.untyped_storage()._cdata
        if where not in weights:
            kept.setdefault(where, tensor.detach())
        # Not the tensor itself: a node that held its own output would never be freed. Its graph would tie
        # later backward passes to this stream, and a CUDA graph could not be captured on another.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), precision or nullcontext():
        output = model(**inputs, task=task)
        total = sum(logits.float().sum() for logits in output.by_shape.values())
    del total
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def working_memory(model: Model, rows: int, length: int) -> int:
    """About what a block works with and drops: the larger of its two sub-layers, in bytes.

    With S the attention's scores, W a row's states and F the feed-forward layer's: 4·S + 3·W or 2·F + 4·W.
    """
    config: Any = _config(model)
    scores = rows * int(config.num_attention_heads) * length**2
    states = rows * length * int(config.hidden_size)
    wide = getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", 4 * config.hidden_size)
    return 4 * max(4 * scores + 3 * states, 2 * rows * length * int(wide) + 4 * states)


def _config(model: Model) -> Any:
    encoder: Any = model.encoders[0]
    return encoder.config


def _powers(rows: int, length: int) -> NDArray[np.float64]:
    return np.array([r * n for r in (1, rows) for n in (1, length, length**2)], float)


def _rows(model: Model, rows: int, length: int, mixed: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Rows of any tokens, one of them padded, so that there is a mask as in training."""
    device = next(model.parameters()).device
    vocabulary = int(_config(model).vocab_size)
    ids = torch.randint(vocabulary, (rows, length), device=device)
    mask = torch.ones(rows, length, dtype=torch.long, device=device)
    mask[-1, -1] = 0
    task = torch.arange(rows) % len(model.tasks) if mixed else torch.zeros(rows, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": mask}, task
