"""Training steps on long rows: engines `graph` and `eager`, and gradient checkpointing."""

from __future__ import annotations

from functools import partial

import weft
from benchmarks.speed.bench import Bench
from benchmarks.speed.long_prediction import TASKS, model_of
from benchmarks.speed.results import Work
from benchmarks.speed.timing import Variant, interleaved
from benchmarks.speed.varlen_attention import VARLEN
from benchmarks.speed.weft_step import training_of, weft_step

PLAIN = "weft lora, eager"


def measure(bench: Bench, encoder: str, length: int, positions: int) -> None:
    """Time steps on rows of one length, without padding.

    Args:
        bench: what to measure with.
        encoder: its name.
        length: the tokens of each row.
        positions: the tokens of a step.
    """
    rows = max(1, positions // length)
    name = f"training {rows}x{length}"
    bench.say(name)
    variants: list[Variant] = []
    make = partial(_step, bench, encoder, rows, length)
    bench.build(variants, PLAIN, partial(make, "eager"), needed=True)
    bench.build(variants, f"{PLAIN}, gradient checkpointing", partial(make, "eager", again=True))
    bench.build(variants, f"{PLAIN}, varlen kernel", partial(make, "eager", attention=VARLEN))
    if bench.device.type == "cuda":
        bench.build(variants, "weft lora, graph", partial(make, "graph"))
        bench.build(variants, "weft lora, graph, varlen kernel", partial(make, "graph", attention=VARLEN))
    else:
        bench.skip("weft lora, graph", "a CUDA graph needs a GPU")
    taken = interleaved(variants, bench.device, bench.rounds, warm=1)
    for variant in variants:
        seconds = taken[variant.name].ms / 1e3
        variant.facts["tokens_per_s"] = variant.facts["positions_per_s"] = round(rows * length / seconds)
    facts = {"encoder": encoder, "rows": rows, "length": length, "tasks": TASKS}
    work = Work("training", name, PLAIN, "speed", facts)
    work.add(variants, taken, None)
    bench.note(work)
    for variant in variants:
        variant.keeps[1].close()  # type: ignore[attr-defined]  # the engine


def _step(
    bench: Bench,
    encoder: str,
    rows: int,
    length: int,
    engine: str,
    again: bool = False,
    attention: str | None = None,
) -> Variant:
    """A step of mixed tasks; `again`: blocks run again in the backward pass instead of being kept."""
    model: weft.Model = model_of(encoder, bench.device, attention).train()
    if again:
        model.gradient_checkpointing_enable()
    step, keeps = weft_step(model, training_of(model, engine), rows, length, mixed=True)
    return Variant("", step, keeps, (), {"engine": engine, "checkpointing": again})
