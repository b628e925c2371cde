"""Check the data of all tasks before training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.data.checks.labels import label_findings
from weft.data.checks.report import Facts, Finding, Report
from weft.data.readers.problem import Problem
from weft.data.readers.table import row_name
from weft.data.splits.duplicates import duplicates
from weft.data.splits.split import SHOWN, Split, collect_split
from weft.data.splits.splits import arrange
from weft.data.splits.task_rows import further_sets
from weft.data.tokens.progress import Tokenizing, tokenizing
from weft.data.tokens.tokens import Tokens, tokenize
from weft.errors import WeftError, words
from weft.tasks.kinds import KINDS
from weft.tasks.task import ALSO, SPLITS, Task
from weft.utils.temporary import scratch_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRUNCATED = 0.05
"""The share of truncated rows above which `check` warns."""
NEED_VARIETY = ("pearson", "spearman", "matthews")
"""Metrics that are undefined if all labels are equal."""


def check(
    tasks: Sequence[Task],
    tokenizer: PreTrainedTokenizerBase | None = None,
    max_length: int = 128,
    cache: str | Path | None = None,
    most: int = SHOWN,
    progress: bool = False,
) -> Report:
    """Report everything that is wrong or odd with the data of the tasks.

    A problem of the data never raises: it becomes a finding, and the check continues with the next split.
    Valid splits are tokenized into the cache, where training reads them.

    Args:
        tasks: the tasks.
        tokenizer: the encoder's tokenizer; without it lengths are not reported.
        max_length: the maximal number of tokens of a row; longer rows are truncated.
        cache: the folder of the token cache (see `tokenize`).
        most: how many problems per split are listed; the rest is counted.
        progress: show the progress of tokenization.
    """
    report = Report()
    with tokenizing(progress) as progress_display:
        for task in tasks:
            for task_or_set in (task, *further_sets(task)):
                _check_task(report, task_or_set, tokenizer, max_length, cache, most, progress_display)
    return report


def _check_task(
    report: Report,
    task: Task,
    tokenizer: PreTrainedTokenizerBase | None,
    max_length: int,
    cache: str | Path | None,
    most: int,
    progress_display: Tokenizing,
) -> None:
    """Add the facts and findings of one task to the report."""
    raw: dict[str, Split] = {}
    broken: set[str] = set()
    for name in SPLITS:
        if name not in task.files and (task.files or not task.hub or name == "test"):
            report.findings.extend(_no_file(task, name))
            continue
        split, problems = collect_split(task, name)
        report.findings.extend(_listed(task, name, problems, most))
        if problems:
            broken.add(name)
        if split is not None:
            raw[name] = split
            report.findings.extend(
                Finding("note", task.name, name, split.source, None, None, None, note, split.unit)
                for note in split.notes
            )
    try:
        rows = arrange(task, raw)
    except WeftError as wrong:  # a split too small to be divided
        report.findings.append(Finding("error", task.name, None, None, None, None, None, str(wrong)))
        return
    for note in rows.notes:
        report.findings.append(Finding("note", task.name, None, None, None, None, None, note))
    for name, split in rows.splits.items():
        # the valid rows of a split with problems are never trained on alone: not worth a cache entry
        with scratch_folder("weft-check") as scratch:
            folder = scratch if rows.parts[name].file in broken else cache
            tokens = None
            if tokenizer is not None:
                callback = progress_display.of((task.name, name), split)
                tokens = tokenize(split, tokenizer, max_length, folder, callback)
            facts = _facts(split, tokens, max_length)
            report.facts.append(facts)
            report.findings.extend(_oddities(split, facts, max_length))
            if tokens is not None:
                report.findings.extend(_of_kind(split, tokens))
                report.tokens[task.name, name] = tokens
    report.findings.extend(duplicates(rows.splits))
    report.findings.extend(label_findings(rows.splits))


def _no_file(task: Task, split: str) -> Iterator[Finding]:
    # test splits are optional (a hub's is read on request only), and further sets need no split
    if split != "test" and ALSO not in task.name and not (split == "validation" and task.cut is not None):
        use = "for training" if split == "train" else "to select the best model"
        message = f"the task has no {split!r} split, which is needed {use}; add it to the task: "
        message += words(f"{split}: FILE", f"files={{{split!r}: FILE}}, or data={{{split!r}: …}}")
        cut = words("cut: 0.1", "cut=0.1")
        message += f", or split off part of the training rows: {cut}" * (split == "validation")
        yield Finding("error", task.name, split, None, None, None, None, message)


def _listed(task: Task, split: str, problems: list[Problem], most: int) -> Iterator[Finding]:
    for p in problems[:most]:
        yield Finding("error", task.name, split, p.source, p.row, p.column, p.value, p.message, p.unit)
    if rest := problems[most:]:
        message = f"… and {len(rest)} more problems in this split, the last at {rest[-1].place}"
        yield Finding("error", task.name, split, rest[0].source, None, None, len(rest), message, rest[0].unit)


def _facts(split: Split, tokens: Tokens | None, max_length: int) -> Facts:
    kind = KINDS[split.task.kind]()
    labels = None if split.labels is None else kind.label_facts(split.labels, split.task)
    facts = Facts(split.task.name, split.split, split.source, len(split), labels, dropped=split.dropped)
    if tokens is None:
        return facts
    full = tokens.full_lengths
    rows = float(tokens.row_counts.mean()), int(tokens.row_counts.max())
    # windows do not truncate
    truncated = 0.0 if kind.windows else float((full > max_length).mean())
    return replace(
        facts,
        mean_tokens=float(full.mean()),
        max_tokens=int(full.max()),
        truncated=truncated,
        mean_rows=rows[0],
        max_rows=rows[1],
    )


def _of_kind(split: Split, tokens: Tokens) -> Iterator[Finding]:
    """The findings of the task's kind."""
    for message, column, value, first, severity in KINDS[split.task.kind]().oddities(tokens):
        row = None if first is None else row_name(split.row[first])
        where = "" if row is None else f" (first {split.unit} {row})"
        yield Finding(
            severity,  # type: ignore[arg-type]
            split.task.name,
            split.split,
            split.source,
            None,
            column,
            value,
            message + where,
            split.unit,
        )


def _oddities(split: Split, facts: Facts, max_length: int) -> Iterator[Finding]:
    """Findings that training accepts but the user should know."""

    def warning(message: str, column: str | None = None, value: object = None) -> Finding:
        return Finding(
            "warning", split.task.name, split.split, split.source, None, column, value, message, split.unit
        )

    column = ", ".join(split.task.label_columns)
    if len(split) == 1:
        yield warning("the split has 1 row: too few for training or evaluation", value=1)
    # a file without missing labels may still drop them
    if any(label is not None for label in split.task.drop) and not split.dropped and split.labels is not None:
        dropped = ", ".join(str(label) for label in split.task.drop if label is not None)
        message = (
            f"no row has a label that the task drops ({dropped}); remove drop or write it as the file does"
        )
        yield replace(warning(message, column, dropped), severity="note")
    if split.labels is not None and len(split) > 1:
        constant = all(label == split.labels[0] for label in split.labels)
        if split.task.labels and facts.labels is not None:
            absent = [name for name in split.task.labels if not facts.labels.get(name)]
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
            f"{facts.truncated:.1%} of the rows are longer than max_length {max_length} and are truncated "
            f"(the longest has {facts.max_tokens} tokens); raise {words('train.max_length', 'max_length')}"
        )
        yield warning(message, ", ".join(split.task.texts), round(facts.truncated, 4))
