"""TaskDraft: a task guessed from its files, with comments on every guess."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.data.drafting.column import Column, profile, word_count
from weft.data.drafting.grouping import FileGroup
from weft.data.drafting.guess import Guess, guess_task
from weft.data.drafting.label_settings import LabelSettings, named_labels, numeric_label
from weft.data.drafting.parts import Parts, read_parts
from weft.data.drafting.question import Choose, Question, take_guess
from weft.data.readers.problem import show
from weft.data.splits.unknown import has_no_label
from weft.tasks.kinds import KINDS
from weft.tasks.task import SPLITS
from weft.tasks.values import is_missing

PROFILED = 5_000
"""How many records of a sample are used to guess the roles of columns."""


@dataclass(frozen=True)
class TaskDraft:
    """A drafted task.

    Attributes:
        name: its name.
        settings: the keys of the run file, in their order.
        comments: a comment for some of these keys.
        about: lines of comment above them.
        suggestions: keys that are written as comments, with a reason.
        unsure: the guesses that the data does not settle, with the answer that was taken.
        notes: what a user should know.
        rows: split → the number of rows, in words.
        labels: the labels in a few words.
        train_rows: the number of training rows; an estimate for large files.
        words: the words of an example; 95 % of the examples have fewer.
        sample_labels: the labels of the sample, if the file is too large to list all labels.
    """

    name: str
    settings: dict[str, Any]
    comments: dict[str, str]
    about: list[str]
    suggestions: list[str]
    unsure: list[tuple[Question, str]]
    notes: list[str]
    rows: dict[str, str]
    labels: str
    train_rows: int
    words: int
    sample_labels: list[str] = field(default_factory=list)


def draft_task(
    group: FileGroup,
    choose: Choose = take_guess,
    fixed: Mapping[str, str] | None = None,
    name_path: Callable[[Path], str] = str,
) -> TaskDraft:
    """Draft a task from its files.

    Args:
        group: the files.
        choose: answers the questions that the data does not settle.
        fixed: answers given beforehand, by `texts`, `label` and `kind`.
        name_path: how the run file names a file.

    Raises:
        WeftError: a file cannot be read, or has no column of texts or labels.
    """
    parts = read_parts(group.files)
    train = parts.splits["train"].sample
    head = {name: values[:PROFILED] for name, values in train.columns.items()}
    columns = [profile(name, values) for name, values in head.items()]
    guess = guess_task(group.name, train.path, columns, head, choose, fixed or {})
    _fit_columns(parts, guess)
    labels = _label_settings(group.name, parts, guess)
    rows = {split: _rows(parts, split) for split in SPLITS if split in parts.splits}
    settings: dict[str, Any] = {"kind": guess.kind, "texts": list(guess.texts)}
    settings |= guess.settings
    settings["label"] = guess.label if isinstance(guess.label, str) else list(guess.label)
    settings |= labels.settings
    comments = {**guess.comments, **labels.comments}
    _files(parts, guess, settings, comments, name_path)
    train_rows = _number(rows["train"])
    if "validation" not in parts.splits:
        settings |= guess.with_cut
        comments |= dict.fromkeys(guess.with_cut, "rows that belong together stay in one split")
        settings["cut"] = cut = 0.2 if train_rows < 1000 else 0.1 if train_rows <= 20_000 else 0.05
        comments["cut"] = (
            f"no validation file: {cut:.0%} of the training rows are used for validation".replace("%", " %")
        )
    about = [", ".join(f"{split} {count} rows" for split, count in rows.items()), *labels.about]
    if unused := _unused(columns, guess, parts):
        about.append(f"columns not used: {', '.join(unused)}")
    about += [f"{split} is left out: {why}" for split, why in parts.left_out.items()]
    notes = [*group.notes, *parts.notes, *labels.notes]
    notes += [note for part in parts.splits.values() for note in part.sample.notes]
    notes += [f"the {split} file is left out: {why}" for split, why in parts.left_out.items()]
    return TaskDraft(
        group.name,
        settings,
        comments,
        [*about, *(f"note: {note}" for note in (*group.notes, *parts.notes, *labels.notes))],
        labels.suggestions,
        guess.unsure,
        notes,
        rows,
        labels.summary,
        train_rows,
        _words(head, guess),
        labels.sample_labels,
    )


def _fit_columns(parts: Parts, guess: Guess) -> None:
    """Leave out files without the columns that the task needs; a test file needs no labels."""
    needed = [*guess.inputs, *guess.label_columns]
    for split in [split for split in parts.splits if split != "train"]:
        sample = parts.splits[split].sample
        wanted = guess.inputs if split == "test" else needed
        if missing := [column for column in wanted if column not in sample.columns]:
            parts.without(split, f"{sample.path.name} has no column {', '.join(map(repr, missing))}")


def _label_settings(name: str, parts: Parts, guess: Guess) -> LabelSettings:
    if guess.kind in ("classify", "multilabel", "tag") and isinstance(guess.label, str):
        return named_labels(name, parts, guess.label, guess.kind, guess.separator, guess.drop)
    if guess.kind in ("regress", "similarity"):
        return numeric_label(parts, guess.label_columns, guess.drop)
    found = LabelSettings()
    # spans, choices, relevances and 0/1 columns have no labels to list
    missing = 0
    for split, part in parts.splits.items():
        values, _ = part.values(guess.label_columns)
        kind = KINDS[guess.kind]()
        counts = [sum(has_no_label(cell, kind) for cell in cells) for cells in values.values()]
        # a test file may have no labels at all
        if split != "test" or any(
            count < len(cells) for count, cells in zip(counts, values.values(), strict=True)
        ):
            missing += sum(counts)
    if missing:
        found.settings["drop"] = [None]
        found.comments["drop"] = f"{missing:,} rows without a label are left out"
    labels = guess.settings.get("labels")
    found.summary = f"{len(labels)}: {', '.join(labels[:3])}" if labels else ""
    return found


def _files(
    parts: Parts,
    guess: Guess,
    settings: dict[str, Any],
    comments: dict[str, str],
    name_path: Callable[[Path], str],
) -> None:
    """Add the files of the splits, with the options that their readers need."""
    for split in SPLITS:
        if split not in parts.splits:
            continue
        part = parts.splits[split]
        options: dict[str, Any] = part.options
        empty = _empty_texts(parts, split, guess)
        if empty:
            options["filled"] = list(guess.texts)
        if guess.separator not in ("", ","):
            options["separated"] = {guess.label_columns[0]: guess.separator}
        if guess.values:
            options["values"] = {guess.label_columns[0]: guess.values}
        settings[split] = part.sample.entry(name_path(part.sample.path), options)
        remarks = [f"{empty:,} rows without a text are left out"] if empty else []
        if part.column:
            remarks.insert(0, f"the rows with {part.column} {part.value!r}")
        if part.sample.options.get("header"):
            remarks.append("the first line names no columns")
        remarks += part.sample.notes
        if remarks:
            comments[split] = "; ".join(remarks)


def _empty_texts(parts: Parts, split: str, guess: Guess) -> int:
    if guess.kind == "tag":
        return 0
    values, _ = parts.splits[split].values(guess.texts)
    return sum(any(map(is_missing, row)) for row in zip(*values.values(), strict=True))


def _rows(parts: Parts, split: str) -> str:
    part = parts.splits[split]
    if not part.column:
        return part.sample.count
    values, complete = part.values([part.column])
    return f"{len(values[part.column]):,}" if complete else f"more than {len(values[part.column]):,}"


def _number(count: str) -> int:
    return int("".join(character for character in count if character.isdigit()))


def _unused(columns: list[Column], guess: Guess, parts: Parts) -> list[str]:
    used = {*guess.inputs, *guess.label_columns, *(part.column for part in parts.splits.values())}
    return [show(c.name, 30)[1:-1] for c in columns if c.name not in used][:10]


def _words(head: Mapping[str, list[object]], guess: Guess) -> int:
    """Return the number of words of a row that 95 % of the examples do not exceed."""
    texts = zip(*(head[text] for text in guess.texts), strict=True)
    choices = list(zip(*(head[column] for column in guess.settings.get("choices", ())), strict=True))
    counts = [sum(map(_length, row)) for row in texts]
    if choices:  # one row per choice
        counts = [n + max(map(_longest, row)) for n, row in zip(counts, choices, strict=True)]
    counts.sort()
    return counts[min(len(counts) - 1, int(0.95 * len(counts)))] if counts else 0


def _length(value: object) -> int:
    """The number of words of a text or of a list of words."""
    return word_count(value) if isinstance(value, str) else len(value) if isinstance(value, list) else 0


def _longest(value: object) -> int:
    """The number of words of the longest text of a list."""
    return max(map(_length, value), default=0) if isinstance(value, list) else _length(value)
