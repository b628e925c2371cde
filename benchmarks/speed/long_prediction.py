"""Predict long rows: in file order and eagerly, as `model.predict` does, and without padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import weft
from benchmarks.speed.bench import Bench
from benchmarks.speed.encoders import bare, fresh
from benchmarks.speed.machine import half_precision
from benchmarks.speed.results import Work
from benchmarks.speed.timing import Variant, interleaved
from benchmarks.speed.varlen_attention import FLASH, VARLEN, packed, set_attention, why_not_flash
from benchmarks.speed.weft_step import VOCABULARY
from weft.data.batching.collate import gather
from weft.data.tokens.tokens import Tokens
from weft.inference.batches import Cut, by_tokens
from weft.inference.examples import Examples
from weft.inference.precision import precision_context
from weft.inference.predict import QUEUED
from weft.inference.runner import all_logits

TASKS = 4
BATCHES = 12
"""The number of full batches that the rows would fill."""
SPREAD = 0.8
"""The standard deviation of the logarithm of the lengths."""
SHORTEST = 16
PLAIN = "weft lora, file order, padded, eager"
WARM = 3
"""Rounds that are not counted: `predict` captures a shape when it is needed for the third time."""

Batches = list[NDArray[np.int64]]


def measure(bench: Bench, encoder: str, longest: int, positions: int) -> None:
    """Time all variants on the same rows.

    Args:
        bench: what to measure with.
        encoder: its name.
        longest: the most tokens of a row.
        positions: the token positions of a batch, padding included.
    """
    examples = documents(longest, (2 if bench.quick else BATCHES) * positions)
    file_order = _in_file_order(len(examples), max(1, positions // longest))
    bucketed = [np.asarray(cut.chosen) for cut in by_tokens(examples, None, positions)]
    name = f"prediction, rows of up to {longest} tokens"
    bench.say(name)
    variants: list[Variant] = []
    model = model_of(encoder, bench.device)
    plain = partial(bare, encoder, bench.device)
    build = partial(bench.build, variants)
    build(PLAIN, lambda: _model_variant(model, examples, file_order), needed=True)
    build("weft lora, predict, eager", lambda: _predict_variant(model, examples, False))
    build("weft lora, predict", lambda: _predict_variant(model, examples, True))
    build("weft lora, predict, varlen kernel", lambda: _varlen_variant(encoder, examples, bench.device))
    build("bare encoder, file order, padded, eager", lambda: _bare_variant(plain(), examples, file_order))
    build("bare encoder, by length, padded, eager", lambda: _bare_variant(plain(), examples, bucketed))
    filled = _filled(examples.lengths, positions)
    for attention, shown in ((VARLEN, "torch's varlen kernel"), (FLASH, FLASH)):
        label = f"bare encoder, no padding, {shown}, eager"
        reason = why_not_flash() if attention == FLASH else None
        if reason is not None:
            bench.skip(label, reason)
            continue
        build(label, partial(_packed_variant, plain, examples, filled, attention))
    taken = interleaved(variants, bench.device, bench.rounds, warm=1 if bench.quick else WARM)
    tokens = int(examples.lengths.sum())
    for variant in variants:
        seconds = taken[variant.name].ms / 1e3
        variant.facts["tokens_per_s"] = round(tokens / seconds)
        variant.facts["positions_per_s"] = round(variant.facts["positions"] / seconds)
        variant.facts["padding"] = round(1 - tokens / variant.facts["positions"], 3)
    facts = {"encoder": encoder, "rows": len(examples), "tokens": tokens, "longest": longest, "tasks": TASKS}
    work = Work("prediction", name, PLAIN, "speed", facts)
    work.add(variants, taken, None)
    bench.note(work)
    model.release()


def documents(longest: int, tokens: int) -> Examples:
    """Rows of random ids with about so many tokens together, of tasks in turn, in random order of length."""
    draw = np.random.default_rng(0)
    lengths: list[int] = []
    while sum(lengths) < tokens:
        lengths.append(int(np.clip(draw.lognormal(np.log(longest / 3), SPREAD), SHORTEST, longest)))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    arrays = {"ids": draw.integers(1000, VOCABULARY, offsets[-1]), "offsets": offsets}
    split: Any = SimpleNamespace(labels=None)  # the rows have neither texts nor labels
    split_tokens = Tokens("", {**arrays, "full_lengths": np.diff(offsets)}, split)
    number = np.arange(len(lengths))
    return Examples([split_tokens], number % TASKS, np.zeros_like(number), number)


def model_of(encoder: str, device: torch.device, attention: str | None = None) -> weft.Model:
    """LoRA of rank 8 with random weights on some tasks of two labels."""
    loaded = fresh(encoder, device)
    if attention is not None:
        set_attention(loaded.model, attention)
    tasks = [weft.Task(f"t{i}", size=2) for i in range(TASKS)]
    model = weft.Model(loaded, tasks, {"use": "lora", "rank": 8}, seed=1).to(device).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def _in_file_order(count: int, rows: int) -> Batches:
    return [np.arange(first, min(first + rows, count)) for first in range(0, count, rows)]


def _filled(lengths: NDArray[np.int64], positions: int) -> Batches:
    """Batches of rows in the order of the file that have at most so many tokens together."""
    batches: list[list[int]] = [[]]
    tokens = 0
    for number, length in enumerate(lengths.tolist()):
        if batches[-1] and tokens + length > positions:
            batches.append([])
            tokens = 0
        batches[-1].append(number)
        tokens += length
    return [np.array(batch) for batch in batches]


def _padded(examples: Examples, chosen: NDArray[np.int64]) -> dict[str, Tensor]:
    inputs = gather(examples.picked(chosen), 0).inputs
    return {name: inputs[name] for name in ("input_ids", "attention_mask")}


def _run(passes: Sequence[Callable[[], Tensor]], device: torch.device) -> list[Tensor]:
    """Run all batches, and copy their results to the host."""
    with torch.no_grad(), half_precision(device):
        return [each().float().cpu() for each in passes]


def _model_variant(model: weft.Model, examples: Examples, batches: Batches) -> Variant:
    """Weft's model in a user's own loop."""
    device = next(model.parameters()).device

    def logits(inputs: dict[str, Tensor], task: Tensor) -> Tensor:
        model.eval()
        moved = {name: x.to(device, non_blocking=True) for name, x in inputs.items()}
        return torch.cat([x.flatten() for x in model(**moved, task=task.to(device)).by_shape.values()])

    made = [(_padded(examples, chosen), torch.from_numpy(examples.task[chosen])) for chosen in batches]
    passes = [partial(logits, *each) for each in made]
    facts = {"positions": sum(inputs["input_ids"].numel() for inputs, _ in made)}
    return Variant("", lambda: _run(passes, device), (model,), (model,), facts)


def _predict_variant(model: weft.Model, examples: Examples, captured: bool) -> Variant:
    """What `model.predict` does between tokenizing and decoding."""
    cuda = next(model.parameters()).device.type == "cuda"
    inside = precision_context(model, "bf16" if cuda else "float32")

    def run() -> object:
        model.captures.enabled = captured
        return all_logits(model, examples, precision=inside, ahead=QUEUED).finish()

    facts = {"positions": _positions(model, examples), "captured": captured and cuda}
    return Variant("", run, (model,), (model,), facts)


def _positions(model: weft.Model, examples: Examples) -> int:
    """The token positions of the batches that `predict` makes."""
    from weft.inference.batches import OVERHEAD, POSITIONS, by_cost
    from weft.inference.ladder import in_two_ways

    if next(model.parameters()).device.type == "cuda":
        eager, cuts = in_two_ways(examples, model.longest)
        cuts += eager
    else:
        cuts = by_cost(examples, OVERHEAD, POSITIONS)

    def size(cut: Cut) -> int:
        rows = len(cut.chosen) if cut.rows is None else cut.rows
        return rows * (int(examples.lengths[cut.chosen].max()) if cut.length is None else cut.length)

    return sum(map(size, cuts))


def _varlen_variant(encoder: str, examples: Examples, device: torch.device) -> Variant:
    model = model_of(encoder, device, VARLEN)
    variant = _predict_variant(model, examples, True)
    variant.shares = ()
    return variant


def _bare_variant(model: Any, examples: Examples, batches: Batches) -> Variant:
    device = next(model.parameters()).device
    made = [_padded(examples, chosen) for chosen in batches]

    def vectors(inputs: dict[str, Tensor]) -> Tensor:
        moved = {name: x.to(device, non_blocking=True) for name, x in inputs.items()}
        first: Tensor = model(**moved).last_hidden_state[:, 0]
        return first

    facts = {"positions": sum(inputs["input_ids"].numel() for inputs in made)}
    return Variant("", lambda: _run([partial(vectors, each) for each in made], device), (model,), (), facts)


def _packed_variant(make: Callable[[], Any], examples: Examples, batches: Batches, attention: str) -> Variant:
    model = make()
    set_attention(model, attention)
    device = next(model.parameters()).device
    tokens = examples.splits[0]
    made = [[torch.from_numpy(np.asarray(tokens.ids(int(i)))) for i in chosen] for chosen in batches]

    def vectors(rows: list[Tensor]) -> Tensor:
        inputs = packed([row.to(device, non_blocking=True) for row in rows])
        first: Tensor = model(**inputs).last_hidden_state[0, inputs["cu_seq_lens_q"][:-1].long()]
        return first

    facts = {"positions": int(examples.lengths.sum())}
    return Variant("", lambda: _run([partial(vectors, rows) for rows in made], device), (model,), (), facts)
