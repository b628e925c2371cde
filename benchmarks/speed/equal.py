"""Check that two engines train equally: every registered method, the same steps, without dropout.

    python -m benchmarks.speed.equal [--engines eager,graph] [--methods lora morris] [--precision bf16]
        [--steps 12]

Prints, for each method, by how much the losses of a step differ at the most, and how far apart the weights
end, as a share of how far they moved: an adapter that one engine forgets shows there first. In float32 both
are rounding, which Adam makes steps of where a gradient is nearly zero; in bf16 more of them are. Ends with 1
if some differ by more than they may.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import weft
from benchmarks.speed.encoders import fresh, minilm
from weft.data.batching.batch import TrainingBatch
from weft.methods import METHODS
from weft.model.losses import example_weights
from weft.sampling.plan.plan import Step
from weft.training.engines import build_engine, choose_engine
from weft.training.engines.engine import Move
from weft.training.optim.owners import OwnerOptimizers
from weft.training.step.gradients import StepGradients
from weft.training.step.microbatches import MicroBatch, MicroBatches, PreparedStep
from weft.utils.processes import Processes

TASKS, ROWS = 5, 16
LENGTHS = (24, 72, 128)
ALLOWED = {"float32": (1e-3, 0.2), "bf16": (2e-2, 0.4)}
"""The tolerances of losses and of weights."""
BARELY = 1e-9
"""A dropout rate that drops nothing, and still makes every engine run its dropout code."""


class Course(NamedTuple):
    """The result of one engine: its name, the losses of the steps, and the final weights."""

    used: str
    losses: list[float]
    weights: dict[str, Tensor]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", default="eager,graph" if torch.cuda.is_available() else "eager,compiled")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--precision", choices=list(ALLOWED), default="float32")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--encoder", help="default: minilm")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    engines = args.engines.split(",")
    failed = 0
    for method in args.methods:
        began = time.monotonic()
        try:
            told, fine = compared(method, engines, args)
        except Exception as why:  # a method that fails must not hide the others
            told, fine = f"{type(why).__name__}: {str(why).strip().splitlines()[0]}", False
        failed += not fine
        mark = "" if fine else "  ← NOT EQUAL"
        print(f"{method:18} {told}  {time.monotonic() - began:5.1f} s{mark}", flush=True)
    sys.exit(1 if failed else 0)


def compared(method: str, engines: Sequence[str], args: argparse.Namespace) -> tuple[str, bool]:
    """Train a method with two engines from the same weights; returns differences and whether it passes."""
    torch.manual_seed(0)
    encoder = fresh(args.encoder or minilm(None), torch.device(args.device))
    tasks = [weft.Task(f"t{number}", size=2) for number in range(TASKS)]
    model = weft.Model(encoder, tasks, method, seed=1, head_dropout=0.0).to(args.device)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = BARELY
        elif isinstance(getattr(module, "dropout", None), float):  # of an adapter
            module.dropout = BARELY
    start = copy.deepcopy(model.state_dict())
    first, second = (course(model, start, engine, args) for engine in engines)
    apart = max(abs(a - b) / abs(a) for a, b in zip(first.losses, second.losses, strict=True))
    moved = sum(float((x - start[n].cpu()).square().sum()) for n, x in first.weights.items()) ** 0.5
    off = sum(float((x - second.weights[n]).square().sum()) for n, x in first.weights.items()) ** 0.5
    used = f"{first.used}, {second.used}"
    told = f"{used:18} losses {apart:.1e}  weights {off / moved:.1e} of {moved:.2g}"
    loss, weight = ALLOWED[args.precision]
    return told, apart <= loss and off <= weight * moved and first.used != second.used


def course(model: weft.Model, start: dict[str, Any], engine: str, args: argparse.Namespace) -> Course:
    """Train some steps of several lengths, with padding, with one engine."""
    model.load_state_dict(start)
    separate = model.method.separate
    training = weft.Training(
        lr=model.method.default_lr, mixed=not separate, engine=engine, precision=args.precision
    )
    names, processes = [task.name for task in model.tasks], Processes()
    parts = MicroBatches(model, training, [], np.arange(len(names)), processes)
    optimizers = OwnerOptimizers(model, lr=training.lr or 0.0, weight_decay=training.weight_decay)
    used, _ = choose_engine(model, training, processes)
    running = build_engine(used, StepGradients(model, parts, names), optimizers, None)
    losses = []
    for number in range(args.steps):
        task = torch.full((ROWS,), number % TASKS) if separate else torch.arange(ROWS) % TASKS
        batch = some_batch(model, task, LENGTHS[number % len(LENGTHS)], number)
        weight = example_weights(task).numpy()
        step = Step(number, task.numpy(), np.arange(ROWS), weight, ROWS)
        prepared = running.prepare(PreparedStep(step, [MicroBatch(task.numpy(), weight, batch)]))
        running.step(prepared, Move(1.0, None, sorted(set(task.tolist())), [], None))
        losses.append(float(running.losses().loss.sum()))
    running.close()
    trained = {name: p.detach().cpu().clone() for name, p in model.named_parameters() if p.requires_grad}
    return Course(running.name, losses, trained)


def some_batch(model: weft.Model, task: Tensor, length: int, seed: int) -> TrainingBatch:
    """Random tokens, with two padded rows, and labels computed from them."""
    made = torch.Generator().manual_seed(seed)
    ids = torch.randint(1000, 20_000, (ROWS, length), generator=made)
    mask = torch.ones_like(ids)
    mask[0, length // 2 :] = 0
    mask[3, length - 4 :] = 0
    labels = model.collate_labels([int(first) % 2 for first in ids[:, 0]], task)
    return TrainingBatch({"input_ids": ids, "attention_mask": mask, "task": task}, labels, ROWS)


if __name__ == "__main__":
    main()
