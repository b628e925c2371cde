"""Templates of a task's texts as prompts of sentence-transformers, which puts them before the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.interop.example_code import prefix_of

if TYPE_CHECKING:
    from weft.tasks.task import Task

QUERY, DOCUMENT = "query", "document"
"""The prompts of `encode_query` and `encode_document`."""


def prompts_of(task: Task) -> dict[str, Any]:
    """Return what config_sentence_transformers.json says about prompts; empty if prompts do not apply.

    A prompt is a prefix of a text that is encoded by itself. A task with one text has a default prompt, with
    which `encode` fills the template. A task with two texts that are encoded separately has the first
    template in `encode_query` and the second in `encode_document`.

    Args:
        task: the task.
    """
    if task.choices:
        return {}
    first, *others = [prefix_of(text) for text in task.texts]
    second = others[0] if others else first
    if first is None or second is None or not first + second or (others and not task.apart):
        return {}
    prompts = {"prompts": {QUERY: first, DOCUMENT: second}}
    return prompts if others else {**prompts, "default_prompt_name": QUERY}
