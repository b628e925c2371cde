"""The README.md of an exported sentence encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.interop.cards import (
    FOLDER,
    front_matter,
    labels,
    methods_of,
    paragraphs,
    python,
    rows_of_choices,
    templates,
    thresholds,
    weights_of,
    written,
)
from weft.interop.example_code import ANSWERS, choice_lines, expression, expressions, literal
from weft.interop.sentence_transformers.exporter import LOGITS
from weft.interop.sentence_transformers.prompts import prompts_of

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task


def card(model: Model, task: Task, output: str, normalize: bool) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        task: the task.
        output: `vectors` or `logits`.
        normalize: whether vectors are normalized.
    """
    has_head = output == LOGITS
    wanted = "the outputs of its head" if has_head else "the vectors that its head reads"
    code = _logits(task) if has_head else _vectors(task)
    return "\n".join(
        [
            *front_matter(model, "sentence-transformers", None if has_head else "sentence-similarity"),
            f"# {task.name}",
            "",
            f"One task of a weft model, exported for sentence-transformers: {wanted}. Kind `{task.kind}`, "
            f"method {methods_of(model)}, {weights_of(model)}. weft is not needed to load it.",
            "",
            *python(
                "from sentence_transformers import SentenceTransformer",
                "",
                FOLDER,
                "model = SentenceTransformer(folder)",
                *code,
            ),
            *paragraphs(
                _prompts(task) or templates(task),
                _of_logits(task) if has_head else _of_vectors(model, task),
                ["Vectors have norm 1."] if normalize else [],
            ),
            f"Texts are truncated to {model.max_length} tokens. `weft.json` records the encoder, the method "
            "and the task.",
            "",
        ]
    )


def _vectors(task: Task) -> list[str]:
    """Code that encodes two texts and compares them."""
    compare = "print(model.similarity(vectors[:1], vectors[1:]))  # their cosine"
    prompts = prompts_of(task)
    if task.choices:
        rows = "vectors = model.encode([(text, choice) for choice in choices])"
        return [*choice_lines(task), rows, compare]
    if prompts and task.apart:
        return [
            'vectors = model.encode_query(["a text"])',
            'others = model.encode_document(["another text"])',
            "print(model.similarity(vectors, others))  # their cosine",
        ]
    first, last = task.texts[0], task.texts[-1]
    if prompts:
        both = [literal("a text"), literal("another text")]
    elif len(task.texts) == 2 and not task.apart:  # a row is a pair
        second = expression(last, "its second text")
        both = [f"({expression(first, words)}, {second})" for words in ("a text", "another text")]
    else:
        both = [expression(first, "a text"), expression(last, "another text")]
    return [f"vectors = model.encode([{', '.join(both)}])", compare]


def _logits(task: Task) -> list[str]:
    """Code that answers one example."""
    if task.choices:
        lines, rows = choice_lines(task), "[(text, choice) for choice in choices]"
    else:
        texts = [literal("a text")] if prompts_of(task) else expressions(task)
        lines, rows = [], f"[{texts[0]}]" if len(texts) == 1 else f"[({', '.join(texts)})]"
    return [
        *lines,
        f"logits = model.encode({rows}, convert_to_tensor=True)",
        f"print({ANSWERS.get(task.kind, 'logits')})",
    ]


def _prompts(task: Task) -> list[str]:
    """A sentence on the prompts that fill the templates."""
    if not prompts_of(task):
        return []
    if not task.apart:
        return [
            f"weft writes {written(task)}, and `encode` does so too: the prefix is the default prompt "
            "(`config_sentence_transformers.json`). Pass texts without it."
        ]
    return [
        f"weft writes {written(task)}. `encode_query` does so with first texts and `encode_document` with "
        "second ones, by their prompts (`config_sentence_transformers.json`); `encode` writes no prefix."
    ]


def _of_logits(task: Task) -> list[str]:
    """Sentences on the outputs of the head."""
    lines = [*labels(task), *thresholds(task)]
    if task.kind == "regress" and task.range is not None:
        low, high = task.range
        lines.append(f"The output is the answer; weft also clips it to {low:g} to {high:g}.")
    if task.kind == "choose":
        lines.append("The probabilities are the softmax of the logits over the rows of the choices.")
    if task.kind == "rank":
        lines.append("The output is the score of one (text, candidate): the higher, the better.")
    return [*lines, *rows_of_choices(task)]


def _of_vectors(model: Model, task: Task) -> list[str]:
    """Sentences on how the answers of the task follow from the vectors."""
    if task.compare == "cosine":
        return [_similarity(task)]
    head: Any = model.heads[task.head]
    read = "these vectors" if head.reads in ("pooled", "pair") else "the hidden states"
    lines = [
        "The cosine of two vectors is not an answer of this task: its answers are computed from "
        f"{read} by its head."
    ]
    if head.reads == "pooled":
        lines.append("An export with `--set output=logits` has the head too.")
    return [*lines, *rows_of_choices(task)]


def _similarity(task: Task) -> str:
    """How the answer of a similarity task follows from the cosine."""
    if task.range is None:
        return "The answer of the task is the cosine of the two texts' vectors."
    low, high = task.range
    return (
        f"The answer of the task is {low:g} + {high - low:g}·c, where c is the cosine of the two texts' "
        "vectors, clipped to 0 to 1."
    )
