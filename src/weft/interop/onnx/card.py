"""The README of an export to ONNX: its tasks, and code that answers one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.interop.cards import FOLDER, front_matter, methods_of, python
from weft.interop.example_code import expressions, literal
from weft.interop.onnx.folder import MODEL_FILE, TASKS_FILE, TOKENIZER_FILE
from weft.utils.markdown import shown, table

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

MOST_LABELS = 10
"""How many labels of a task are listed; tasks.json has all."""

SHORT = ("classify", "multilabel", "regress", "similarity")
"""Kinds that a few lines of code answer."""


def card(model: Model, facts: dict[str, Any]) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        facts: the contents of tasks.json.
    """
    one = len(model.tasks) == 1
    count = "one task" if one else f"all {len(model.tasks)} tasks"
    mixed = "" if one else " The task of each row is an input, so a batch may mix tasks."
    rows = [
        [str(number), f"`{task.name}`", task.kind, f"`{task.head}`", _reads(task), _labels(task)]
        for number, task in enumerate(model.tasks)
    ]
    short = [task for task in model.tasks if task.kind in SHORT]
    example = [f"An example, task `{short[0].name}`:", "", *_code(model, short[0], facts)] if short else []
    others = sorted({task.kind for task in model.tasks} - set(SHORT))
    return "\n".join(
        [
            *front_matter(model, "onnx", None),
            f"# {model.tasks[0].name if one else 'One ONNX graph for many tasks'}",
            "",
            f"A weft model (method {methods_of(model)}) as one ONNX graph, {facts['graph']['precision']}, "
            f"that answers {count}.{mixed} onnxruntime, tokenizers and numpy are enough to run it.",
            "",
            table(["id", "task", "kind", "output", "reads", "labels"], rows, right=[0]),
            "",
            *example,
            *([_longer(others), ""] if others else []),
            f"`{TASKS_FILE}` says what every input and output means, and how texts become tokens; "
            f"`{TOKENIZER_FILE}` is the tokenizer. With weft, `weft predict FOLDER FILE` and `weft serve "
            "FOLDER` take this folder in place of a bundle.",
            "",
        ]
    )


def _longer(kinds: list[str]) -> str:
    """Where the code for the other kinds is."""
    listed = ", ".join(f"`{kind}`" for kind in kinds)
    return (
        f"More code is needed for {listed}: windows over long texts, or rows of choices. "
        "`examples/onnx_predict_more.py` in weft's repository has it, and needs no weft either."
    )


def _reads(task: Task) -> str:
    columns = [*task.texts, *task.choices]
    return ", ".join(shown(column) for column in columns)


def _labels(task: Task) -> str:
    listed = ", ".join(map(shown, task.labels[:MOST_LABELS]))
    more = len(task.labels) - MOST_LABELS
    return f"{listed} and {more} more" if more > 0 else listed


def _code(model: Model, task: Task, facts: dict[str, Any]) -> list[str]:
    """Code that answers a list of texts, or of pairs, of a task."""
    number = [other.name for other in model.tasks].index(task.name)
    texts = expressions(task)
    truncation = f'{facts["max_length"]}, direction="{facts["truncation_side"]}"'
    apart = [
        "rows = tokenizer.encode_batch([text for pair in texts for text in pair])",
        "example = np.arange(len(rows)) // 2  # the rows of a pair have one number",
    ]
    together = ["rows = tokenizer.encode_batch(texts)", "example = np.arange(len(rows))"]
    others = {
        "token_type_ids": "[row.type_ids for row in rows]" if facts["token_types"] else "0 * input_ids",
        "marks": "0 * input_ids",
        "example": "example",
    }
    lines = [
        "import numpy as np",
        "from onnxruntime import InferenceSession",
        "from tokenizers import Tokenizer",
        "",
        FOLDER,
        f'tokenizer = Tokenizer.from_file(f"{{folder}}/{TOKENIZER_FILE}")',
        f"tokenizer.enable_truncation({truncation})",
        f"tokenizer.enable_padding(pad_id={facts['pad_id']})",
        f'session = InferenceSession(f"{{folder}}/{MODEL_FILE}")',
        f"texts = [{texts[0] if len(texts) == 1 else '(' + ', '.join(texts) + ')'}]  # one or many",
        *(apart if task.apart else together),
        "input_ids = np.array([row.ids for row in rows])",
        'feeds = {"input_ids": input_ids, "attention_mask": [row.attention_mask for row in rows]}',
        f'feeds["task"] = [{number}] * len(rows)',
        *(f'feeds["{name}"] = {value}' for name, value in others.items() if name in facts["inputs"]),
        "feeds = {name: np.array(value) for name, value in feeds.items()}",
        f"logits = session.run([{literal(task.head)}], feeds)[0][: len(texts)]",
    ]
    return python(*lines, *_answers(task))


def _answers(task: Task) -> list[str]:
    """Code that reads the answers off `logits`, a row per text or pair."""
    if task.kind in ("regress", "similarity"):
        if task.range is None:
            return ["print(logits.tolist())"]
        low, high = task.range
        clipped = f"logits.clip({low:g}, {high:g})"
        scaled = f"({low:g} + {high - low:g} * logits.clip(0, 1))"
        return [f"print({clipped if task.targets == 'raw' else scaled}.tolist())"]
    lines = [f"labels = [{', '.join(map(literal, task.labels))}]"]
    if task.temperature is not None:
        lines.append(f"logits = logits / {task.temperature!r}  # the task's temperature")
    if task.kind == "classify":
        lines.append("scores = np.exp(logits - logits.max(-1, keepdims=True))")
        lines.append("chances = scores / scores.sum(-1, keepdims=True)")
    else:
        lines.append("chances = 1 / (1 + np.exp(-logits))")
    return [*lines, "print([dict(zip(labels, row)) for row in chances.tolist()])"]
