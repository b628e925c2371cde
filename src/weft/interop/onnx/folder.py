"""The folder of an export to ONNX: its files, and what tasks.json says. No torch is imported.

    model.onnx       one graph for all tasks (with model.weights beside it, if it is large)
    tasks.json       its inputs and outputs, and how each task reads texts and logits
    tokenizer.json   the tokenizer; transformers' settings of it are in tokenizer_config.json
    README.md        the tasks in a table, and code that answers one of them

Everything that a consumer needs is in these files; examples/onnx_predict.py is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bundle.manifest import task_of_settings
from weft.bundle.no_bundle import ONNX_FILES, is_onnx_export
from weft.bundle.strangers import check_task_sizes
from weft.errors import WeftError
from weft.tasks.task import Task, check_tasks
from weft.utils.checksums import file_sha256
from weft.utils.plain_files import check_plain_top
from weft.utils.safe_json import read_json

FORMAT = 1
MODEL_FILE, TASKS_FILE = ONNX_FILES
WEIGHTS_FILE = "model.weights"
TOKENIZER_FILE = "tokenizer.json"
README_FILE = "README.md"

VECTORS = "vectors"
"""The output with the vector that a task's head reads, [rows, width]."""

INPUTS = {
    "input_ids": "int64 [rows, length]: the tokens; pad_id beyond the end of a row",
    "attention_mask": "int64 [rows, length]: 1 at tokens, 0 beyond the end of a row",
    "token_type_ids": "int64 [rows, length]: the tokenizer's type ids if token_types is true, else 0",
    "marks": "int64 [rows, length]: for the kind marked 1 at tokens of the first marked span, 2 of the "
    "second, 3 of both; else 0",
    "task": "int64 [rows]: the id of the row's task",
    "example": "int64 [rows]: the number of the row's example, from 0 on without a gap; the rows of an "
    "example (choices, windows, the texts of a pair that are encoded separately) have the same",
}
"""The inputs that a graph may have."""

BY = {
    "example": "[rows, size]: entry e belongs to example e; the entries behind the last example mean nothing",
    "row": "[rows, 1]: one score per row",
    "token": "[rows, length, size]: one vector per token",
}
"""What the logits of an output belong to."""

EXPECTED = "expected a folder that `weft export BUNDLE --to onnx --out FOLDER` has written"


@dataclass(frozen=True)
class Exported:
    """What tasks.json says.

    Attributes:
        folder: the folder.
        tasks: the tasks, in the order of their ids.
        facts: the contents of tasks.json.
    """

    folder: Path
    tasks: tuple[Task, ...]
    facts: Mapping[str, Any]

    @property
    def inputs(self) -> list[str]:
        """The names of the graph's inputs."""
        return list(self.facts["inputs"])

    @property
    def precision(self) -> str:
        """`float32` or `int8`."""
        return str(self.facts["graph"]["precision"])

    @property
    def sha256(self) -> str:
        """The hash of the graph."""
        return str(self.facts["graph"]["sha256"][MODEL_FILE])

    @property
    def answers_by(self) -> dict[str, str]:
        """For each head shape, whether its logits are by `example`, `row` or `token`."""
        return {name: about["by"] for name, about in self.facts["outputs"].items() if name != VECTORS}


def read_exported(folder: str | Path) -> Exported:
    """Read and check tasks.json; the graph is not read."""
    folder = Path(folder)
    if not is_onnx_export(folder):
        missing = next((name for name in ONNX_FILES if not (folder / name).is_file()), MODEL_FILE)
        raise WeftError(f"{folder} is no export to ONNX ({missing} is missing); {EXPECTED}")
    check_plain_top(folder, "an export to ONNX")
    path = folder / TASKS_FILE
    try:
        facts = read_json(path, EXPECTED)
    except WeftError as wrong:
        raise WeftError(f"{wrong}; export the bundle again") from None
    if facts.get("format") != FORMAT:
        raise WeftError(
            f"{path} has format {facts.get('format')!r}; this version of weft reads format {FORMAT}; export "
            "the bundle again"
        )
    _check(path, facts)
    tasks = []
    for settings in facts["tasks"]:
        check_task_sizes(path, settings["settings"])
        tasks.append(task_of_settings(settings["settings"]))
    for task in tasks:
        if task.head not in facts["outputs"]:
            raise WeftError(f"{path}: task {task.name!r} has no output: {task.head!r} is missing")
    return Exported(folder, check_tasks(tasks), facts)


def export_sha256(folder: str | Path) -> str:
    """The sha256 of what decides on answers: tasks.json, which has that of the graph, and the tokenizer."""
    hashes = [file_sha256(Path(folder) / name) for name in (TASKS_FILE, TOKENIZER_FILE)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def check_graph(exported: Exported) -> Path:
    """Return the path of the graph; refuse files that were changed since the export."""
    for name, expected in exported.facts["graph"]["sha256"].items():
        path = exported.folder / name
        found = file_sha256(path) if path.is_file() else "of no file"
        if found != expected:
            raise WeftError(
                f"{path} is damaged, or belongs to another export: its sha256 is {found[:16]}…, and "
                f"{TASKS_FILE} has {expected[:16]}…; export the bundle again"
            )
    return exported.folder / MODEL_FILE


def _check(path: Path, facts: Mapping[str, Any]) -> None:
    """Refuse contents of a wrong form."""
    kinds: dict[str, tuple[Any, str]] = {
        "graph": (dict, "the graph's precision and sha256"),
        "inputs": (dict, "the graph's inputs"),
        "outputs": (dict, "the graph's outputs"),
        "tasks": (list, "the tasks"),
        "max_length": (int, "a number of tokens"),
        "pad_id": (int, "the id of the padding token"),
    }
    for name, (kind, expected) in kinds.items():
        if not isinstance(facts.get(name), kind):
            raise WeftError(f"{path}: {name} is {facts.get(name)!r}; expected {expected}")
    graph, longest = facts["graph"], facts.get("longest")
    sound = (
        isinstance(graph.get("precision"), str)
        and isinstance(graph.get("sha256"), dict)
        and {MODEL_FILE} <= set(graph["sha256"]) <= {MODEL_FILE, WEIGHTS_FILE}
        and all(isinstance(value, str) for value in graph["sha256"].values())
        and set(facts["inputs"]) <= set(INPUTS)
        and {"input_ids", "attention_mask", "task"} <= set(facts["inputs"])
        and all(isinstance(out, dict) and out.get("by") in BY for out in facts["outputs"].values())
        and all(isinstance(task, dict) and isinstance(task.get("settings"), dict) for task in facts["tasks"])
        and (longest is None or isinstance(longest, int))
        and 2 <= facts["max_length"] <= (longest or facts["max_length"])
    )
    if not sound:
        raise WeftError(f"{path} has a different form than weft writes; {EXPECTED}")
