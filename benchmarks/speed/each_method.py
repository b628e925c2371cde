"""Time one training step of every registered method in one loop, and count its trained parameters.

A method that is registered later appears by itself.
"""

from __future__ import annotations

from functools import partial

from benchmarks.speed.bench import Bench
from benchmarks.speed.timing import Variant
from benchmarks.speed.training import model_of, named
from benchmarks.speed.weft_step import training_of, weft_step
from weft.methods import METHODS

BASIS = "full"


def measure(bench: Bench, encoder: str, rows: int, length: int, tasks: int, engine: str) -> None:
    """One training step of mixed tasks, by method; compared with `full`, which trains all of the encoder.

    Args:
        bench: what to measure with.
        encoder: its name.
        rows: R.
        length: L.
        tasks: how many tasks the rows are of.
        engine: of the steps; `separate` runs eagerly whatever it is.
    """
    work = f"every method, training {rows}x{length}"
    bench.say(work)
    variants: list[Variant] = []

    def made(method: str, own: str) -> Variant:
        model = model_of(encoder, method, tasks, bench)
        step, keeps = weft_step(model, training_of(model, own), rows, length, True)
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        facts = {"method": method, "tasks": tasks, "engine": own, "trained": trained}
        return Variant("", step, keeps, (), facts)

    # first the method that the others are compared with
    for method in sorted(METHODS, key=lambda name: name != BASIS):
        own = "eager" if METHODS[method].separate else engine
        name = named(method, tasks, own)
        bench.build(variants, name, partial(made, method, own), needed=method == BASIS)
    facts = {"encoder": encoder, "rows": rows, "length": length}
    basis = named(BASIS, tasks, engine)
    bench.measure("methods", work, variants, basis, "cost", facts, training=True)
