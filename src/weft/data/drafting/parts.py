"""Part: the rows of one split of a drafted task: a file, or the rows of a file with one value in a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.data.drafting.column import key_of
from weft.data.drafting.names import SPLIT_COLUMNS, SPLITS, plain
from weft.data.drafting.sample import Sample, read_sample
from weft.data.readers.problem import DataError


@dataclass(frozen=True)
class Part:
    """The rows of one split.

    Attributes:
        sample: the file.
        column: the column that says which split a row belongs to; empty if the file is the split.
        value: the value of that column in the rows of this split.
    """

    sample: Sample
    column: str = ""
    value: str = ""

    def values(self, columns: Sequence[str]) -> tuple[dict[str, list[object]], bool]:
        """Return the values of some columns in the rows of this split, and whether they are all."""
        if not self.column:
            return self.sample.values(columns)
        values, complete = self.sample.values([*columns, self.column])
        keep = [key_of(value) == self.value for value in values[self.column]]
        return {
            column: [value for value, kept in zip(values[column], keep, strict=True) if kept]
            for column in columns
            if column in values
        }, complete

    @property
    def options(self) -> dict[str, Any]:
        """The options of the file that select these rows."""
        return {"where": {self.column: self.value}} if self.column else {}


@dataclass(frozen=True)
class Parts:
    """The splits of a task.

    Attributes:
        splits: split → its rows; `train` is always there.
        left_out: split → the file and why it is not used.
        notes: what a user should know.
    """

    splits: dict[str, Part]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def without(self, split: str, why: str) -> None:
        """Leave out a split."""
        self.left_out[split] = why
        del self.splits[split]


def read_parts(files: Mapping[str, Path]) -> Parts:
    """Read samples of the files of a task; a single file may name the split of each row in a column.

    A validation or test file that cannot be read is left out; an unreadable training file raises.
    """
    train = read_sample(files["train"])
    parts = Parts({"train": Part(train)})
    for split, path in files.items():
        if split == "train":
            continue
        try:
            parts.splits[split] = Part(read_sample(path))
        except DataError as wrong:
            parts.left_out[split] = str(wrong)
    if len(files) == 1:
        parts.splits.update(_by_column(train, parts.notes))
    return parts


def _by_column(sample: Sample, notes: list[str]) -> dict[str, Part]:
    """Return the splits that a column such as `split` names; {} if there is none."""
    for name in sample.columns:
        if plain(name) not in SPLIT_COLUMNS:
            continue
        values = list(
            dict.fromkeys(key_of(cell) for cell in sample.values([name])[0][name] if cell is not None)
        )
        splits: dict[str, Part] = {}
        for value in values:
            split = SPLITS.get(value.strip().lower())
            if split is not None and split not in splits:
                splits[split] = Part(sample, name, value)
        if "train" in splits:
            unused = [value for value in values if value not in {part.value for part in splits.values()}]
            if unused:
                notes.append(f"rows with {name} {', '.join(map(repr, unused[:5]))} are not used")
            return splits
        if len(values) > 1 and len(values) <= 20:
            notes.append(
                f"column {name!r} with the values {', '.join(map(repr, values[:5]))} is not used: "
                "splits are recognised by words such as train, dev and test"
            )
    return {}
