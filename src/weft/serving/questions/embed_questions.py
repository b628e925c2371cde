"""Reads the body of `POST /v1/embed`: {"texts": ["It rains.", ["a pair", "of texts"]], "task": "cola"}."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.serving.questions.predict_questions import TIMEOUT, as_mapping, shown, too_long, too_many
from weft.serving.questions.question import Embed
from weft.serving.refused import Refused

if TYPE_CHECKING:
    from weft.serving.settings import ServeSettings
    from weft.serving.tasks.served_tasks import ServedTasks


KEYS = frozenset({"text", "texts", "task", "normalize", TIMEOUT})


def embed_questions(body: Any, served: ServedTasks, settings: ServeSettings) -> list[Embed]:
    """Read the body of `POST /v1/embed`; arguments and errors as in `predict_questions`."""
    body = as_mapping(body)
    for key in body.keys() - KEYS:
        raise Refused("bad_input", f"unknown key {shown(key)}; expected {', '.join(sorted(KEYS))}")
    task = body.get("task")
    if task is None and not served.embeds_alone:
        names = ", ".join(served.ids)
        raise Refused("bad_input", f"an export to ONNX embeds texts for a task alone; tasks: {names}", "task")
    if task is not None:
        task = served.tasks[served.id_of(task, "task")].name
    normalize = body.get("normalize", False)
    if not isinstance(normalize, bool):
        raise Refused("bad_input", f"expected true or false; found {shown(normalize)}", "normalize")
    if ("text" in body) == ("texts" in body):
        raise Refused("bad_input", "expected 'text', or 'texts' with a list of texts or pairs, one of them")
    texts = body["texts"] if "texts" in body else [body["text"]]
    if not isinstance(texts, list) or not texts:
        raise Refused("bad_input", f"expected a list of texts; found {shown(texts)}", "texts")
    if len(texts) > settings.texts:
        raise too_many(settings)
    return [
        Embed(
            _embeddable(text, f"texts[{i}]" if "texts" in body else "text", settings, served, task),
            task,
            normalize,
        )
        for i, text in enumerate(texts)
    ]


def _embeddable(
    text: Any, where: str, settings: ServeSettings, served: ServedTasks, task: str | None
) -> str | tuple[str, str]:
    parts = tuple(text) if isinstance(text, list) else (text,)
    if len(parts) not in (1, 2) or not all(isinstance(part, str) and part.strip() for part in parts):
        raise Refused("bad_input", f"expected a text, or a pair of texts; found {shown(text)}", where)
    if any(_is_broken(part) for part in parts):
        raise Refused("bad_input", "the text holds half of a surrogate pair, which is no character", where)
    if len(parts) == 2 and task is not None and served.tasks[served.ids[task]].apart:
        raise Refused("bad_input", f"task {task!r} encodes the texts of a pair separately; send two", where)
    if sum(map(len, parts)) > settings.characters:
        raise too_long(sum(map(len, parts)), where, settings)
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _is_broken(text: str) -> bool:
    """Whether a text has a lone surrogate, which no tokenizer accepts."""
    return not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)
