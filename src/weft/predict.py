"""Answers for a user: texts of any mix of tasks in, labels and numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.split import wrong_text
from weft.errors import WeftError
from weft.evaluation.answers import ROWS, answers
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model import Model

Request = tuple[str, str | Sequence[str]]
"""A task's name, and its text or its pair of texts."""


class Texts:
    """Texts tokenised in memory, as `weft.data.Tokens` are on disk."""

    def __init__(self, model: Model, texts: Sequence[tuple[str, ...]]) -> None:
        encoded = [
            model.source.tokenizer(*pair, truncation="longest_first", max_length=model.max_length)
            for pair in texts
        ]
        self._ids = [np.array(e["input_ids"]) for e in encoded]
        self._types = [np.array(e["token_type_ids"]) if "token_type_ids" in e else None for e in encoded]
        self.has_types = any(t is not None and t.any() for t in self._types)
        self.lengths = np.array([len(ids) for ids in self._ids])

    def ids(self, i: int) -> NDArray[Any]:
        """The token ids of text i."""
        return self._ids[i]

    def types(self, i: int) -> NDArray[Any] | None:
        """The token types of text i."""
        return self._types[i] if self.has_types else None


def predict(model: Model, requests: Sequence[Request], batch_size: int = ROWS) -> list[dict[str, Any]]:
    """Answer each request, in the requests' order; tasks may be mixed anyhow.

    Args:
        model: the model.
        requests: (task, text) or (task, (text, text)).
        batch_size: rows of a pass.

    Returns:
        For each a dict: `task`, and `label` with `probabilities` (classify) or `value` (regress).
    """
    if batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    checked = [_checked(model, number, request) for number, request in enumerate(requests)]
    texts = Texts(model, [texts for _, texts in checked])
    rows: list[Any] = [(task, texts, number) for number, (task, _) in enumerate(checked)]
    found = answers(model, rows, batch_size) if rows else []
    told = []
    for (index, _), logits in zip(checked, found, strict=True):
        task = model.tasks[index]
        outputs = task.in_range(logits.numpy())
        told.append({"task": task.name, **KINDS[task.kind]().answer(outputs, task.labels)})
    return told


def _checked(model: Model, number: int, request: Request) -> tuple[int, tuple[str, ...]]:
    where = f"request {number + 1}"
    if not isinstance(request, list | tuple) or len(request) != 2:
        raise WeftError(f"{where}: expected (task, text) or (task, (text, text)); found {request!r}")
    name, given = request
    try:
        index = model.task_id(name)
    except WeftError as wrong:
        raise WeftError(f"{where}: {wrong}") from None
    texts = tuple(given) if isinstance(given, list | tuple) else (given,)
    wanted = len(model.tasks[index].texts)
    if len(texts) != wanted or any(wrong_text(t) for t in texts):
        kind = "one text" if wanted == 1 else "a pair of texts"
        raise WeftError(f"{where}: task {name!r} takes {kind}; found {given!r}")
    return index, tuple(str(text) for text in texts)
