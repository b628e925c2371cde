"""The section `onnx`: passes of a model in torch beside those of its export in onnxruntime, on a CPU.

All variants run the same batches: real texts of nine tasks, mixed and cut as `model.predict` does, with the
same number of threads. Further tables have passes of a single text each, as an idle server runs them, and
whole calls of `predict`, tokenizing and decoding included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import weft
from benchmarks.speed.bench import Bench
from benchmarks.speed.timing import Variant
from weft.data import load_split
from weft.inference.batches import OVERHEAD, POSITIONS, by_cost
from weft.inference.predict import tokenized
from weft.inference.runner import _inputs, _moved
from weft.interop.onnx.export import export_onnx
from weft.interop.onnx.runtime import OnnxModel

TORCH, FLOAT32, INT8 = "weft in torch", "onnxruntime, float32", "onnxruntime, int8"
PASSES, CALLS = "onnx, passes on GLUE text", "onnx, predict on GLUE text"
SINGLE = "onnx, passes of one GLUE text"
EACH = 32
"""Texts of each task."""


def measure(bench: Bench, encoder: str, root: str) -> None:
    """Measure LoRA with the tasks of GLUE.

    Args:
        bench: what to measure with.
        encoder: the encoder, `minilm`.
        root: the folder with GLUE's files.
    """
    if bench.device.type != "cpu":
        bench.skip("onnx", "exports are measured on a CPU")
        return
    tasks = weft.load_suite("glue", root)
    model = weft.Model(encoder, tasks, "lora", max_length=128).eval()
    requests = mixed_requests(tasks, 4 if bench.quick else EACH)
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        models: dict[str, Any] = {TORCH: model}
        for name, precision in ((FLOAT32, "float32"), (INT8, "int8")):
            export_onnx(model, Path(folder, precision), precision)
            models[name] = OnnxModel(Path(folder, precision), threads)
            bench.say(f"  {name}: exported")
        batches = batches_of(model, requests)
        facts = {
            "encoder": encoder,
            "method": "lora",
            "tasks": len(tasks),
            "threads": threads,
            "text": "GLUE",
        }
        positions = sum(batch["input_ids"].numel() for batch in batches)
        facts |= {"texts": len(requests), "batches": len(batches), "positions": positions}
        few = requests[:: max(1, len(requests) // 32)]
        single = [batch for one in few for batch in batches_of(model, [one])]
        for work, run, given in (
            (PASSES, passes, batches),
            (SINGLE, passes, single),
            (CALLS, calls, requests),
        ):
            variants: list[Variant] = []
            for name, own in models.items():
                bench.build(
                    variants, name, lambda own=own, given=given, run=run: Variant("", run(own, given))
                )
            bench.measure("onnx", work, variants, TORCH, "speed", facts)


def mixed_requests(tasks: Any, each: int) -> list[tuple[str, Any]]:
    """Validation texts of all tasks, in turns."""
    texts = [[(task.name, own) for own in load_split(task, "validation").texts[:each]] for task in tasks]
    return [own[i] for i in range(each) for own in texts if i < len(own)]


def batches_of(model: Any, requests: list[tuple[str, Any]]) -> list[dict[str, torch.Tensor]]:
    """The inputs of the passes that `predict` runs for these requests on a CPU."""
    slab = tokenized(
        model, [(task, own if len(own) > 1 else own[0]) for task, own in requests], range(len(requests))
    )
    cuts = by_cost(slab.examples, OVERHEAD, POSITIONS)
    return [_moved(_inputs(model, slab.examples, cut)[0], torch.device("cpu")) for cut in cuts]


def passes(model: Any, batches: list[dict[str, torch.Tensor]]) -> Callable[[], None]:
    """Run all batches."""

    def run() -> None:
        with torch.no_grad():
            for batch in batches:
                model.run(**batch)

    return run


def calls(model: Any, requests: list[tuple[str, Any]]) -> Callable[[], None]:
    """Call `predict`."""
    plain = [(task, own if len(own) > 1 else own[0]) for task, own in requests]
    return lambda: model.predict(plain)
