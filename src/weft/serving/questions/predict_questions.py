"""Reads the body of `POST /v1/predict`: one or many questions, each checked.

One question, {"task": "rte", "text_a": "It rains.", "text_b": "It is wet."}; many texts of one task,
{"task": "cola", "texts": ["It rains.", …]}; many tasks on one text, {"tasks": "all", "text": "It rains."}; or
any mix of these, {"requests": [{…}, {…}]}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.data.readers.columns import read_columns
from weft.data.readers.problem import show
from weft.errors import WeftError, did_you_mean
from weft.inference.predict import plain_form, plain_inputs, read_request
from weft.serving.questions.question import Many, One
from weft.serving.questions.sample_requests import sample_request
from weft.serving.refused import Refused
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.serving.settings import ServeSettings
    from weft.serving.tasks.served_tasks import ServedTasks
    from weft.tasks.kinds.kind import Inputs
    from weft.tasks.task import Task

ID = "id"
TIMEOUT = "timeout_ms"
EVERY = "all"

PLAIN_KEYS = frozenset({"task", "text", "text_a", "text_b", ID, TIMEOUT})
"""The keys of a request that names no column of a task's files."""


def timeout_of(body: Mapping[str, Any], settings: ServeSettings) -> float:
    """The seconds that a request may wait: its own `timeout_ms`, at most the server's deadline."""
    value = body.get(TIMEOUT)
    if value is None:
        return settings.deadline
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise Refused("bad_input", f"expected milliseconds, more than 0; found {shown(value)}", TIMEOUT)
    return min(value, 1000 * settings.deadline) / 1000


def predict_questions(body: Any, served: ServedTasks, settings: ServeSettings) -> list[One | Many]:
    """Read the body of `POST /v1/predict`.

    Args:
        body: the parsed JSON.
        served: the tasks.
        settings: the limits.

    Raises:
        Refused: with the place in the body, what was found and what was expected.
    """
    body = as_mapping(body)
    if "requests" not in body:
        return _questions(body, "", served, settings, settings.texts)
    requests = body["requests"]
    if not isinstance(requests, list) or not requests:
        raise Refused("bad_input", f"expected a list of requests; found {shown(requests)}", "requests")
    for key in body.keys() - {"requests", TIMEOUT}:
        raise Refused("bad_input", f"expected {shown(key)} inside each entry of 'requests'", "requests")
    questions: list[One | Many] = []
    for number, request in enumerate(requests):
        where = f"requests[{number}]"
        left = settings.texts - len(questions)
        if TIMEOUT in as_mapping(request, where):
            raise Refused(
                "bad_input", f"expected {TIMEOUT!r} beside 'requests', for all", f"{where}.{TIMEOUT}"
            )
        questions += _questions(request, where, served, settings, left)
    return questions


def again(question: One | Many, served: ServedTasks) -> One | Many:
    """Read a question again, after its task was replaced.

    Raises:
        Refused: its task was removed, or does not take this input any more.
    """
    if isinstance(question, Many):
        inputs = _inputs_of_many(question.value, question.names, question.where, served)
        return Many(question.where, question.value, question.names, inputs, served.version, question.id)
    name = question.value[0]
    return _one(name, question.value[1], question.where, served, question.id)


def _questions(
    body: Mapping[str, Any], where: str, served: ServedTasks, settings: ServeSettings, most: int
) -> list[One | Many]:
    """The questions of one object: one, or one per entry of `texts`."""
    dot = f"{where}." if where else ""
    if "task" in body and "tasks" in body:
        raise Refused("bad_input", "expected 'task' or 'tasks', not both", where or None)
    if "texts" not in body:
        if most < 1:
            raise too_many(settings)
        return [_question(body, body, where, served, settings)]
    for key in ("text", "text_a", "text_b"):
        if key in body:
            raise Refused("bad_input", f"expected 'texts' or {key!r}, not both", f"{dot}{key}")
    texts = body["texts"]
    if not isinstance(texts, list) or not texts:
        raise Refused("bad_input", f"expected a list of texts; found {shown(texts)}", f"{dot}texts")
    if len(texts) > most:
        raise too_many(settings)
    return [_of_text(body, text, where, f"{dot}texts[{i}]", served, settings) for i, text in enumerate(texts)]


def _of_text(
    body: Mapping[str, Any], text: Any, outer: str, where: str, served: ServedTasks, settings: ServeSettings
) -> One | Many:
    """The question of one entry of `texts`, which may have an `id` of its own."""
    if not isinstance(text, dict):
        return _question(body, text, where, served, settings, outer)
    for key in text.keys() & {"task", "tasks", TIMEOUT}:
        raise Refused("bad_input", f"expected {key!r} beside 'texts', for all of them", f"{where}.{key}")
    return _question({**body, ID: text[ID]} if ID in text else body, text, where, served, settings, outer)


def _question(
    body: Mapping[str, Any],
    value: Any,
    where: str,
    served: ServedTasks,
    settings: ServeSettings,
    outer: str | None = None,
) -> One | Many:
    """The question of one text.

    Args:
        body: names the task or tasks.
        value: the text.
        where: the place of the text.
        served: as in `predict_questions`.
        settings: as in `predict_questions`.
        outer: the place of `body`; None: that of the text.
    """
    identity = body.get(ID)
    if "tasks" in body:
        names = _names(body["tasks"], where if outer is None else outer, served)
        inputs = _inputs_of_many(value, names, where, served)
        _check_size(max(inputs.values(), key=_characters), where, settings)
        return Many(where, value, names, inputs, served.version, identity)
    if "task" in body:
        name = body["task"]
    elif served.only is not None:
        name = served.only
    else:
        raise Refused(
            "bad_input", f"expected 'task' or 'tasks'; tasks: {', '.join(served.ids)}", where or None
        )
    question = _one(name, value, where, served, identity, outer)
    _check_size(question.inputs, where, settings)
    return question


def _one(
    name: Any, value: Any, where: str, served: ServedTasks, identity: Any, outer: str | None = None
) -> One:
    place = where if outer is None else outer
    number = served.id_of(name, f"{place}.task" if place else "task")
    inputs = _plain(value, served.plain[number], served.plain_characters)
    if inputs is None:
        inputs = _read(served.tasks[number], value, where)
    return One(where, (name, value), number, inputs, served.versions[number], identity)


def _plain(value: Any, count: int, most: int) -> Inputs | None:
    """The input of plain texts, the common case, without the checks of every other form; else None.

    Args:
        value: what the client sent.
        count: how many texts the task takes; 0 if it has no fast path.
        most: the most characters of each text.
    """
    if count and type(value) is dict and value.keys() <= PLAIN_KEYS:
        names = ("text",) if count == 1 else ("text_a", "text_b")
        return plain_inputs(tuple(map(value.get, names)), most)
    return plain_inputs((value,), most) if count == 1 else None


def _read(task: Task, value: Any, where: str) -> Inputs:
    """The encoder's input; a list of two texts is a pair, as JSON has no tuples."""
    if isinstance(value, list) and KINDS[task.kind].windows != "words":
        value = tuple(value)
    if isinstance(value, dict):  # a message lists what was found: what the text was to be read from
        reserved = {"task", "tasks", ID, TIMEOUT} - set(read_columns(task))
        value = {name: item for name, item in value.items() if name not in reserved}
    prefix = "input"
    try:
        return read_request(task, plain_form(task, value), prefix)
    except WeftError as wrong:
        message = str(wrong).removeprefix(f"{prefix}: ")
        if isinstance(value, dict):
            keys = ", ".join(repr(name) for name in sample_request(task) if name != "task")
            message += f"; send {keys}"
        raise Refused("bad_input", message, where or None) from None


def _inputs_of_many(
    value: Any, names: tuple[str, ...] | None, where: str, served: ServedTasks
) -> dict[int, Inputs]:
    if names is not None:
        numbers = [served.id_of(name, where) for name in names]
        return {number: _read(served.tasks[number], value, where) for number in numbers}
    inputs: dict[int, Inputs] = {}
    reason = ""
    for number in served.ids.values():
        task = served.tasks[number]
        if isinstance(value, list) and KINDS[task.kind].windows == "words":
            continue  # a list means a pair of texts here; words come as a text, or for this task alone
        try:
            inputs[number] = _read(task, value, where)
        except Refused as wrong:
            reason = wrong.message
    if not inputs:
        raise Refused("bad_input", f"no task can read this input; for example, {reason}", where or None)
    return inputs


def _names(tasks: Any, where: str, served: ServedTasks) -> tuple[str, ...] | None:
    place = f"{where}.tasks" if where else "tasks"
    if tasks == EVERY:
        return None
    if not isinstance(tasks, list) or not tasks:
        raise Refused("bad_input", f"expected {EVERY!r} or a list of names; found {shown(tasks)}", place)
    for name in tasks:
        served.id_of(name, place)
    return tuple(dict.fromkeys(tasks))


def as_mapping(value: Any, where: str | None = None) -> Mapping[str, Any]:
    """Return a JSON object; `Refused` if the value is none."""
    if not isinstance(value, dict):
        raise Refused("bad_input", f"expected a JSON object; found {shown(value)}", where)
    return value


def _characters(inputs: Inputs) -> int:
    return sum(map(len, inputs.texts))


def _check_size(inputs: Inputs, where: str, settings: ServeSettings) -> None:
    if (count := _characters(inputs)) > settings.characters:
        raise too_long(count, where, settings)


def too_long(count: int, where: str, settings: ServeSettings) -> Refused:
    """The error for a text with too many characters."""
    return Refused(
        "too_large", f"{count:,} characters; expected at most {settings.characters:,}", where or None
    )


def too_many(settings: ServeSettings) -> Refused:
    """The error for a request with too many texts."""
    return Refused("too_large", f"more than {settings.texts:,} texts; send several requests")


def shown(value: Any) -> str:
    """A value for a message, shortened, as JSON has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return show(value, 80)


def unknown_task(name: Any, names: Sequence[str], where: str) -> Refused:
    """The error for a task that the server does not have."""
    if not isinstance(name, str):
        return Refused("bad_input", f"expected the name of a task; found {shown(name)}", where)
    short = name if len(name) <= 80 else name[:80] + "…"
    return Refused("unknown_task", f"task {short!r} does not exist; {did_you_mean(short, names)}", where)
