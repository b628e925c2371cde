"""Looking over the data of all tasks before any training."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.data.duplicates import duplicates
from weft.data.problem import Problem
from weft.data.report import Facts, Finding, Report
from weft.data.split import SHOWN, Split, collect_split
from weft.data.tokens import tokenise
from weft.tasks.task import SPLITS, Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRUNCATED = 0.05
"""The share of truncated rows above which `check` warns."""
NEED_VARIETY = ("pearson", "spearman", "matthews")
"""Metrics that are not defined where every label is the same."""


def check(
    tasks: Sequence[Task],
    tokenizer: PreTrainedTokenizerBase | None = None,
    max_length: int = 128,
    cache: str | Path | None = None,
    most: int = SHOWN,
) -> Report:
    """Report everything that is wrong or odd with the data of the tasks.

    A problem of the data never raises: it becomes a finding, and the next split is looked at. Sound splits
    are tokenised into the cache, where training finds them.

    Args:
        tasks: the tasks.
        tokenizer: the encoder's; without it nothing is said about lengths.
        max_length: where rows are cut, in tokens.
        cache: the cache's folder (see `tokenise`).
        most: how many problems of a split are listed one by one; the others are counted.
    """
    report = Report()
    for task in tasks:
        splits: dict[str, Split] = {}
        for name in SPLITS:
            if name not in task.files and (task.files or not task.hub or name == "test"):
                report.findings.extend(_no_file(task, name))
                continue
            split, problems = collect_split(task, name)
            report.findings.extend(_listed(task, name, problems, most))
            if split is None:
                continue
            splits[name] = split
            facts = _facts(split, bool(problems), tokenizer, max_length, cache)
            report.facts.append(facts)
            report.findings.extend(_oddities(split, facts, max_length))
        report.findings.extend(duplicates(splits))
    return report


def _no_file(task: Task, split: str) -> Iterator[Finding]:
    # nothing needs a test split, and a hub's is looked at only when it is asked for
    if split != "test":
        use = "to train on" if split == "train" else "to choose the best model by"
        message = f"the task has no {split!r} split, which is needed {use}; give it a file: {split}: FILE"
        yield Finding("error", task.name, split, None, None, None, None, message)


def _listed(task: Task, split: str, problems: list[Problem], most: int) -> Iterator[Finding]:
    for p in problems[:most]:
        yield Finding("error", task.name, split, p.source, p.row, p.column, p.value, p.message, p.unit)
    if rest := problems[most:]:
        message = f"… and {len(rest)} more problems in this split, the last at {rest[-1].place}"
        yield Finding("error", task.name, split, rest[0].source, None, None, len(rest), message, rest[0].unit)


def _facts(
    split: Split,
    has_problems: bool,
    tokenizer: PreTrainedTokenizerBase | None,
    max_length: int,
    cache: str | Path | None,
) -> Facts:
    facts = Facts(split.task.name, split.split, split.source, len(split), _label_facts(split))
    if tokenizer is None:
        return facts
    # the sound rows of a split with problems are never trained on as they are: not worth a place in the cache
    with tempfile.TemporaryDirectory() as scratch:
        full = tokenise(split, tokenizer, max_length, scratch if has_problems else cache).full_lengths
        tokens = float(full.mean()), int(full.max()), float((full > max_length).mean())
    return Facts(facts.task, facts.split, facts.file, facts.rows, facts.labels, *tokens)


def _label_facts(split: Split) -> dict[str, float] | None:
    if split.labels is None:
        return None
    numbers = [
        number
        for label in split.labels
        for number in (label if isinstance(label, list | tuple) else [label])
        if isinstance(number, int | float)
    ]
    if split.task.labels:
        counts = Counter(numbers)
        return {name: counts[i] for i, name in enumerate(split.task.labels)}
    return {"min": min(numbers), "mean": sum(numbers) / len(numbers), "max": max(numbers)} if numbers else {}


def _oddities(split: Split, facts: Facts, max_length: int) -> Iterator[Finding]:
    """What training would accept and the user should know."""

    def warning(message: str, column: str | None = None, value: object = None) -> Finding:
        return Finding(
            "warning", split.task.name, split.split, split.source, None, column, value, message, split.unit
        )

    column = ", ".join(split.task.label_columns)
    if len(split) == 1:
        yield warning("the split has 1 row: too few to learn from or to measure by", value=1)
    if split.labels is not None and len(split) > 1:
        constant = all(label == split.labels[0] for label in split.labels)
        if split.task.labels and facts.labels is not None:
            absent = [name for name, count in facts.labels.items() if not count]
            if absent and split.split != "test":
                message = f"no row has the label {' or '.join(map(repr, absent))}, which the task lists"
                yield warning(message, column, ", ".join(absent))
        elif constant:
            yield warning("every row has the same label", column, split.labels[0])
        undefined = [metric for metric in split.task.metrics if metric in NEED_VARIETY]
        if constant and undefined and split.split != "train":
            message = f"every row has the same label, so {' and '.join(undefined)} cannot be computed"
            yield warning(message, column, split.labels[0])
    if facts.truncated is not None and facts.truncated > TRUNCATED:
        message = (
            f"{facts.truncated:.1%} of the rows are longer than max_length {max_length} and lose their end "
            f"(the longest has {facts.max_tokens} tokens); raise train.max_length"
        )
        yield warning(message, ", ".join(split.task.texts), round(facts.truncated, 4))
