"""The tasks that a server offers at one moment. The table is never changed: it is replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft.data.readers.columns import plain_texts, read_columns
from weft.inference.limits import most_characters
from weft.serving.questions.predict_questions import PLAIN_KEYS, unknown_task
from weft.serving.questions.question import Many, One

if TYPE_CHECKING:
    from weft.tasks.task import Task


@dataclass(frozen=True)
class ServedTasks:
    """The tasks of a model, some of which may be spare slots.

    Attributes:
        tasks: the task in each slot, [T].
        ids: the slot of each task that is served, by name.
        versions: how often each slot was replaced, [T].
        version: how often the table was replaced.
        sha256: the hash of the bundle, and of every task that was changed since.
        embeds_alone: whether texts can be embedded without a task, by the encoder alone.
    """

    tasks: Sequence[Task]
    ids: Mapping[str, int]
    versions: Sequence[int]
    version: int
    sha256: str
    embeds_alone: bool = True

    @cached_property
    def only(self) -> str | None:
        """The name of the task, if there is exactly one."""
        return next(iter(self.ids)) if len(self.ids) == 1 else None

    @cached_property
    def plain(self) -> list[int]:
        """How many texts the requests of each task have; 0 if they cannot take the fast path, [T].

        A request may also name the columns of a task's files. Where one of them is a key of plain requests,
        only the whole reader can tell which of the two is meant.
        """
        counts = []
        for task in self.tasks:
            count = plain_texts(task)
            named = set(read_columns(task)) & PLAIN_KEYS
            counts.append(count if not named or task.texts in (("text",), ("text_a", "text_b")) else 0)
        return counts

    @cached_property
    def plain_characters(self) -> int:
        """The most characters of a text that takes the fast path; a pair may have twice as many."""
        return most_characters() // 2

    def id_of(self, name: Any, where: str) -> int:
        """The slot of a task; `Refused` if there is none of this name."""
        number = self.ids.get(name) if isinstance(name, str) else None
        if number is None:
            raise unknown_task(name, list(self.ids), where)
        return number

    def version_of(self, question: One | Many) -> int:
        """The version that a question must have been read for: its task's, or the table's if it has many."""
        if isinstance(question, Many):
            return self.version
        return self.versions[question.task] if question.task < len(self.versions) else -1

    def with_task(self, slot: int, task: Task, sha256: str) -> ServedTasks:
        """This table with a task in a slot, which is served from now on."""
        ids = {name: number for name, number in self.ids.items() if number != slot}
        # a task that is replaced keeps its place in the list
        ids = {**self.ids, task.name: slot} if task.name in self.ids else {**ids, task.name: slot}
        return self._changed(slot, task, ids, sha256)

    def without_task(self, name: str, sha256: str) -> ServedTasks:
        """This table without a task; its slot is spare from now on."""
        slot = self.ids[name]
        ids = {key: number for key, number in self.ids.items() if key != name}
        return self._changed(slot, self.tasks[slot], ids, sha256)

    def _changed(self, slot: int, task: Task, ids: Mapping[str, int], sha256: str) -> ServedTasks:
        tasks, versions = list(self.tasks), list(self.versions)
        tasks[slot], versions[slot] = task, versions[slot] + 1
        return replace(self, tasks=tasks, ids=ids, versions=versions, version=self.version + 1, sha256=sha256)
