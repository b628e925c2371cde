"""The README.md of an exported sentence encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.interop.hf.card import FOLDER, front_matter, weights_of
from weft.interop.sentence_transformers.exporter import LOGITS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

_VECTORS = """from sentence_transformers import SentenceTransformer

{folder}model = SentenceTransformer(folder)
vectors = model.encode(["a text", "another text"])
print(model.similarity(vectors[:1], vectors[1:]))  # their cosine
"""

_LOGITS = """from sentence_transformers import SentenceTransformer

{folder}model = SentenceTransformer(folder)
logits = model.encode([{inputs}], convert_to_tensor=True)
print({answer})
"""


def card(model: Model, task: Task, output: str, normalize: bool) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        task: the task.
        output: `vectors` or `logits`.
        normalize: whether vectors are normalized.
    """
    method = " with ".join(f"`{part.name}`" for part in model.method.parts)
    wanted = "the outputs of its head" if output == LOGITS else "the vectors that its head reads"
    return "\n".join(
        [
            *front_matter(
                model, "sentence-transformers", "sentence-similarity" if output != LOGITS else None
            ),
            f"# {task.name}",
            "",
            f"One task of a weft model, exported for sentence-transformers: {wanted}. Kind `{task.kind}`, "
            f"method {method}, {weights_of(model)}. weft is not needed to load it.",
            "",
            f"```python\n{_code(task, output)}```",
            "",
            *_meaning(task, output, normalize),
            f"Texts are truncated to {model.max_length} tokens. `weft.json` records the encoder, the method "
            "and the task.",
            "",
        ]
    )


def _code(task: Task, output: str) -> str:
    if output != LOGITS:
        return _VECTORS.format(folder=FOLDER)
    texts = [f"the {name}" for name in task.texts]
    texts = [*texts[:1], "a candidate"] if task.choices else texts
    inputs = repr(texts[0]) if len(texts) == 1 else repr(tuple(texts))
    answers = {"classify": "logits.softmax(-1)", "multilabel": "logits.sigmoid()"}
    answer = answers.get(task.kind, "logits")
    return _LOGITS.format(folder=FOLDER, inputs=inputs.replace("'", '"'), answer=answer)


def _meaning(task: Task, output: str, normalize: bool) -> list[str]:
    lines = []
    if output == LOGITS and task.labels:
        lines.append("The labels, in the order of the logits: " + ", ".join(task.labels) + ".")
    if output == LOGITS and task.kind == "regress" and task.range is not None:
        low, high = task.range
        lines.append(f"The output is the answer; weft also clips it to {low:g} to {high:g}.")
    if output != LOGITS and task.compare == "cosine":
        lines.append(_similarity(task))
    elif output != LOGITS:
        lines.append(
            "The cosine of two vectors is not an answer of this task: its answers are computed from these "
            "vectors by its head. An export with `--set output=logits` has the head too."
        )
    if normalize:
        lines.append("Vectors have norm 1.")
    return [line for text in lines for line in (text, "")]


def _similarity(task: Task) -> str:
    """How the answer of a similarity task follows from the cosine."""
    if task.range is None:
        return "The answer of the task is the cosine of the two texts' vectors."
    low, high = task.range
    return (
        f"The answer of the task is {low:g} + {high - low:g}·c, where c is the cosine of the two texts' "
        "vectors, clipped to 0 to 1."
    )
