"""The columns of a table of predictions, as far as they are known before the first row.

Types guessed from values differ from file to file: a column without a value has none. Then the predictions of
several files cannot be read together. So the columns that are copied have the types of the input where it
states them, as parquet does, and answers have the types that their kind of task declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.workflows.prediction_tables import flat, written_twice

if TYPE_CHECKING:
    from weft.data.readers.streamed import RowStream
    from weft.inference.requests import Asked, RequestReader
    from weft.tasks.task import Task


@dataclass(frozen=True)
class Columns:
    """What is known about the columns of a table.

    Attributes:
        names: the columns that the table has in any case, in order.
        kept: the arrow types of columns of the input, whose values are copied exactly.
        structs: columns of the input that become one column per field.
        examples: values of the answers' fields; their types matter.
    """

    names: Sequence[str] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)
    structs: frozenset[str] = frozenset()
    examples: Mapping[str, Any] = field(default_factory=dict)

    def ordered(self, found: Iterable[str]) -> list[str]:
        """All columns of a table: those that are copied first, each group as it is known or was found."""
        names = list(dict.fromkeys((*self.names, *found)))
        copied = [name for name in names if name in ("id", "input") or name.startswith("input.")]
        return [*copied, *(name for name in names if name not in copied)]

    def flat(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row without nested objects; a struct that is missing is missing in each of its fields."""
        columns = flat(row)
        for name in self.structs:
            columns.pop(name, None)
        return columns


UNKNOWN = Columns()
"""Nothing is known: columns are found as rows come."""


def columns_of(stream: RowStream, reader: RequestReader, every_task: bool) -> Columns:
    """The columns of the predictions of an open input.

    Args:
        stream: the input.
        reader: knows what is copied, and the tasks.
        every_task: whether the table has the columns of every task that a row may name, so that all files of
            a folder have the same; else of those tasks alone that rows do name.
    """
    asked = reader.asked
    types: dict[str, Any] = {}
    structs: set[str] = set()
    if stream.schema is not None:
        types = _typed(stream, asked, structs)
    names = list(types) or [name for name, _ in _copied(asked, stream.columns or ())]
    examples: dict[str, Any] = {}
    for task in reader.possible_tasks:
        for name, value in _example(task, asked.many).items():
            # two tasks may have fields of one name and of different types: text holds both
            same = name not in examples or type(examples[name]) is type(value)
            examples[name] = value if same else ""
    certain = every_task or reader.default is not None or asked.tasks is not None
    answers = list(examples) if certain else []
    return Columns([*names, *answers], types, frozenset(structs), examples)


def _copied(asked: Asked, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The columns that are copied: the name in the output, and in the input."""
    if asked.id in known and asked.id is not None:
        yield "id", asked.id
    for column in known if asked.with_input else dict.fromkeys(asked.keep):
        if column in known:
            yield f"input.{column}", column


def _typed(stream: RowStream, asked: Asked, structs: set[str]) -> dict[str, Any]:
    """The arrow types of the columns that are copied; adds the structs among them to `structs`."""
    types: dict[str, Any] = {}
    known = stream.columns or ()
    for name, column in _copied(asked, known):
        for flat_name, kind in _leaves(name, stream.schema.types[known.index(column)], structs):
            if flat_name in types:
                raise WeftError(f"{stream.source}: {written_twice(flat_name)}")
            types[flat_name] = kind
    return types


def _leaves(name: str, kind: Any, structs: set[str]) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    if not pa.types.is_struct(kind):
        yield name, kind
        return
    structs.add(name)
    for at in range(kind.num_fields):
        child = kind.field(at)
        yield from _leaves(f"{name}.{child.name}", child.type, structs)


def _example(task: Task, many: bool) -> dict[str, Any]:
    """The flat fields of an answer of a task; of a kind that declares none, only the task's name."""
    answer = {"task": task.name, **(KINDS[task.kind]().example_answer(task) or {})}
    return flat({task.name: answer} if many else answer)
