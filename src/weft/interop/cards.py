"""What the model cards of all exported folders have in common: their front matter, and sentences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.encoder.hub_id import hub_id
from weft.interop.example_code import is_template, literal
from weft.utils.terminal import escaped_line

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

FOLDER = 'folder = "."  # the path of this folder, or its name on the hub'
"""The line of a card's code that names the folder that it is in."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


def front_matter(model: Model, library: str, pipeline: str | None, base: str | None = None) -> list[str]:
    """The YAML at the top of a model card, which the hub reads.

    Args:
        model: the model.
        library: the library that loads the folder.
        pipeline: the pipeline that answers it, if there is one.
        base: the hub id of the encoder; None: the one that weft knows.
    """
    base = base or hub_id(model.encoder_source)
    name = base if base is None or _PLAIN_NAME.fullmatch(base) else literal(base)
    return [
        "---",
        f"library_name: {library}",
        *([f"pipeline_tag: {pipeline}"] if pipeline is not None else []),
        *([f"base_model: {name}"] if name is not None else []),
        "tags:",
        "- weft",
        "---",
        "",
    ]


def python(*lines: str) -> list[str]:
    """A block of code."""
    return ["```python", *lines, "```", ""]


def methods_of(model: Model) -> str:
    """The model's methods."""
    return " with ".join(f"`{part.name}`" for part in model.method.parts)


def weights_of(model: Model) -> str:
    """Where the method's changes are."""
    return "adapters merged into the encoder" if model.placements else "the encoder's weights as trained"


def labels(task: Task) -> list[str]:
    """A sentence on the order of the labels."""
    if not task.labels:
        return []
    return ["The labels, in the order of the logits: " + ", ".join(map(escaped_line, task.labels)) + "."]


def thresholds(task: Task) -> list[str]:
    """A sentence on the tuned thresholds of a task's labels."""
    if not task.thresholds:
        return []
    pairs = zip(task.labels, task.thresholds, strict=True)
    listed = ", ".join(f"{escaped_line(name)} {least:.6g}" for name, least in pairs)
    return [f"A label holds if its probability is above its threshold: {listed}."]


def rows_of_choices(task: Task) -> list[str]:
    """A sentence on the rows of a task with choices and two texts."""
    if not task.choices or len(task.texts) != 2:
        return []
    return [
        "A row is the first text, and the second text with the choice in place of @placeholder or, without "
        "one, followed by a space and the choice."
    ]


def templates(task: Task) -> list[str]:
    """A sentence on the templates of a task's texts, which are no part of the exported model."""
    if not written(task):
        return []
    return [
        f"weft writes {written(task)}, with the columns' values in place of the braces, and the model has "
        "learned such texts. It answers others differently: write texts in the same way before you call it, "
        "as the code above does."
    ]


def written(task: Task) -> str:
    """How weft writes the texts that have templates; empty if none has one."""
    places = ("each text",) if len(task.texts) == 1 else ("the first text", "the second text")
    return " and ".join(
        f"{place} as {code_span(text)}"
        for place, text in zip(places, task.texts, strict=True)
        if is_template(text)
    )


def paragraphs(*sentences: list[str]) -> list[str]:
    """Each sentence as a paragraph."""
    return [line for some in sentences for text in some for line in (text, "")]


def code_span(text: str) -> str:
    """A text as code within a line of Markdown, backticks included."""
    text = escaped_line(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " * (longest > 0)
    return f"{fence}{space}{text}{space}{fence}"
