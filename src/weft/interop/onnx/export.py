"""`export_onnx`: write a model as one ONNX graph that answers every task."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from weft.data.tokens.backends import backends_of
from weft.data.tokens.encode import gives_types, stride_of
from weft.errors import WeftError
from weft.interop.folder import encoder_record
from weft.interop.onnx.card import card
from weft.interop.onnx.folder import (
    BY,
    FORMAT,
    INPUTS,
    MODEL_FILE,
    README_FILE,
    TASKS_FILE,
    TOKENIZER_FILE,
    VECTORS,
    WEIGHTS_FILE,
)
from weft.interop.onnx.graph import OPSET, Graph, to_onnx
from weft.interop.onnx.packages import need
from weft.model.threads import in_eval
from weft.tasks.kinds import KINDS
from weft.utils.checksums import file_sha256
from weft.utils.files import new_folder
from weft.utils.notes import Tell, no_note
from weft.utils.version import __version__

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

EXTERNAL = 1 << 30
"""A graph with more bytes of weights has them in a file of their own: one ONNX file holds at most 2 GiB."""


def export_onnx(
    model: Model, out: str | Path, precision: str = "float32", tell: Tell = no_note
) -> dict[str, Any]:
    """Write a model as a folder with one ONNX graph for all tasks, its tokenizer, tasks.json and a README.

    Example:
        >>> export_onnx(weft.load("runs/first"), "exported")     # then: weft predict exported reviews.txt

    Args:
        model: the model; it is put into eval mode.
        out: the folder; an earlier export there is replaced.
        precision: `float32`, or `int8`: the encoder's linear maps as products of integers.
        tell: called with a line before each step that takes a while.

    Returns:
        Facts about the export: `tasks`, `inputs`, `precision`, `opset`, `nodes` and `bytes`.

    Raises:
        WeftError: the method is `separate`, or a package of the extra `onnx` is missing.
    """
    check_method(model)
    need("onnx", "onnxscript", *(["onnxruntime"] if precision == "int8" else []))
    tokenizer = model.tokenizer  # an encoder without one cannot be used by others
    graph = Graph(_on_cpu(model))
    tell("converting the model to ONNX; this takes a minute or so")
    proto = to_onnx(graph)
    nodes = len(proto.graph.node)
    with new_folder(Path(out)) as work:
        if precision == "int8":
            from weft.interop.onnx.quantize import quantize

            tell("quantizing to int8")
            proto = quantize(proto)
        save_graph(proto, work / MODEL_FILE)
        tokenizer.save_pretrained(work)
        if not (work / TOKENIZER_FILE).is_file():
            raise WeftError(f"the tokenizer {type(tokenizer).__name__} cannot be saved as {TOKENIZER_FILE}")
        facts = {
            "format": FORMAT,
            "made_by": f"weft {__version__}",
            "graph": {
                "file": MODEL_FILE,
                "sha256": {file.name: file_sha256(file) for file in sorted(work.glob("model.*"))},
                "precision": precision,
                "opset": OPSET,
            },
            "encoder": encoder_record(model),
            "method": model.method.settings(),
            **described(model, graph),
        }
        text = json.dumps(facts, indent=1, ensure_ascii=False)
        (work / TASKS_FILE).write_text(text + "\n", encoding="utf-8")
        (work / README_FILE).write_text(card(model, facts), encoding="utf-8")
        size = sum(file.stat().st_size for file in work.glob("model.*"))
    return {
        "tasks": [task.name for task in model.tasks],
        "inputs": graph.inputs,
        "precision": precision,
        "opset": OPSET,
        "nodes": nodes,
        "bytes": size,
    }


def check_method(model: Model) -> None:
    """Refuse a model that has no single graph."""
    if model.method.separate:
        raise WeftError(
            "method 'separate' has one whole encoder per task, and which of them a row runs through depends "
            "on its task: no single graph of fixed operators computes this. A task can be exported by "
            "itself, exactly:\n  type: weft export BUNDLE --task TASK --to hf --out PATH    (or --to "
            "sentence-transformers)"
        )


def described(model: Model, graph: Graph) -> dict[str, Any]:
    """What tasks.json says about the inputs, the outputs, the tokens and the tasks."""
    backends = backends_of(model.tokenizer)
    sizes = {task.head: task.size for task in model.tasks}
    outputs: dict[str, Mapping[str, Any]] = {
        shape: {"by": model.answers_by[shape], "size": sizes[shape], "about": BY[model.answers_by[shape]]}
        for shape in graph.shapes
    }
    about = "[rows, width]: the vector that the head of the row's task reads, as model.embed returns it"
    return {
        "inputs": {name: INPUTS[name] for name in graph.inputs},
        "outputs": {**outputs, VECTORS: {"by": "row", "about": about}},
        "max_length": model.max_length,
        "longest": model.longest,
        "pad_id": model.pad_id,
        "token_types": gives_types(model.tokenizer),
        "space_before_words": backends.byte_level,
        "truncation_side": model.tokenizer.truncation_side,
        "tasks": [_described(model, number, task) for number, task in enumerate(model.tasks)],
    }


def _described(model: Model, number: int, task: Task) -> dict[str, Any]:
    windows = KINDS[task.kind].windows
    return {
        "id": number,
        "output": task.head,
        "windows": windows,
        "stride": stride_of(task.stride, windows, model.max_length, task.name),
        "settings": task.settings(),
    }


def _on_cpu(model: Model) -> Model:
    """The model in eval mode, or a copy of it if it is on another device."""
    in_eval(model)
    if next(model.parameters()).device.type == "cpu":
        return model
    with torch.no_grad():
        return copy.deepcopy(model).to("cpu")


def save_graph(proto: Any, path: Path) -> None:
    """Write a graph; the weights of a large one go to a file beside it."""
    import onnx

    large = proto.ByteSize() > EXTERNAL
    location = WEIGHTS_FILE if large else None
    onnx.save(proto, path, save_as_external_data=large, location=location)
