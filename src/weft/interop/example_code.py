"""Python code of model cards: an example's texts, its choices, and how an answer is read off logits."""

from __future__ import annotations

import json
from string import Formatter
from typing import TYPE_CHECKING

from weft.data.readers.columns import template_columns

if TYPE_CHECKING:
    from weft.tasks.task import Task

CHOICES = '["the first choice", "the second choice"]'

ANSWERS = {
    "classify": "logits.softmax(-1)",
    "multilabel": "logits.sigmoid()",
    "choose": "logits[:, 0].softmax(0)",
    "rank": "logits[:, 0]",
}
"""How the answers of a kind follow from `logits`, a row per text or choice; others are the logits."""

READ_SPAN = (
    "scores = start[:, None] + end[None, :]  # of each (first, last) token",
    "length = len(is_context)",
    "allowed = torch.ones(length, length).triu().tril(29).bool()  # in order, at most 30 tokens",
    "allowed &= is_context[:, None] & is_context[None, :]",
    "first, last = divmod(int(scores.masked_fill(~allowed, -torch.inf).argmax()), length)",
    "print(context[offsets[first, 0] : offsets[last, 1]])",
)
"""Code that reads the answer off `start` and `end`, the logits of each token."""


def literal(text: str) -> str:
    """Return a text as a literal of Python on one line, whatever characters it has.

    Example:
        >>> print(literal("the what's"))
        "the what's"
    """
    return json.dumps(text, ensure_ascii=False)


def parts_of(text: str) -> list[tuple[str, str | None]]:
    """Split a template into (characters, column after them); the last column may be None.

    Example:
        >>> parts_of("query: {text}"), parts_of("text")
        ([('query: ', 'text')], [('', 'text')])
    """
    if not template_columns(text):
        return [("", text)]
    merged: list[tuple[str, str | None]] = []
    for before, name, _, _ in Formatter().parse(text):
        if merged and merged[-1][1] is None:  # after a doubled brace
            before = merged.pop()[0] + before
        merged.append((before, name))
    return merged


def is_template(text: str) -> bool:
    """Whether a task's text is more than the value of one column."""
    return len(parts := parts_of(text)) > 1 or parts[0][0] != ""


def expression(text: str, words: str | None = None) -> str:
    """Return Python that makes an example of a text: a template is filled.

    Args:
        text: the column, or the template.
        words: what stands for the value of the column; by default, and in templates of several columns,
            "the" and the column.

    Example:
        >>> print(expression("query: {text}"))
        "query: " + "the text"
    """
    parts = parts_of(text)
    several = sum(name is not None for _, name in parts) > 1
    pieces = []
    for before, name in parts:
        pieces += [literal(before)] if before else []
        if name is not None:
            pieces.append(literal(f"the {name}" if words is None or several else words))
    return " + ".join(pieces)


def expressions(task: Task) -> list[str]:
    """Return Python for an example of each text of a task."""
    return [expression(text) for text in task.texts]


def choice_lines(task: Task) -> list[str]:
    """Return lines of Python that make `text` and `choices`: each choice is a row (text, choice)."""
    texts = expressions(task)
    if len(texts) == 1:
        return [f"text, choices = {texts[0]}, {CHOICES}"]
    return [
        f"text, second = {texts[0]}, {texts[1]}",
        'stem = second if "@placeholder" in second else second + " @placeholder"',
        f'choices = [stem.replace("@placeholder", choice) for choice in {CHOICES}]',
    ]


def prefix_of(text: str) -> str | None:
    """Return the characters before a text's only column; None for another template.

    Example:
        >>> prefix_of("query: {text}"), prefix_of("text"), prefix_of("{text}, please"), prefix_of("{a} {b}")
        ('query: ', '', None, None)
    """
    (before, name), *further = parts_of(text)
    return before if name is not None and not further else None


def span_inputs(task: Task, options: str = "") -> list[str]:
    """Code that makes `inputs`, `offsets` and `is_context` of a question and its context."""
    question, context = task.texts
    return [
        f"question = {expression(question, 'the question')}",
        f"context = {expression(context, 'the context that holds the answer')}",
        f'options = {{"truncation": "only_second", {options}"return_offsets_mapping": True}}',
        'inputs = tokenizer(question, context, return_tensors="pt", **options)',
        'offsets = inputs.pop("offset_mapping")[0]',
        "is_context = torch.tensor([part == 1 for part in inputs.sequence_ids(0)])",
    ]
