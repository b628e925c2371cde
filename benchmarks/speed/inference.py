"""Compare mixed-task inference of each method with the bare encoder, PEFT and the arithmetic limit.

Every number of tasks and every method takes turns in one loop over rows of one form. A second loop has rows
of the lengths of real text, padded three ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed.bench import Bench
from benchmarks.speed.encoders import bare
from benchmarks.speed.peers import adapted, adapter_names_pass, one_after_the_other
from benchmarks.speed.timing import Variant
from benchmarks.speed.training import model_of, named
from benchmarks.speed.weft_step import VOCABULARY, eager_pass, weft_pass
from weft.methods import METHODS

BARE = "bare encoder"
NAMES = "peft lora, adapter_names"
IN_TURN = "peft lora, one task after the other"
SHOWN = ("lora", "bitfit", "morris", "pals", "ca_mtl")
"""The methods that are measured by default, and with every number of tasks."""

NEWER = ("dora", "mtl_lora", "vera", "lora_xs", "road", "ia3", "poly", "hydra", "reft", "hyperformer")
"""Methods that are measured with every number of tasks if they are named; all others with the main one."""

LONGEST = 128


def measure(
    bench: Bench, encoder: str, rows: int, length: int, tasks: Sequence[int], methods: Sequence[str]
) -> None:
    """Rows of one shape, of which a third is half as long as the others.

    Args:
        bench: what to measure with.
        encoder: its name.
        rows: R.
        length: L.
        tasks: the numbers of tasks; 9 is the main one, or the first if there is no 9.
        methods: those that are run.
    """
    work = f"inference {rows}x{length}"
    bench.say(work)
    main = 9 if 9 in tasks else tasks[0]
    cuda = bench.device.type == "cuda"
    variants: list[Variant] = []
    inputs = {count: half_padded(rows, length, count, bench.device) for count in {1, *tasks}}
    plain = {name: value for name, value in inputs[main].items() if name != "task"}

    def alone(run: Callable[..., Callable[[], object]]) -> Variant:
        model = bare(encoder, bench.device)
        return Variant("", run(model, plain), (model,), (), {"tasks": 0})

    def mixed(method: str, count: int) -> Variant:
        model = model_of(encoder, method, count, bench)
        facts = {"method": method, "tasks": count}
        return Variant("", weft_pass(model, inputs[count]), (model,), (), facts)

    def peer(count: int, run: Callable[..., Callable[[], object]]) -> Variant:
        model = adapted(encoder, bench.device, count)
        return Variant("", run(model, inputs[count]), (model,), (), {"method": "lora", "tasks": count})

    bench.build(variants, BARE, lambda: alone(weft_pass), needed=True)
    if cuda:
        bench.build(variants, f"{BARE}, eager", lambda: alone(eager_pass))
        # tells apart the cost of the adapters and the way in which weft runs the encoder
        bench.build(variants, named("frozen", 1), partial(mixed, "frozen", 1))
    bench.build(variants, f"{NAMES}, {main} tasks", partial(peer, main, adapter_names_pass))
    bench.build(variants, f"{IN_TURN}, {main} tasks", partial(peer, main, one_after_the_other))
    for count in sorted(tasks, key=lambda n: n != main):
        for method in methods:
            if runs_mixed(method) and (count == main or method in (*SHOWN, *NEWER)):
                bench.build(variants, named(method, count), partial(mixed, method, count))
    facts = {"encoder": encoder, "rows": rows, "length": length}
    limit = (bare(encoder, bench.device), False)
    bench.measure("inference", work, variants, BARE, "cost", facts, limit)


def measure_text(bench: Bench, encoder: str, lengths: Sequence[int], source: str, tasks: int = 9) -> None:
    """Rows with the lengths of real text, padded in three ways, through `lora` and the bare encoder.

    Batches of 32: padded to 128 all, to the longest of a random batch, to the longest of a batch of like
    length. Eager on any device: every batch has another shape.

    Args:
        bench: what to measure with.
        encoder: its name.
        lengths: the tokens of each row.
        source: where the lengths are from, in words.
        tasks: how many tasks the rows are of.
    """
    ordered = sorted(lengths)
    ways = {
        f"all padded to {LONGEST}": (list(lengths), LONGEST),
        "random batches, padded to the longest": (list(lengths), None),
        "batches of like length": (ordered, None),
    }
    model = model_of(encoder, "lora", tasks, bench)
    alone = bare(encoder, bench.device)
    bench.say("inference on text")
    variants: list[Variant] = []
    for way, (given, fixed) in ways.items():
        batches = [ragged(given[at : at + 32], fixed, tasks, bench.device) for at in range(0, len(given), 32)]
        plain = [{name: value for name, value in batch.items() if name != "task"} for batch in batches]
        places = sum(batch["input_ids"].numel() for batch in batches)
        facts = {"tasks": tasks, "padding": round(1 - sum(lengths) / places, 3)}
        for name, of, inputs in ((BARE, alone, plain), (named("lora", tasks), model, batches)):
            every = [eager_pass(of, batch) for batch in inputs]
            bench.build(variants, f"{name}, {way}", partial(_all, every, facts))
    facts = {"encoder": encoder, "rows": len(lengths), "text": source}
    basis = f"{BARE}, batches of like length"
    bench.measure("real", "inference on text", variants, basis, "cost", facts, training=True)


def runs_mixed(method: str) -> bool:
    """Whether a method runs one encoder; `separate` has one per task, and runs one batch per task."""
    return not METHODS[method].separate


def half_padded(rows: int, length: int, tasks: int, device: torch.device) -> dict[str, Tensor]:
    """Token ids [R, L], every third row padded from its half on, and tasks in turn [R]."""
    lengths = [length // 2 if row % 3 == 0 else length for row in range(rows)]
    return ragged(lengths, length, tasks, device)


def ragged(
    lengths: Sequence[int], longest: int | None, tasks: int, device: torch.device
) -> dict[str, Tensor]:
    """Random token ids of rows of these lengths, padded to `longest` or to the longest of them."""
    most = max(lengths) if longest is None else longest
    draw = np.random.default_rng(0)
    ids = torch.from_numpy(draw.integers(1000, VOCABULARY, (len(lengths), most)))
    mask = (torch.arange(most)[None] < torch.tensor(list(lengths))[:, None]).long()
    found = {"input_ids": ids * mask, "attention_mask": mask, "task": torch.arange(len(lengths)) % tasks}
    return {name: value.to(device) for name, value in found.items()}


def _all(runs: Sequence[Callable[[], object]], facts: dict[str, object]) -> Variant:
    def run() -> None:
        for one in runs:
            one()

    return Variant("", run, (), (), dict(facts))
