"""The rows of a task's `train`, `validation` and `test` splits: those of its files, or random parts of them.

Training, evaluation and `weft check` all use this module, so that they agree on the rows. In this order:

1. `cut`: without a validation file, a share of the training rows becomes the validation split;
2. `fraction`: a share of the remaining training rows is used; a smaller share is a subset of a larger one;
3. `halves`: the validation rows are halved into `validation`, for model selection, and `test`, for reporting.

Each has separate random draws, so that none changes another; groups of rows are never divided (`subset`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.data.splits.split import Split, load_split
from weft.data.splits.subset import cut, halves, share_of, without_rows
from weft.errors import WeftError, did_you_mean
from weft.tasks.task import SPLITS, Task

Load = Callable[[Task, str], Split]


@dataclass(frozen=True)
class SplitRules:
    """How splits are derived from a task's files.

    Attributes:
        fraction: the share of the training rows that is used, more than 0, at most 1.
        cut: the share of the training rows that becomes the validation split if there is no such file.
        halves: whether the validation rows are halved.
        seed: the random seed of all three.
    """

    fraction: float = 1.0
    cut: float | None = None
    halves: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Part:
    """The origin of a split.

    Attributes:
        rows: its number of rows.
        given: the number of rows of the file that they come from.
        file: the split of that file.
        how: a description, such as "half of 1043 rows, seed 1".
    """

    rows: int
    given: int
    file: str
    how: str


@dataclass(frozen=True, eq=False)
class Prepared:
    """The rows of a task.

    Attributes:
        splits: the rows by split.
        parts: the origin of each split.
        notes: what a user should know about them, in whole sentences.
    """

    splits: dict[str, Split]
    parts: dict[str, Part]
    notes: tuple[str, ...]

    def __getitem__(self, split: str) -> Split:
        return self.splits[split]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """The origin of each split, JSON-serializable."""
        return {name: vars(part) for name, part in self.parts.items()}


def prepare(
    task: Task,
    names: Sequence[str] = ("train", "validation"),
    load: Load = load_split,
    rules: SplitRules | None = None,
) -> Prepared:
    """Read the rows of a task's splits. Only the files that they need are read, each once.

    Args:
        task: the task, with its files.
        names: the requested splits.
        load: a function that reads the rows of a file.
        rules: how splits are derived from files; by default the task's settings.
    """
    rules = rules or rules_of(task)
    raw = {name: load(task, name) for name in files_needed(task, names, rules)}
    whole = arrange(task, raw, rules)
    return Prepared(
        {name: whole.splits[name] for name in names},
        {name: whole.parts[name] for name in names},
        whole.notes,
    )


def load_rows(task: Task, split: str) -> Split:
    """Return the rows of one split as training and evaluation read them; see `prepare`."""
    return prepare(task, (split,))[split]


def files_needed(task: Task, names: Sequence[str], rules: SplitRules | None = None) -> tuple[str, ...]:
    """Return the splits whose files must be read for these splits, in the order of `SPLITS`."""
    for name in names:
        if name not in SPLITS:
            raise WeftError(f"split {name!r} does not exist; {did_you_mean(name, SPLITS)}")
    rules = rules or rules_of(task)
    validation = "train" if _cuts(task, rules) else "validation"
    needed = {"train": "train", "validation": validation, "test": validation if rules.halves else "test"}
    wanted = {needed[name] for name in names}
    return tuple(name for name in SPLITS if name in wanted)


def rules_of(task: Task) -> SplitRules:
    """Return the split rules of a task's settings."""
    return SplitRules(task.fraction, task.cut, task.halves, task.split_seed)


def arrange(task: Task, raw: Mapping[str, Split], rules: SplitRules | None = None) -> Prepared:
    """Derive the splits of a task from the rows of its files; splits of missing files are left out.

    Args:
        task: the task.
        raw: the rows of its files, by split. The validation rows may be those of a further set (`Task.also`),
            which is halved in the same way.
        rules: how splits are derived from files; by default the task's settings.
    """
    rules = rules or rules_of(task)
    splits = dict(raw)
    parts = {name: Part(len(s), len(s), name, f"all {len(s)} rows") for name, s in raw.items()}
    notes: list[str] = []
    if "train" in raw:
        if _cuts(task, rules):
            notes.append(_cut(splits, parts, rules))
        elif rules.cut is not None:
            notes.append(f"task {task.name!r} has a validation file: cut {rules.cut:g} is not used")
        if rules.fraction < 1:
            notes.extend(_fraction(splits, parts, rules))
    if rules.halves:
        splits.pop("test", None)
        parts.pop("test", None)
        if "validation" in splits:
            unread = "test" in task.files
            notes.append(_halves(splits, parts, rules) + "; its test file is not used" * unread)
    return Prepared(
        {name: splits[name] for name in SPLITS if name in splits},
        {name: parts[name] for name in SPLITS if name in parts},
        tuple(notes),
    )


def _cuts(task: Task, rules: SplitRules) -> bool:
    """Whether the validation rows are split off the training rows."""
    # a data set of the hub has a validation split, unless the task itself sets `cut`
    on_hub = bool(task.hub) and not task.files and task.cut is None
    return rules.cut is not None and "validation" not in task.files and not on_hub


def _cut(splits: dict[str, Split], parts: dict[str, Part], rules: SplitRules) -> str:
    """Split off the validation rows; return the note about it."""
    whole, share = splits["train"], rules.cut or 0.0
    splits["train"], splits["validation"] = left, taken = cut(whole, share, rules.seed)
    n = len(whole)
    parts["train"] = Part(
        len(left), n, "train", f"{len(left)} of {n} rows, the others validate, {_by(rules)}"
    )
    parts["validation"] = Part(
        len(taken), n, "train", f"{_percent(share)} of {n} training rows, {_by(rules)}"
    )
    return (
        f"task {whole.task.name!r} has no validation file: {len(taken)} of {n} training rows are used for "
        f"validation (cut {share:g}, split_seed {rules.seed})"
    )


def _fraction(splits: dict[str, Split], parts: dict[str, Part], rules: SplitRules) -> Iterator[str]:
    """Take a share of the training rows; yield the notes about it."""
    whole = splits["train"]
    splits["train"] = train = share_of(whole, rules.fraction, rules.seed)
    how = f"{_percent(rules.fraction)} of {len(whole)} rows, {_by(rules)}"
    parts["train"] = Part(len(train), parts["train"].given, "train", how)
    name = whole.task.name
    yield (
        f"task {name!r} trains on {len(train)} of {len(whole)} rows "
        f"(fraction {rules.fraction:g}, split_seed {rules.seed})"
    )
    if missing := set(without_rows(train)) - set(without_rows(whole)):
        labels = ", ".join(repr(label) for label in whole.task.labels if label in missing)
        yield f"none of these rows of task {name!r} has the label {labels}"


def _halves(splits: dict[str, Split], parts: dict[str, Part], rules: SplitRules) -> str:
    """Halve the validation rows; return the note about it."""
    whole, before = splits["validation"], parts["validation"]
    n = len(whole)
    of = f"{n} rows" if before.file == "validation" else f"{n} rows ({before.how})"
    for half in halves(whole, rules.seed):
        splits[half.split] = half
        parts[half.split] = Part(len(half), before.given, before.file, f"half of {of}, {_by(rules)}")
    return (
        f"task {whole.task.name!r}: its {n} validation rows are halved (split_seed {rules.seed}): "
        f"{len(splits['validation'])} for model selection, 'validation', and "
        f"{len(splits['test'])} for reporting, 'test'"
    )


def _by(rules: SplitRules) -> str:
    return f"seed {rules.seed}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"
