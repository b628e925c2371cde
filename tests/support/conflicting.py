"""Gradients of tasks that often conflict, and how much a merged gradient harms a task."""

from __future__ import annotations

import torch


def gradients(seed, tasks, width, spread=1.0):
    """Rows of very different length that often conflict, [tasks, width]."""
    drawn = torch.Generator().manual_seed(seed)
    rows = torch.randn(tasks, width, generator=drawn, dtype=torch.float64)
    return rows * torch.exp(spread * torch.randn(tasks, 1, generator=drawn, dtype=torch.float64))


def gramian(rows):
    return rows @ rows.T


def worst(rows, weights):
    """The least product of the merged gradient with a task's, relative to the lengths that went into it."""
    lengths = rows.norm(dim=1)
    return float(((rows @ (weights @ rows)) / (lengths * (weights.abs() @ lengths))).min())
