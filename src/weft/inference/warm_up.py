"""`Model.capture`: capture shapes before the first request arrives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.inference.captured import CapturedModel
from weft.inference.captures import input_names
from weft.inference.ladder import FEW, ROWS, Ladder
from weft.inference.precision import Precision, checked_precision

if TYPE_CHECKING:
    from weft.model.model import Model

MINILM = 384
"""The width of MiniLM."""
OVERHEAD: dict[Precision, float] = {"float32": 1800.0, "bf16": 8000.0}
"""What a captured pass over MiniLM costs besides its rows, in token positions. On an H200 a pass over r rows
of L tokens took 1.15 ms + 0.64 µs · r · L in float32, and 0.94 ms + 0.11 µs · r · L in bf16."""
WIDER = 1.25
"""Wider encoders cost more per position, so that the same time is fewer of them: the shape of BERT-base, of
twice the width, took 3.1 ms + 4.1 µs · r · L in float32, 760 positions."""


def capture(
    model: Model,
    precision: Precision = "float32",
    compiled: bool = False,
    lengths: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
) -> None:
    """Capture the forward passes of a model on a GPU, so that its first requests are as fast as later ones.

    From then on `predict`, `predict_all` and `evaluate` run in this precision, until `Model.release`. Shapes
    that are not listed here, and those of `predict_all`, are captured when they are needed.

    Example:
        >>> model.to("cuda").capture(precision="bf16")

    Args:
        model: a model on a CUDA device, of any method but `separate`.
        precision: `float32`, or `bf16`, which is faster and less exact.
        compiled: whether to compile the encoder too. Capture before other threads use the model. Until it is
            released, it cannot be saved, copied, loaded or trained.
        lengths: row lengths in tokens, each padded to a length of the ladder; by default all up to
            `max_length`.
        rows: numbers of rows per batch; by default those of the ladder, up to a full batch of each length.
    """
    checked_precision(precision)
    _check_device(next(model.parameters()).device)
    shapes = _shapes(model, lengths, rows)
    with model.lock:
        model.captures.release()
        captured = CapturedModel(model, precision, compiled)
        try:
            for count, length in shapes:
                inputs = _blank(model, count, length)
                captured.logits(inputs, count if "example" in inputs else None)
        except BaseException:
            captured.close()
            raise
        # with very many lengths the first graphs have been dropped again
        if lengths is None and rows is None and captured.shapes == len(shapes):
            captured.overhead = _overhead(model, precision)
        model.captures.request(model, captured)


def _check_device(device: torch.device) -> None:
    if device.type != "cuda":
        raise WeftError(
            f"capture needs a CUDA GPU, and the model is on {device.type}; move it with model.to('cuda'), or "
            "call predict without capture"
        )


def _overhead(model: Model, precision: Precision) -> float:
    """What a pass costs besides its rows, in token positions.

    The number of blocks cancels, because both costs grow with it.
    """
    width = model.encoder_source.model.config.hidden_size
    return OVERHEAD[precision] * (MINILM / width) ** WIDER


def _shapes(model: Model, lengths: Sequence[int] | None, rows: Sequence[int] | None) -> list[tuple[int, int]]:
    """Return (rows, length) of the batches to capture, largest first: the others share its memory."""
    shapes = set()
    for ladder in (Ladder(model.longest), Ladder(model.longest, coarse=True)):
        for length in map(ladder.length, lengths or range(1, model.max_length + 1)):
            full = ladder.full(length)
            # besides `FEW` rows there may be one spare row, which raises them to the next number
            counts = rows or ((*ROWS, full) if not ladder.coarse else ROWS[: ROWS.index(FEW) + 2])
            shapes |= {(min(ladder.rows(count, length), full), length) for count in counts}
    return sorted(shapes, key=lambda shape: -shape[0] * shape[1])


def _blank(model: Model, rows: int, length: int) -> dict[str, Tensor]:
    """Make a batch of this shape with the inputs of the model's batches; each row has one token."""
    ids = torch.full((rows, length), model.pad_id)
    mask = torch.zeros(rows, length, dtype=torch.long)
    mask[:, 0] = 1
    inputs = {"input_ids": ids, "attention_mask": mask}
    for name in input_names(model):
        inputs[name] = torch.arange(rows) if name == "example" else torch.zeros_like(ids)
    return {**inputs, "task": torch.arange(rows) % len(model.tasks)}
