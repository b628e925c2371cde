"""One training step and one inference pass of weft as functions; only this module knows the engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import weft
from benchmarks.speed.machine import half_precision
from weft.acceleration.compiled import blocks_of
from weft.acceleration.compiler_options import RECOMPILATIONS
from weft.acceleration.cuda_graph import Capturer
from weft.data.batching.batch import TrainingBatch
from weft.inference.captured import CapturedModel
from weft.model.losses import example_weights
from weft.sampling.plan.plan import Step
from weft.training.engines import build_engine, choose_engine
from weft.training.engines.engine import Move
from weft.training.optim.owners import OwnerOptimizers
from weft.training.step.gradients import StepGradients
from weft.training.step.microbatches import MicroBatch, MicroBatches, PreparedStep
from weft.utils.processes import Processes

VOCABULARY = 20_000


def training_of(model: weft.Model, engine: str) -> weft.Training:
    """The settings of a step: weft's defaults, the method's own learning rate, and an engine."""
    return weft.Training(lr=model.method.default_lr, mixed=True, engine=engine)


def weft_step(
    model: weft.Model, training: weft.Training, rows: int, length: int, mixed: bool
) -> tuple[Callable[[], None], tuple[object, ...]]:
    """A whole training step (forward, loss, backward, clip, optimizer) on random rows, and what it keeps.

    Args:
        model: the model, on its device.
        training: how to train, `engine` included.
        rows: R, an example each.
        length: L, the same for all rows.
        mixed: whether the rows are of all tasks, in turn, or of the first alone.
    """
    task = torch.arange(rows) % (len(model.tasks) if mixed else 1)
    inputs = random_rows(rows, length, len(model.tasks) if mixed else 1, torch.device("cpu"))
    values = [0.5 if model.tasks[t].kind == "regress" else 0 for t in task.tolist()]
    batch = TrainingBatch(inputs, model.collate_labels(values, task), rows)
    tasks, weight = task.numpy(), example_weights(task).numpy()
    names = [one.name for one in model.tasks]
    processes = Processes()
    parts = MicroBatches(model, training, [], np.arange(len(names)), processes)
    gradients = StepGradients(model, parts, names)
    optimizers = OwnerOptimizers(model, lr=training.lr or 0.0, weight_decay=training.weight_decay)
    name, _ = choose_engine(model, training, processes)
    engine = build_engine(name, gradients, optimizers, None)
    one = Step(0, tasks, np.arange(rows), weight, rows)
    prepared = engine.prepare(PreparedStep(one, [MicroBatch(tasks, weight, batch)]))
    move = Move(1.0, None, sorted(set(tasks.tolist())), [], None)
    return lambda: engine.step(prepared, move), (model, engine, *optimizers.optimizers.values())


def weft_pass(model: Any, inputs: Mapping[str, Tensor]) -> Callable[[], object]:
    """An inference pass over fixed inputs, as fast as possible: compiled and captured on a GPU, else plain.

    The bare encoder's blocks are compiled and its pass is captured as a model's are, so that both have the
    same engine.

    Args:
        model: a weft model or a Hugging Face encoder.
        inputs: what its forward pass takes, on its device.
    """
    run = eager_pass(model, inputs)
    device = inputs["input_ids"].device
    if device.type != "cuda":
        return run
    if isinstance(model, weft.Model):
        whole = CapturedModel(model, "bf16", compiled=True)
        return lambda: whole(None, **inputs)
    compile_blocks(model)
    # the mask of a batch without padding is left out by Hugging Face, except in a graph
    mask = inputs["attention_mask"]
    whole = mask.clone()
    mask[0, -1] = 0
    replay = Capturer(device)(run)  # type: ignore[arg-type]
    mask.copy_(whole)
    return replay


def eager_pass(model: Any, inputs: Mapping[str, Tensor]) -> Callable[[], object]:
    """The same pass without an engine, as in a user's own loop."""
    model.eval()
    device = inputs["input_ids"].device

    def run() -> object:
        with torch.no_grad(), half_precision(device):
            return model(**inputs)

    return run


def random_rows(rows: int, length: int, tasks: int, device: torch.device) -> dict[str, Tensor]:
    """Token ids [R, L] without padding, a mask of ones, and tasks in turn [R]."""
    made = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, VOCABULARY, (rows, length), generator=made)
    task = torch.arange(rows) % tasks
    found = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "task": task}
    return {name: value.to(device) for name, value in found.items()}


def compile_blocks(encoder: Any) -> None:
    """Compile the blocks of a bare encoder for any length."""
    config: Any = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, RECOMPILATIONS)
    for block in blocks_of(encoder):
        block.compile(dynamic=True)
