"""The graph: a model's forward pass as a module with tensors only, and its conversion to ONNX.

    (input_ids [R, L], attention_mask [R, L], task [R], …) → (logits of every head shape, vectors [R, d])

The task of each row is an input, so one graph serves every mix of tasks, any number of rows and any length.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.core.route import Route
from weft.inference.captures import input_names
from weft.interop.onnx.folder import VECTORS
from weft.interop.onnx.operators import translations
from weft.model.pooling import Reads

if TYPE_CHECKING:
    from onnx import ModelProto

    from weft.model.heads import Head
    from weft.model.model import Model

OPSET = 20
"""The ONNX operators: the first version with GELU as one operator."""

ROWS, LENGTH = 5, 11
"""The shape of the batch that is traced: no two sizes of a model should be equal to these by chance."""


class Graph(nn.Module):
    """A model as a function of tensors.

    Inputs are int64, in the order of `inputs`; `example` numbers examples from 0, and an example's rows need
    not be neighbors. There are as many examples as rows: the results of the last ones, which have no row, are
    not to be read. That way no size depends on a value.

    Args:
        model: the model, in eval mode.

    Attributes:
        inputs: the names of the inputs: `input_ids`, `attention_mask` and `token_type_ids` (where the
            encoder reads them), `marks` (where a task has marks), [R, L] each; `task` and `example` (where an
            example may have several rows), [R] each.
        shapes: the head shapes, in the order of the outputs.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        further = input_names(model)
        names = ["input_ids", "attention_mask", "token_type_ids", "marks"]
        self.inputs = [name for name in names if name in (*names[:2], *further)]
        self.inputs += ["task", *(["example"] if "example" in further else [])]
        self.shapes = list(model.heads)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The logits of every head shape, [R, C] or [R, L, C] each, and the rows' vectors, [R, d]."""
        inputs: dict[str, Any] = dict(zip(self.inputs, values, strict=True))
        if "example" in inputs:
            inputs["examples"] = inputs["input_ids"].size(0)
        output = self.model.run(**inputs)
        reads = Reads(output.hidden, output.pooled, output.layout)
        route = Route(inputs["task"], output.layout.mask, kernels=self.model.kernels)
        return *(output.by_shape[shape] for shape in self.shapes), self.vectors(reads, route)

    def vectors(self, reads: Reads, route: Route) -> Tensor:
        """What `embed` returns for each row and its task, [R, d]."""
        shape_of_row = self.model.get_buffer("_shape_of_task").index_select(0, route.task)
        vectors: Tensor | None = None
        for number, shape in enumerate(self.shapes):
            head: Head = self.model.heads[shape]  # type: ignore[assignment]
            own = head.vectors(reads, route)
            vectors = own if vectors is None else torch.where(shape_of_row[:, None] == number, own, vectors)
        assert vectors is not None
        return vectors


def output_names(shapes: Sequence[str]) -> list[str]:
    """The names of the graph's outputs: the head shapes, and the vectors."""
    return [*shapes, VECTORS]


def to_onnx(graph: Graph) -> ModelProto:
    """Convert the graph to ONNX, with any number of rows R and any length L.

    Args:
        graph: the graph; its model is on the CPU.
    """
    dims = {0: torch.export.Dim("rows", min=1), 1: torch.export.Dim("length", min=2, max=longest(graph))}
    shapes = tuple(dims if by_token(name) else {0: dims[0]} for name in graph.inputs)
    with _quietly(), _kept_tables(graph.model), torch.no_grad():
        program: Any = torch.onnx.export(
            graph,
            tuple(_example(graph, name) for name in graph.inputs),
            input_names=graph.inputs,
            output_names=output_names(graph.shapes),
            dynamic_shapes=(shapes,),
            opset_version=OPSET,
            dynamo=True,
            custom_translation_table=translations(),
            verbose=False,
        )
    proto: ModelProto = program.model_proto
    return proto


def longest(graph: Graph) -> int:
    """The longest row that the graph takes, in tokens."""
    return graph.model.longest or 1 << 20


def by_token(name: str) -> bool:
    """Whether an input has one value per token, [R, L], and not one per row, [R]."""
    return name not in ("task", "example")


def _example(graph: Graph, name: str) -> Tensor:
    """An input of the batch that is traced; its values do not matter, apart from padding."""
    if name == "task":
        return torch.arange(ROWS) % len(graph.model.tasks)
    if name == "example":
        return torch.tensor([0, 0, 1, 2, 2])
    length = min(LENGTH, longest(graph))
    values = torch.zeros(ROWS, length, dtype=torch.long)
    if name == "input_ids":
        return values + graph.model.pad_id  # an id that exists
    if name == "attention_mask":
        values += 1
        values[1, length // 2 :] = 0
    return values


@contextmanager
def _kept_tables(model: Model) -> Iterator[None]:
    """Inside, adapters read what they keep for inference, and do not renew it: a graph changes no buffer."""
    body: Any = model.body
    body.refresh()
    keeping, body.keeping = body.keeping, []
    try:
        yield
    finally:
        body.keeping = keeping


@contextmanager
def _quietly() -> Iterator[None]:
    """Inside, the exporter's notes about operators and unused packages are not shown."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
