"""The `train` section of a drafted run file, by the amount of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.data.drafting.draft import TaskDraft

TOKENS_PER_WORD = 1.4
"""Sub-words and punctuation per word, roughly, in English."""
LENGTHS = (64, 128, 256)
"""The values of max_length; a longer text is truncated, or cut into windows."""


def train_settings(drafts: Sequence[TaskDraft]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys of the `train` section, and comments for them.

    Small data is passed through more often: 10 times up to 1,000 rows, 5 times up to 10,000, else 3 times.
    The number of steps is at least 100 and at most 3,000.
    """
    rows = sum(draft.train_rows for draft in drafts)
    batch_size = 16 if rows < 1000 else 32
    epochs = 10 if rows <= 1000 else 5 if rows <= 10_000 else 3
    exact = epochs * rows / batch_size
    steps = int(min(max(_rounded(exact), 100), 3000))
    passes = steps * batch_size / max(rows, 1)
    settings: dict[str, Any] = {"steps": steps, "batch_size": batch_size}
    comments = {"steps": f"about {passes:.2g} passes over {rows:,} training rows"}
    tokens = TOKENS_PER_WORD * max(draft.words for draft in drafts) + 3
    settings["max_length"] = next((length for length in LENGTHS if tokens <= length), LENGTHS[-1])
    long = tokens > LENGTHS[-1]
    words = max(draft.words for draft in drafts)
    comments["max_length"] = f"tokens per row; 95 % of the texts have at most {words} words"
    if long:
        comments["max_length"] += "; longer rows need more memory and time"
    sizes = [draft.train_rows for draft in drafts]
    if len(drafts) > 1 and max(sizes) > 4 * min(sizes):
        settings["sampler"] = "square_root"
        comments["sampler"] = "small tasks are sampled more often than by their size"
    settings["evaluate_every"] = max(_rounded(steps / 5), 20)
    comments["evaluate_every"] = "steps between two evaluations; the best weights are kept"
    return settings, comments


def _rounded(number: float) -> int:
    """Round to a multiple of 10, or of 100 above 1,000."""
    unit = 100 if number > 1000 else 10
    return max(unit, round(number / unit) * unit)
