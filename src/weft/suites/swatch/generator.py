"""Generate the rows of the tasks from their patterns."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from weft.errors import WeftError, did_you_mean
from weft.suites.swatch import acceptability, entailment, paraphrase, question, sentiment, similarity
from weft.suites.swatch.grammar import Draw
from weft.suites.swatch.table import SPLITS, SWATCH
from weft.utils.files import write_text

Row = dict[str, str | float]

# part of every seed: a new number means a new suite
_VERSION = 1

_BUILDERS: Mapping[str, Callable[[Draw], Row]] = {
    "sentiment": sentiment.row,
    "question": question.row,
    "paraphrase": paraphrase.row,
    "entailment": entailment.row,
    "similarity": similarity.row,
    "acceptability": acceptability.row,
}


def generate(task: str, split: str) -> list[Row]:
    """Return the rows of one split of one task; equal on every machine and Python version.

    Args:
        task: a name in `SWATCH`.
        split: `train`, `validation` or `test`.

    Returns:
        One dict per row: the task's text columns, its label column (a label's name, or a number from 0 to 5)
        and `pattern`, the construction that the row was built with, for the analysis of errors.
    """
    if task not in SWATCH:
        raise WeftError(f"swatch has no task {task!r}; {did_you_mean(task, SWATCH)}")
    if split not in SPLITS:
        raise WeftError(f"swatch has no split {split!r}; {did_you_mean(split, SPLITS)}")
    return [dict(row) for row in _splits(task)[split]]


def write(folder: str | Path) -> list[Path]:
    """Write the suite as `folder`/TASK/SPLIT.jsonl, one JSON object per line.

    Returns:
        The files written.
    """
    paths = []
    for task in SWATCH:
        for split in SPLITS:
            path = Path(folder) / task / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [json.dumps(row) + "\n" for row in generate(task, split)]
            write_text(path, "".join(lines))
            paths.append(path)
    return paths


@functools.cache
def _splits(task: str) -> dict[str, list[Row]]:
    """All splits of a task, generated together because no text may occur in two rows of any splits."""
    texts = SWATCH[task].texts
    seen: set[str] = set()
    splits: dict[str, list[Row]] = {}
    for split in SPLITS:
        draw = Draw(f"swatch/{_VERSION}/{task}/{split}")
        rows: list[Row] = []
        while len(rows) < SWATCH[task].rows[split]:
            row = _BUILDERS[task](draw)
            new = {str(row[column]) for column in texts}
            if len(new) == len(texts) and seen.isdisjoint(new):
                seen |= new
                rows.append(row)
        splits[split] = rows
    return splits
