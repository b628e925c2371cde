"""Three tasks, a batch of them and its logits, for tests of reversible patches."""

from __future__ import annotations

import torch

import weft

TASKS = [weft.Task("a", size=2), weft.Task("b", size=3), weft.Task("c", "regress", size=1)]


def inputs_of(rows=6, length=8):
    torch.manual_seed(0)
    ids = torch.randint(5, 20, (rows, length))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask, "task": torch.arange(rows) % len(TASKS)}


def logits(output):
    return torch.cat([x.float().flatten() for x in output.by_shape.values()])
