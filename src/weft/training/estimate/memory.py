"""The memory of training, computed from the model's tensors and a few small passes.

Weights, gradients and AdamW's two moments follow from the model's tensors. The activations that R rows of L
tokens keep for the backward pass are a polynomial,

    bytes(R, L) = (a₀ + a₁·R)·(b₀ + b₁·L + b₂·L²) multiplied out: six terms,

for every encoder, method and attention. Six tiny forward passes, in which the tensors that autograd saves are
counted, therefore determine it for every batch. In addition a block uses a few temporary tensors.
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
"""The counted shapes: two row counts and three lengths up to this, for six terms."""

Count = Callable[[int, int], int]
"""(R, L) → bytes."""


@dataclass(frozen=True)
class Memory:
    """The memory of training at its largest batch, in bytes.

    Attributes:
        weights: the weights of the whole model.
        gradients: the gradients of what trains.
        optimiser: AdamW's two moments of what trains.
        activations: the tensors that the forward pass keeps for the backward pass.
        working: the temporary tensors of a block in training.
        evaluation: the temporary tensors of a block in evaluations, which keep no activations.
        rows: the number of rows of the largest batch.
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
        """The memory of a pass, in training or evaluation, whichever is larger."""
        return max(self.activations + self.working, self.evaluation)

    @property
    def peak(self) -> int:
        """The sum of all."""
        return self.weights + self.gradients + self.optimiser + self.averages + self.passing

    def as_dict(self) -> dict[str, int]:
        """All fields, and the peak."""
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
        activations: the result of `count_activations`.
        training: the rows R and their length L in training.
        evaluation: the same for a pass without backward.
        apart: the number of tasks whose gradients are stored separately until they are merged; 0: none.
        averaged: whether there is a moving average of what trains.
    """
    items = list(owned(model))
    size = 4  # float32: the only dtype of weights that a model supports
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
    """The memory that the forward pass keeps for the backward pass, for any batch, [R, L] → bytes.

    For mixed rows this counts the `reference` kernels: others keep less, depending on the batch.

    Args:
        model: the model; its train/eval mode is restored, and nothing else changes.
        mixed: whether the rows of a batch have several tasks.
        precision: the autocast context of training; None: none.
    """
    longest = min(LONGEST, model.max_length)
    shapes = [(rows, max(1, longest * part // 4)) for rows in ROWS for part in (1, 2, 4)]
    device = next(model.parameters()).device
    training, kernels = model.training, model.kernels
    model.train()
    model.kernels = "reference"
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            counts = [kept_bytes(model, *_rows(model, r, n, mixed), precision) for r, n in shapes]
    finally:
        model.train(training)
        model.kernels = kernels
    terms = np.linalg.solve(np.array([_powers(*shape) for shape in shapes]), np.array(counts, float))

    def count(rows: int, length: int) -> int:
        return max(0, round(float(_powers(rows, length) @ terms)))

    return count


def kept_bytes(
    model: Model,
    inputs: dict[str, Tensor],
    task: Tensor,
    precision: AbstractContextManager[object] | None = None,
) -> int:
    """The bytes that autograd saves in one forward pass, heads included; each storage counts once."""
    weights = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    kept: dict[int, Tensor] = {}  # holds the tensors: freed memory would be reused and counted again

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in weights:
            kept.setdefault(storage, tensor.detach())
        # Not the tensor itself: a node that holds its own output would never be freed. Its graph would tie
        # later backward passes to this stream, and a CUDA graph could not be captured on another stream.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), precision or nullcontext():
        output = model(**inputs, task=task)
        total = sum(logits.float().sum() for logits in output.by_shape.values())
    del total
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def working_memory(model: Model, rows: int, length: int) -> int:
    """The approximate size of a block's temporary tensors, in its larger sub-layer, in bytes.

    With S the attention scores, W the hidden states and F the feed-forward states: 4·S + 3·W or 2·F + 4·W.
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
    """Rows of random tokens, one of them padded, so that there is a mask as in training."""
    device = next(model.parameters()).device
    vocabulary = int(_config(model).vocab_size)
    ids = torch.randint(vocabulary, (rows, length), device=device)
    mask = torch.ones(rows, length, dtype=torch.long, device=device)
    mask[-1, -1] = 0
    task = torch.arange(rows) % len(model.tasks) if mixed else torch.zeros(rows, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": mask}, task
