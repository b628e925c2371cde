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
    count = len(model.tasks)
    tasks = "one task" if count == 1 else f"all {count} tasks"
    rows = [
        [
            str(number),
            f"`{task.name}`",
            task.kind,
            f"`{task.head}`",
            _reads(task),
            _labels(task),
        ]
        for number, task in enumerate(model.tasks)
    ]
    first = next((task for task in model.tasks if task.kind in SHORT), None)
    return "\n".join(
        [
            *front_matter(model, "onnx", None),
            "# One ONNX graph for many tasks",
            "",
            f"A weft model (method {methods_of(model)}) as one ONNX graph, {facts['graph']['precision']}, "
            f"that answers {tasks}. The task of each row is an input, so a batch may mix tasks. "
            "onnxruntime, tokenizers and numpy are enough to run it.",
            "",
            table(["id", "task", "kind", "output", "reads", "labels"], rows, right=[0]),
            "",
            *([f"An example, task `{first.name}`:", "", *_code(model, first, facts)] if first else []),
            f"`{TASKS_FILE}` says what every input and output means, and how texts become tokens; "
            f"`{TOKENIZER_FILE}` is the tokenizer. With weft, `weft predict FOLDER FILE` and `weft serve "
            "FOLDER` take this folder in place of a bundle.",
            "",
        ]
    )


def _reads(task: Task) -> str:
    columns = [*task.texts, *task.choices]
    return ", ".join(shown(column) for column in columns)


def _labels(task: Task) -> str:
    listed = ", ".join(map(shown, task.labels[:MOST_LABELS]))
    more = len(task.labels) - MOST_LABELS
    return f"{listed} and {more} more" if more > 0 else listed


def _code(model: Model, task: Task, facts: dict[str, Any]) -> list[str]:
    """Code that answers one example of a task."""
    inputs, number = facts["inputs"], [t.name for t in model.tasks].index(task.name)
    texts = ", ".join(expressions(task))
    rows = f"[{texts}]" if task.apart or len(task.texts) == 1 else f"[({texts})]"
    truncation = f'{facts["max_length"]}, direction="{facts["truncation_side"]}"'
    others = {
        "token_type_ids": "[row.type_ids for row in rows]" if facts["token_types"] else "0 * input_ids",
        "marks": "0 * input_ids",
        "example": "[0] * len(rows)  # rows of one example have one number",
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
        f"rows = tokenizer.encode_batch({rows})",
        "input_ids = np.array([row.ids for row in rows])",
        'feeds = {"input_ids": input_ids, "attention_mask": [row.attention_mask for row in rows]}',
        f'feeds["task"] = [{number}] * len(rows)',
        *(f'feeds["{name}"] = {value}' for name, value in others.items() if name in inputs),
        "feeds = {name: np.array(value) for name, value in feeds.items()}",
        f"(logits,) = session.run([{literal(task.head)}], feeds)",
    ]
    return python(*lines, *_answer(task))


def _answer(task: Task) -> list[str]:
    """Code that reads the answer off `logits`."""
    if task.kind in ("regress", "similarity"):
        if task.range is None:
            return ["print(logits[0])"]
        low, high = task.range
        if task.targets == "raw":
            return [f"print(logits[0].clip({low:g}, {high:g}))"]
        return [f"print({low:g} + {high - low:g} * logits[0].clip(0, 1))"]
    scaled = "logits[0]" if task.temperature is None else f"logits[0] / {task.temperature!r}"
    names = f"labels = [{', '.join(map(literal, task.labels))}]"
    if task.kind == "classify":
        chances = [f"scores = np.exp({scaled} - ({scaled}).max())", "chances = scores / scores.sum()"]
    else:
        chances = [f"chances = 1 / (1 + np.exp(-({scaled})))"]
    return [names, *chances, "print(dict(zip(labels, chances.tolist())))"]
