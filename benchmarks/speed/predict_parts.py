"""Measure the parts of a call of `model.predict`."""

from __future__ import annotations

import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import weft
from weft.inference.precision import precision_context
from weft.inference.predict import QUEUED, answered, slabs, tokenized
from weft.inference.runner import all_logits


def parts_of(model: weft.Model, requests: list[Any], precision: Any, rounds: int) -> dict[str, float]:
    """Measure the milliseconds of a whole call and of its parts, as medians over the rounds.

    In a call the parts overlap: requests are tokenized while the device works, and answers are made
    meanwhile too. Here they run one after another.

    Args:
        model: the model.
        requests: of the call.
        precision: `float32` or `bf16`.
        rounds: how often everything is measured.

    Returns:
        `call_ms` of a whole call and `garbage_ms` in it of Python's garbage collector; `tokenize_ms`,
        `passes_ms` and `answers_ms` of its parts.
    """
    taken: defaultdict[str, list[float]] = defaultdict(list)
    inside = precision_context(model, precision)

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        taken[name].append(time.perf_counter() - began)

    for _ in range(rounds):
        with collected() as garbage, timed("call"):
            model.predict(requests, precision=precision)
        taken["garbage"].append(sum(garbage))
        with timed("tokenize"):
            ready = [tokenized(model, requests, which) for which in slabs(len(requests))]
        with timed("passes"):
            started = [all_logits(model, slab.examples, precision=inside, ahead=QUEUED) for slab in ready]
            logits = [each.finish() for each in started]
        with timed("answers"):
            for both in zip(ready, logits, strict=True):
                answered(model, *both)
    return {f"{name}_ms": round(1000 * statistics.median(each), 1) for name, each in taken.items()}


@contextmanager
def collected() -> Iterator[list[float]]:
    """Collect the seconds of each run of the garbage collector inside the context."""
    seconds: list[float] = []
    began = 0.0

    def watch(phase: str, _: Any) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            seconds.append(time.perf_counter() - began)

    gc.callbacks.append(watch)
    try:
        yield seconds
    finally:
        gc.callbacks.remove(watch)
