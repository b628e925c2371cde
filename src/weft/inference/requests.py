"""The requests of `weft predict`: from rows of a file to inputs of the encoder, each checked by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.data.readers.columns import plain_texts, read_columns, template_columns
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import wanted_columns
from weft.errors import WeftError, did_you_mean
from weft.inference.limits import most_characters
from weft.tasks.kinds.kind import Inputs

if TYPE_CHECKING:
    from weft.data.readers.streamed import Row, RowStream
    from weft.tasks.task import Task


@dataclass(frozen=True)
class Asked:
    """What is asked about the rows of a file.

    Attributes:
        task: the task of every row; None: the row's own `task`, or the only task of the model.
        tasks: predict every row for each of these tasks.
        every_task: predict every row for every task that can read it.
        texts: the columns of the texts; None: the columns of the task's files, or `text`, or `text_a` and
            `text_b`.
        columns: the task's column → the file's, if they differ.
        id: the column that is copied to the output as `id`.
        with_input: whether the whole row is copied to the output as `input`.
        keep: the columns that are copied to the output, in `input`; one that a row lacks is None.
    """

    task: str | None = None
    tasks: Sequence[str] | None = None
    every_task: bool = False
    texts: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    id: str | None = None
    with_input: bool = False
    keep: Sequence[str] = ()

    @property
    def many(self) -> bool:
        """Whether a row is predicted for several tasks."""
        return self.every_task or self.tasks is not None


class Request(NamedTuple):
    """One row, read.

    Attributes:
        number: the line or row.
        kept: what is copied to the output.
        inputs: the task's id and the encoder's input; if a row is for many tasks, the input by task id. None:
            the row cannot be read.
        place: the file and the line or row, for messages.
        wrong: why it cannot be read.
    """

    number: int
    kept: dict[str, Any]
    inputs: Any = None
    place: str = ""
    wrong: str | None = None

    @property
    def error(self) -> WeftError:
        """The error of a row that cannot be read."""
        return WeftError(f"{self.place}: {self.wrong}")


class RequestReader:
    """Reads rows as requests.

    Args:
        tasks: the tasks of the model, in its order.
        asked: what is asked about the rows.

    Raises:
        WeftError: a task of `asked` does not exist, or takes a different number of texts.
    """

    def __init__(self, tasks: Sequence[Task], asked: Asked) -> None:
        self._tasks, self._asked = tasks, asked
        self._ids = {task.name: number for number, task in enumerate(tasks)}
        for name in (*(asked.tasks or ()), *([] if asked.task is None else [asked.task])):
            self._check_task(name)
        self._named = (
            None if asked.tasks is None else list(dict.fromkeys(map(self._ids.__getitem__, asked.tasks)))
        )
        if self._named == []:
            raise WeftError("--tasks: expected at least one task's name; found none")
        # the task of rows that name none
        self._default = tasks[0].name if len(tasks) == 1 and asked.task is None else asked.task
        # how many texts a task has; 0 if its input is more than plain columns
        self._plain = [plain_texts(task) for task in tasks]
        self._most = most_characters() // 2  # a pair may have twice as many
        if asked.texts is not None and asked.task is not None:
            self._check_texts(tasks[self._ids[asked.task]])

    @property
    def default(self) -> Task | None:
        """The task of rows that name none: the requested task, or the only one of the model."""
        return None if self._default is None or self._asked.many else self._tasks[self._ids[self._default]]

    @property
    def asked(self) -> Asked:
        """What is asked about the rows."""
        return self._asked

    @property
    def possible_tasks(self) -> list[Task]:
        """The tasks that an answer may be of."""
        if self._named is not None:
            return [self._tasks[index] for index in self._named]
        return list(self._tasks) if self.default is None else [self.default]

    def requests(self, stream: RowStream) -> Iterator[Request | None]:
        """Yield the requests of a file; None as in `Rows`. A row that cannot be read says why (`wrong`)."""
        for row in stream.rows:
            yield None if row is None else self._request(row, stream)

    @property
    def needed(self) -> list[str]:
        """The columns that every row of a file must have, as far as they are known before it is read."""
        asked, task = self._asked, self.default
        needed = list(asked.texts or ())
        if task is not None and asked.texts is None:
            needed = [self._called(column) for column in read_columns(task)]
        elif task is None and not asked.many:
            needed += ["task"]
        return needed if asked.id is None else [*needed, asked.id]

    def check_columns(self, stream: RowStream) -> None:
        """Refuse a file whose columns can answer no row, before anything is predicted."""
        if stream.columns is None:
            return
        asked, known = self._asked, stream.columns
        needed = [*(asked.texts or ()), *([] if asked.id is None else [asked.id]), *asked.keep]
        task = self.default if "task" not in known or asked.task is not None else None
        hint = stream.hint
        missing = _missing(stream, needed, hint)
        if task is not None and asked.texts is None and not self._fits(task, known):
            texts = [self._called(column) for column in read_columns(task)]
            words = f"; name the columns of the texts of task {task.name!r}: --texts COLUMN[,COLUMN]"
            missing += _missing(stream, texts, hint + words)
        elif task is None and not asked.many and "task" not in known:
            names = ", ".join(self._ids)
            raise WeftError(
                f"{stream.source}: there is no column 'task'; expected one, or a task for all rows: "
                f"--task NAME; tasks: {names}; columns: {', '.join(known)[:200]}{hint}"
            )
        if missing:
            raise DataError(*missing)

    @property
    def kept_columns(self) -> list[str]:
        """Columns of the default task's files that are not read but may be copied to the output."""
        task, asked = self.default, self._asked
        names = [*([] if asked.id is None else [asked.id]), *asked.keep]
        if asked.with_input and task is not None:
            names += [*task.id, *task.group, *task.label_columns]
        return list(dict.fromkeys(names))

    def wanted(self, known: tuple[str, ...]) -> list[str] | None:
        """Return those of a file's columns that are needed; None: all."""
        asked = self._asked
        if asked.with_input or asked.many:
            return None
        names = {"task", "text", "text_a", "text_b", "choices", asked.id, *(asked.texts or ()), *asked.keep}
        for task in self._tasks:
            names |= {self._called(column) for column in read_columns(task)} | set(read_columns(task))
        return [column for column in known if column in names]

    def _request(self, row: Row, stream: RowStream) -> Request:
        where = f"{stream.source}, {stream.unit} {row.number}"
        kept: dict[str, Any] = {}
        try:
            if row.wrong is not None:
                raise WeftError(f"{where}: {row.wrong}")
            kept = self._kept(row.value, where)
            return Request(row.number, kept, self._inputs(self._renamed(row.value), where))
        except WeftError as wrong:
            return Request(row.number, kept, None, where, str(wrong).removeprefix(f"{where}: "))

    def _kept(self, value: Any, where: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        if (column := self._asked.id) is not None:
            if not isinstance(value, Mapping) or column not in value:
                found = ", ".join(map(repr, value)) if isinstance(value, Mapping) else show(value, 40)
                raise WeftError(f"{where}: --id {column}: expected an object with {column!r}; found {found}")
            kept["id"] = value[column]
        if self._asked.with_input:
            kept["input"] = value
        elif self._asked.keep:
            row = value if isinstance(value, Mapping) else {}
            kept["input"] = {column: row.get(column) for column in self._asked.keep}
        return kept

    def _inputs(self, value: Any, where: str) -> Any:
        if self._asked.many:
            return self._for_many(value, where)
        if self._asked.task is None and isinstance(value, Mapping) and value.get("task") is not None:
            name = value["task"]
        elif self._default is not None:
            name = self._default
        else:
            raise WeftError(f'{where}: expected an object with "task", or --task NAME; found {show(value)}')
        index = self._ids.get(name) if isinstance(name, str) else None
        if index is None:
            raise WeftError(f"{where}: task {name!r} does not exist; {did_you_mean(str(name), self._ids)}")
        if (texts := self._plain_texts(index, value)) is not None:
            return index, Inputs(texts)
        from weft.inference.predict import plain_form, read_request

        task = self._tasks[index]
        if isinstance(value, str) and len(task.texts) == 2 and not task.choices and value.count("\t") == 1:
            value = tuple(value.split("\t"))  # a line of text holds a pair with a tab in between
        if isinstance(value, Mapping) and self._asked.texts is not None:
            value = self._by_texts(task, value, where)
        return index, read_request(task, plain_form(task, value), where)

    def _plain_texts(self, index: int, value: Any) -> tuple[str, ...] | None:
        """The texts of the common case, quickly: plain columns with ASCII texts."""
        if not isinstance(value, dict) or not self._plain[index] or self._asked.texts is not None:
            return None
        texts: tuple[Any, ...] = tuple(map(value.get, self._tasks[index].texts))
        for text in texts:
            if type(text) is not str or not text.isascii() or len(text) > self._most or not text.strip():
                return None
        return texts

    def _for_many(self, value: Any, where: str) -> dict[int, Inputs]:
        from weft.inference.predict_all import inputs_of

        if (columns := self._asked.texts) is not None and isinstance(value, Mapping):
            texts = self._text_values(value, columns, where)
            value = texts[0] if len(texts) == 1 else texts
        # a JSON list means a pair of texts; `predict_all` takes a pair as a tuple
        return inputs_of(self._tasks, where, tuple(value) if isinstance(value, list) else value, self._named)

    def _by_texts(self, task: Task, row: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The row with the columns of `texts` under the names that the task reads."""
        assert self._asked.texts is not None
        self._check_texts(task, f"{where}: ")
        values = self._text_values(row, self._asked.texts, where)
        templates = {column for text in task.texts for column in template_columns(text)}
        plain = ("text",) if len(values) == 1 else ("text_a", "text_b")
        named = {column: value for column, value in row.items() if column not in templates}
        named |= dict(zip(plain, values, strict=True))
        return named if templates else named | dict(zip(task.texts, values, strict=True))

    def _text_values(self, row: Mapping[str, Any], columns: Sequence[str], where: str) -> tuple[Any, ...]:
        missing = [column for column in columns if column not in row]
        if missing:
            raise WeftError(f"{where}: --texts: {missing[0]!r} is missing; {did_you_mean(missing[0], row)}")
        return tuple(row[column] for column in columns)

    def _renamed(self, value: Any) -> Any:
        """The row with the task's names of the columns."""
        if not self._asked.columns or not isinstance(value, Mapping):
            return value
        new = {task: value[file] for task, file in self._asked.columns.items() if file in value}
        return {**value, **new}

    def _called(self, column: str) -> str:
        return (self._asked.columns or {}).get(column, column)

    def _fits(self, task: Task, known: Sequence[str]) -> bool:
        plain = ["text"] if len(task.texts) == 1 else ["text_a", "text_b"]
        plain += ["choices"] if task.choices else []
        own = [self._called(column) for column in read_columns(task)]
        return set(own) <= set(known) or (not task.marks and set(plain) <= set(known))

    def _check_task(self, name: str) -> None:
        if name not in self._ids:
            raise WeftError(f"task {name!r} does not exist; {did_you_mean(name, self._ids)}")

    def _check_texts(self, task: Task, where: str = "") -> None:
        columns = self._asked.texts or ()
        if len(columns) != len(task.texts):
            takes = "one text" if len(task.texts) == 1 else "a pair of texts"
            found = ",".join(columns)
            raise WeftError(
                f"{where}--texts {found}: task {task.name!r} takes {takes}; expected as many columns"
            )


def _missing(stream: RowStream, columns: Sequence[str], hint: str) -> list[Problem]:
    """What is wrong with columns that an input must have."""
    try:
        wanted_columns(stream.source, stream.columns or (), columns, (), unit=stream.unit, hint=hint)
    except DataError as wrong:
        return list(wrong.problems)
    return []
