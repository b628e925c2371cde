"""Guess: the texts, the label and the kind of a task, from the columns of its training file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.data.drafting.column import Column
from weft.data.drafting.kinds import KindGuess, guess_kind
from weft.data.drafting.question import About, Choose, Question
from weft.data.drafting.roles import RoleGuess, guess_label, guess_texts
from weft.data.drafting.structured import Structured, find_structured
from weft.errors import WeftError

KINDS = ("classify", "regress", "multilabel")
"""The kinds that a task with a single label column may have."""

Values = Mapping[str, Sequence[object]]


@dataclass
class Guess:
    """The guesses about a task.

    Attributes:
        kind: its kind.
        texts: its text columns.
        label: its label column, or columns.
        settings: further keys, such as `choices`.
        with_cut: keys that are needed if validation rows are cut off the training file.
        values: how labels are replaced, old → new.
        separator: what separates several labels in a text.
        drop: labels whose rows are left out.
        comments: comments beside keys.
        unsure: the questions that the data does not settle, with the answers.
    """

    kind: str
    texts: tuple[str, ...]
    label: str | tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    with_cut: dict[str, Any] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    separator: str = ""
    drop: tuple[str, ...] = ()
    comments: dict[str, str] = field(default_factory=dict)
    unsure: list[tuple[Question, str]] = field(default_factory=list)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The label columns."""
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that an example is read from, without its label."""
        return (*self.texts, *self.settings.get("choices", ()))


def guess_task(
    task: str, path: Path, columns: Sequence[Column], values: Values, choose: Choose, fixed: Mapping[str, str]
) -> Guess:
    """Guess texts, label and kind; what the data does not settle is asked.

    Args:
        task: the task's name.
        path: the training file, for messages.
        columns: the statistics of its columns.
        values: the values of its first records.
        choose: answers questions.
        fixed: answers given beforehand, by `texts`, `label` and `kind`.
    """
    structured = find_structured(columns, values)
    if (
        structured is not None
        and not fixed.keys() - {"kind"}
        and fixed.get("kind") in (None, structured.kind)
    ):
        return _of_structure(structured)
    return _Asking(task, path, columns, values, choose, fixed).guess()


def _of_structure(structured: Structured) -> Guess:
    return Guess(
        structured.kind,
        structured.texts,
        structured.label,
        dict(structured.settings),
        dict(structured.with_cut),
        dict(structured.values),
        comments={"kind": structured.reason},
    )


class _Asking:
    """One pass over the three questions: texts, label, kind. Each depends on the answers before it."""

    def __init__(
        self,
        task: str,
        path: Path,
        columns: Sequence[Column],
        values: Values,
        choose: Choose,
        fixed: Mapping[str, str],
    ) -> None:
        self.task, self.path, self.columns, self.values = task, path, columns, values
        self.choose, self.fixed = choose, fixed
        self.names = tuple(column.name for column in columns)
        self.unsure: list[tuple[Question, str]] = []
        self.comments: dict[str, str] = {}

    def guess(self) -> Guess:
        texts = self._texts()
        label = self._label(texts)
        kind = self._kind(label, len(texts) == 2)
        drop = tuple(kind.drop)
        settings: dict[str, Any] = {}
        if kind.kind == "multilabel" and len(label) > 1:
            settings["labels"] = list(label)
        return Guess(
            kind.kind,
            texts,
            label[0] if len(label) == 1 else label,
            settings,
            separator=kind.separator,
            drop=drop,
            comments=self.comments,
            unsure=self.unsure,
        )

    def _texts(self) -> tuple[str, ...]:
        guess = guess_texts(self.columns)
        answer = self._answer("texts", guess, "text")
        if len(answer) > 2:
            raise WeftError(f"task {self.task!r}: texts: expected one column or two; found {list(answer)}")
        return answer

    def _label(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return self._answer("label", guess_label(self.columns, texts), "label")

    def _answer(self, about: About, guess: RoleGuess | None, flag: str) -> tuple[str, ...]:
        """The columns of a role: those given beforehand, the answer to a question, or the guess."""
        known = self.names
        if about in self.fixed:
            self.comments[about] = f"as --{flag} says"
            return Question(self.task, about, "", (), known, "").read(self.fixed[about])
        if guess is None:
            what = "texts" if about == "texts" else "labels"
            listed = "; ".join(map(describe, self.columns[:12]))
            raise WeftError(
                f"task {self.task!r}: {self.path}: found no column of {what}; the columns are: {listed}\n"
                f"  name the column: --{flag} COLUMN"
            )
        columns = guess.columns
        comment = f"guessed: {guess.reason}"
        if guess.doubt:
            question = Question(self.task, about, ", ".join(columns), guess.others, known, guess.doubt)
            answer = self.choose(question)
            columns = question.read(answer)
            self.unsure.append((question, ", ".join(columns)))
            comment = f"guessed: {guess.doubt}" if columns == guess.columns else "as answered"
        others = [name for name in guess.others if name not in columns]
        if others:
            comment += f"; other candidates: {', '.join(others[:5])}"
        if about == "texts" and guess.doubt and len(guess.others) > 0:
            comment += '; "{a} {b}" joins two columns into one text'
        self.comments[about] = comment
        return columns

    def _kind(self, label: tuple[str, ...], paired: bool) -> KindGuess:
        by_name = {column.name: column for column in self.columns}
        if len(label) > 1:
            flags = all(by_name[name].low == 0 and by_name[name].high == 1 for name in label)
            guess = KindGuess("multilabel" if flags else "regress", (), f"{len(label)} label columns")
        else:
            guess = guess_kind(by_name[label[0]], self.values[label[0]], paired)
        known = (*KINDS, "similarity") if paired else KINDS
        kind, comment = guess.kind, guess.reason
        if "kind" in self.fixed:
            question = Question(self.task, "kind", "", (), known, "")
            (kind,), comment = question.read(self.fixed["kind"]), "as --kind says"
        elif guess.doubt:
            question = Question(self.task, "kind", kind, guess.others, known, guess.doubt)
            (kind,) = question.read(self.choose(question))
            self.unsure.append((question, kind))
        others = [other for other in guess.others if other != kind]
        if others:
            comment += f"; alternative: {' or '.join(others)}"
            if kind == "classify" and "regress" in others:
                column = by_name[label[0]]
                comment += f" without labels, with range: [{column.low:g}, {column.high:g}]"
        self.comments["kind"] = comment
        separator = guess.separator or ("," if kind == "multilabel" and by_name[label[0]].texts else "")
        return KindGuess(kind, guess.others, guess.reason, guess.doubt, separator, guess.drop)


def describe(column: Column) -> str:
    """Describe a column in a few words: `date (1,500 distinct texts)`."""
    if not column.present:
        return f"{column.name} (empty)"
    if column.is_number:
        form = "whole numbers" if column.wholes == 1 else "numbers"
    elif column.lists >= 0.9:
        form = "lists"
    elif column.objects >= 0.9:
        form = "objects"
    else:
        form = f"texts of {column.words:.1f} words"
    return f"{column.name} ({column.distinct:,} distinct {form})"
