"""Predicting the rows of a file: the function behind `weft predict`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import WeftError, did_you_mean
from weft.inference.requests import Asked, Request, RequestReader
from weft.utils.notes import Tell, no_note
from weft.workflows.prediction_columns import Columns, columns_of
from weft.workflows.prediction_input import STANDARD_INPUT, TYPED, open_file, open_texts
from weft.workflows.prediction_output import Output, rounded
from weft.workflows.prediction_source import KnownFile, known_file

if TYPE_CHECKING:
    from weft.data.readers.streamed import RowStream
    from weft.inference.precision import Precision
    from weft.inference.stream import Item
    from weft.model.model import Model
    from weft.workflows.prediction_progress import Progress

PRECISIONS = ("float32", "bf16", "int8")
ON_ERROR = ("stop", "skip")
DIGITS = 4
"""How many decimals numbers have, unless more are requested."""


class Counts(NamedTuple):
    """How many rows were answered, and how many could not be read."""

    answered: int
    wrong: int


def predict_rows(
    bundle: str | Path,
    output: Output,
    file: str | Path | None = None,
    *,
    texts: Sequence[str] = (),
    second_texts: Sequence[str] = (),
    asked: Asked | None = None,
    form: str | None = None,
    on_error: str = "stop",
    digits: int = DIGITS,
    precision: str = "float32",
    encoder: Any = None,
    device: str | None = None,
    backend: str | None = None,
    report: Tell = no_note,
    tell: Tell = no_note,
    progress: Progress | None = None,
) -> Counts:
    """Predict every row of a file, in the order of the rows, with memory that does not grow with the file.

    Args:
        bundle: a bundle, a run's folder, or an export to ONNX.
        output: takes the predictions, one dict per row.
        file: the file; `-` is standard input; None if there are `texts`.
        texts: texts to predict instead of a file.
        second_texts: the second text of each pair.
        asked: the task or tasks, the columns, and what is copied to the output.
        form: the file's format; None: by its ending.
        on_error: `stop`: a row that cannot be read ends the predictions with an error, after the rows before
            it; `skip`: it is reported, and a row with `line` (or `row`) and `error` takes its place.
        digits: to how many decimals numbers are rounded.
        precision: one of `PRECISIONS`; int8 runs on a CPU.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.
        backend: `torch`, or `onnx` for an export to ONNX; None: the one that the folder is for.
        report: called with each row that cannot be read, if it is skipped.
        tell: called with notes.
        progress: shows how many rows were answered.
    """
    predictor = Predictor(bundle, asked, form, on_error, digits, precision, encoder, device, tell, backend)
    with predictor.opened(file, texts, second_texts) as rows:
        output.expect(rows.columns(every_task=False))
        counts = Counts(0, 0)
        for window in predictor.windows(rows):
            written, wrong = [], 0
            for request, answer in window:
                if answer is None:
                    wrong += 1
                    report(str(request.error))
                    written.append({**request.kept, rows.unit: request.number, "error": request.wrong})
                else:
                    written.append(predictor.row(request, answer))
            output.write(written)
            counts = Counts(counts.answered + len(written) - wrong, counts.wrong + wrong)
            if progress is not None:
                progress.show(sum(counts), rows.stream.share())
    if not sum(counts):
        raise WeftError(f"{rows.stream.source} has no line to predict; expected at least one")
    return counts


class Opened(NamedTuple):
    """An open input: its rows, and the requests that they become as they are read."""

    stream: RowStream
    requests: Iterator[Request | None]
    reader: RequestReader

    def columns(self, every_task: bool) -> Columns:
        """What is known about the columns of a table; see `columns_of`."""
        return columns_of(self.stream, self.reader, every_task)

    @property
    def unit(self) -> str:
        """The field of the output that says where a bad row is: `line` or `row`."""
        return "line" if self.stream.unit == "line" else "row"


class Predictor:
    """A bundle that predicts files, one after another; it is loaded for the first of them, and stays.

    What can be wrong with the arguments is checked here, before torch is imported, which takes seconds. The
    arguments are those of `predict_rows`.
    """

    def __init__(
        self,
        bundle: str | Path,
        asked: Asked | None = None,
        form: str | None = None,
        on_error: str = "stop",
        digits: int = DIGITS,
        precision: str = "float32",
        encoder: Any = None,
        device: str | None = None,
        tell: Tell = no_note,
        backend: str | None = None,
    ) -> None:
        from weft.utils.devices import check_device
        from weft.workflows.prediction_model import source_of

        self.asked, self.on_error, self.digits = asked or Asked(), on_error, digits
        self._bundle, self._form, self._precision, self._tell = Path(bundle), form, precision, tell
        self._model: Model | None = None
        _check(on_error, precision, digits)
        check_device(device)
        names = _named_tasks(bundle, self.asked)
        self._source = source_of(bundle, backend, precision, encoder, device, names)
        requested = [*(self.asked.tasks or ()), *([] if self.asked.task is None else [self.asked.task])]
        with self._source.guarded():
            self._tasks = self._source.tasks(requested)

    @contextmanager
    def opened(
        self,
        file: str | Path | None,
        texts: Sequence[str] = (),
        second_texts: Sequence[str] = (),
        may_be_empty: bool = False,
    ) -> Iterator[Opened]:
        """Open an input, and check what can be checked before the model is loaded.

        Args:
            file: see `predict_rows`.
            texts: see there.
            second_texts: see there.
            may_be_empty: whether a file without rows is no mistake.
        """
        with self._source.guarded():
            stream, reader = _opened(
                self._bundle, file, texts, second_texts, self.asked, self._form, self._tasks, self._tell
            )
        with closing(stream):
            requests = reader.requests(stream)
            if file is not None and Path(file).is_file() and self.on_error == "stop":
                with self._source.guarded():
                    requests = _first_checked(requests, stream, may_be_empty)
            yield Opened(stream, requests, reader)

    def windows(
        self, rows: Opened, sizes: Sequence[int] | None = None
    ) -> Iterator[list[tuple[Request, Any]]]:
        """Answer the rows of an open input, window by window: (request, answer); a bad row has no answer.

        Args:
            rows: the open input.
            sizes: how many rows the first windows have, and all later ones; None: the first are small.
        """
        passes: Precision = "bf16" if self._precision == "bf16" else "float32"
        return _answers(self.loaded(), rows.requests, self.asked, passes, self.on_error, sizes)

    def row(self, request: Request, answer: Any) -> dict[str, Any]:
        """The row of the output."""
        return {**request.kept, **rounded(answer, self.digits)}

    def loaded(self) -> Model:
        """The model, which is loaded when it is first needed."""
        if self._model is None:
            self._model = self._source.loaded()
        return self._model


def _check(on_error: str, precision: str, digits: int) -> None:
    if on_error not in ON_ERROR:
        raise WeftError(f"--on-error {on_error}: {did_you_mean(on_error, ON_ERROR)}")
    if precision not in PRECISIONS:
        raise WeftError(f"--precision {precision}: {did_you_mean(precision, PRECISIONS)}")
    if digits < 0:
        raise WeftError(f"--digits {digits}: expected 0 or more")


def _opened(
    bundle: Path,
    file: str | Path | None,
    texts: Sequence[str],
    second: Sequence[str],
    asked: Asked,
    form: str | None,
    tasks: Sequence[Any],
    tell: Tell,
) -> tuple[RowStream, RequestReader]:
    """Open the input, and check what can be checked before the model is loaded."""
    if (file is None) == (not texts):
        found = "neither a FILE nor --text" if file is None else "both a FILE and --text"
        raise WeftError(f"found {found}; expected one: FILE, - (standard input) or --text TEXT")
    if file is None:
        return open_texts(texts, second), RequestReader(tasks, asked)
    if second:
        raise WeftError("found --text2 without --text; expected --text A --text2 B for a pair")
    file = Path(file).expanduser()
    known = KnownFile()
    if str(file) != STANDARD_INPUT and file.is_file() and not asked.many and asked.texts is None:
        known = known_file(bundle, file, asked.task)
        asked = replace(asked, columns=known.columns)
    reader = RequestReader(tasks, asked)
    if reader.default is None and known.task is not None and not asked.many:
        asked = _with_task_of_file(asked, known.task, reader, file, tell)
        reader = RequestReader(tasks, asked)
    texts_by_line = asked.many or reader.default is not None
    if known.whole:
        # its columns get the task's names as they are read
        reader = RequestReader(tasks, replace(asked, columns={}))
    stream = open_file(file, reader, form=form, texts_by_line=texts_by_line, known=known, tell=tell)
    try:
        reader.check_columns(stream)
    except WeftError:
        stream.close()
        raise
    return stream, reader


def _with_task_of_file(asked: Asked, task: str, reader: RequestReader, file: Path, tell: Tell) -> Asked:
    tell(f"{file} is a file of task {task!r}; predicting for it: other tasks by --task NAME")
    return replace(asked, task=task)


def _first_checked(
    requests: Iterator[Request | None], stream: RowStream, may_be_empty: bool
) -> Iterator[Request | None]:
    """Read the first row before the model is loaded: a mistake is most often in all rows."""
    first = next(requests, None)
    if first is None and may_be_empty:
        return iter(())
    if first is None:
        raise WeftError(f"{stream.source} has no line to predict; expected at least one")
    if first.wrong is not None:
        raise first.error
    return chain([first], requests)


def _named_tasks(bundle: str | Path, asked: Asked) -> list[str] | None:
    """The tasks that are loaded; None: all. Of a bundle on the hub only the requested ones are fetched."""
    if asked.every_task or os.path.lexists(bundle):
        return None
    names = [*(asked.tasks or ()), *([] if asked.task is None else [asked.task])]
    return list(dict.fromkeys(names)) or None


def _answers(
    model: Model,
    requests: Iterable[Request | None],
    asked: Asked,
    precision: Precision,
    on_error: str,
    sizes: Sequence[int] | None,
) -> Iterator[list[tuple[Request, Any]]]:
    from weft.inference.stream import Item, ManyTasksEach, OneTaskEach, in_windows

    def items() -> Iterator[Item | None]:
        for request in requests:
            if request is not None and request.wrong is not None and on_error == "stop":
                raise WeftError(f"{request.error}\n  {_instead(request)}")
            yield None if request is None else Item(request, request.inputs)

    stages = ManyTasksEach if asked.many else OneTaskEach
    return in_windows(items(), stages(model, precision=precision), sizes)


def _instead(request: Request) -> str:
    """What to type if a row cannot be read."""
    if request.place.startswith(TYPED):
        return (
            "a text: --text TEXT   a pair of texts: --text A --text2 B\n"
            "  to predict the other texts: --on-error skip"
        )
    return "to predict the other lines: --on-error skip"
