"""Compare training steps of weft's engines with PEFT's eager step and the arithmetic limit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import weft
from benchmarks.speed.bench import Bench
from benchmarks.speed.encoders import bare, fresh
from benchmarks.speed.peers import peft_step
from benchmarks.speed.timing import Variant
from benchmarks.speed.weft_step import training_of, weft_step

BASIS = "peft lora, eager"


def measure(
    bench: Bench, encoder: str, shapes: Sequence[tuple[int, int]], engines: Sequence[str], tasks: int
) -> None:
    """Time the steps of every shape; one model is used for all shapes, so that it is compiled once.

    Args:
        bench: what to measure with.
        encoder: its name.
        shapes: rows and length of each batch.
        engines: of weft; the first is that of every variant, the others run `lora` with one task.
        tasks: how many tasks a mixed batch has.
    """
    wanted = [("lora", 1, engine) for engine in engines]
    wanted += [(method, tasks, engines[0]) for method in ("lora", "morris", "full")]
    models: dict[tuple[str, int, str], weft.Model] = {}
    engines_of: dict[tuple[str, int, str], Any] = {}
    limit = bare(encoder, bench.device)

    def made(method: str, count: int, engine: str, rows: int, length: int) -> Variant:
        key = (method, count, engine)
        shares = (models[key],) if key in models else ()
        if not shares:
            models[key] = model_of(encoder, method, count, bench)
        if key in engines_of:
            engines_of[key].close()  # a model runs under one engine at a time
        step, keeps = weft_step(models[key], training_of(models[key], engine), rows, length, count > 1)
        engines_of[key] = keeps[1]
        return Variant("", step, keeps, shares, {"method": method, "tasks": count, "engine": engine})

    def peer(rows: int, length: int) -> Variant:
        step, keeps = peft_step(encoder, bench.device, rows, length)
        return Variant("", step, keeps, (), {"method": "lora", "tasks": 1, "engine": "eager"})

    for rows, length in shapes:
        work = f"training {rows}x{length}"
        bench.say(work)
        variants: list[Variant] = []
        bench.build(variants, BASIS, partial(peer, rows, length), needed=True)
        for method, count, engine in wanted:
            name = named(method, count, engine)
            bench.build(variants, name, partial(made, method, count, engine, rows, length))
        facts = {"encoder": encoder, "rows": rows, "length": length}
        bench.measure("training", work, variants, BASIS, "speed", facts, (limit, True), training=True)


def model_of(encoder: str, method: str, tasks: int, bench: Bench) -> weft.Model:
    """A new model with `tasks` tasks of two labels."""
    of = [weft.Task(f"t{i}", size=2) for i in range(tasks)]
    return weft.Model(fresh(encoder, bench.device), of, method)


def named(method: str, tasks: int, engine: str = "") -> str:
    """The name of a row: `weft lora, 9 tasks, graph`."""
    name = f"weft {method}, {tasks} {'task' if tasks == 1 else 'tasks'}"
    return f"{name}, {engine}" if engine else name
