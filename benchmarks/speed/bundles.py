"""A bundle to measure with: LoRA of rank 8 with random weights, on tasks with two labels."""

from __future__ import annotations

from pathlib import Path

import torch

import weft
from benchmarks.speed.rows import LABELS


def made_bundle(folder: Path, encoder: str, tasks: int) -> tuple[Path, list[str]]:
    """Make a bundle; returns its folder and the names of its tasks.

    Args:
        folder: where it is saved.
        encoder: an encoder with a tokenizer.
        tasks: the number of tasks.
    """
    names = [f"t{number}" for number in range(tasks)]
    every = [weft.Task(name, labels=LABELS) for name in names]
    model = weft.Model(encoder, every, {"use": "lora", "rank": 8}, seed=1)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn_like(parameter))
    return model.save(folder), names
