"""Compares a model of transformers with the weft model that it was made from, on random rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.interop.hf.forms import CHOICE, QUESTION
from weft.interop.hf.head import scale_of

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

ROWS = 4
LONGEST = 24
TOLERANCE = 1e-3
"""The largest accepted difference, relative to the largest logit: a wrong map is far above it."""


@torch.no_grad()
def largest_difference(model: Model, task: Task, exported: Any, auto_class: str) -> float:
    """Return the largest difference of logits between both models; raise an error if it is no rounding.

    Args:
        model: the weft model, in eval mode.
        task: its task.
        exported: the model of transformers, in eval mode.
        auto_class: the class that loads it.
    """
    ids, mask = random_rows(model)
    real = mask.bool()
    device = next(model.heads.parameters()).device
    output = model.run(
        ids.to(device), mask.to(device), task=torch.full((len(ids),), model.task_id(task.name))
    )
    factor, term = scale_of(task)
    expected = output.by_shape[task.head].float().cpu() * factor + term
    logits = logits_of(exported, ids, mask, auto_class)
    if logits.dim() == 3:
        expected, logits = expected[real], logits[real]
    difference = float((logits - expected).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(expected.abs().max())):  # NaN is refused too
        from transformers import __version__ as release

        raise WeftError(
            f"task {task.name!r}: {type(exported).__name__} of transformers {release} computes other logits "
            f"than weft, the largest difference is {difference:.2g}; nothing was written. This is a mistake "
            "of weft or a change in transformers: please report it with both versions"
        )
    return difference


def logits_of(exported: Any, ids: Tensor, mask: Tensor, auto_class: str) -> Tensor:
    """The logits of a model of transformers in weft's shapes: [R, C], or [R, L, C] of every token."""
    logits: Tensor
    if auto_class == CHOICE:
        logits = exported(input_ids=ids[None], attention_mask=mask[None]).logits.view(-1, 1)
        return logits
    output = exported(input_ids=ids, attention_mask=mask)
    is_span = auto_class == QUESTION
    logits = torch.stack([output.start_logits, output.end_logits], -1) if is_span else output.logits
    return logits


def random_rows(model: Model) -> tuple[Tensor, Tensor]:
    """Token ids and mask of padded random rows, [R, L]; equal in every call."""
    config: Any = model.encoders[0].config
    length = min(LONGEST, model.max_length, model.longest or LONGEST)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, config.vocab_size, (ROWS, length), generator=generator)
    ids = torch.where(ids == model.pad_id, (model.pad_id + 1) % config.vocab_size, ids)
    lengths = torch.linspace(length, max(1, length // 2), ROWS).long()
    mask = (torch.arange(length) < lengths[:, None]).long()
    return ids.where(mask.bool(), torch.tensor(model.pad_id)), mask
