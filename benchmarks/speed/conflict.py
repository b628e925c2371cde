"""Measure what merging gradients (`train.conflict`) and MT-Uncertainty cost beside a plain training step.

    python -m benchmarks.speed.conflict [--tasks 2 4 8] [--precision float32 bf16] [--conflicts pcgrad upgrad]
        [--encoder random:minilm] [--method full] [--rows 32] [--length 64] [--lanes 8] [--out FILE.json]

Steps of a real plan (`uniform`, mixed) over random rows of one length. Per precision there is one model, so
that it is compiled once; all variants train its weights in turns. A turn is some steps, prepared in advance
as a run does it. Variants: the plain step, and each way to merge, by the engine of the device (`graph` on a
GPU) and by `eager`. The ratio is to the plain step of the same engine. `parts` times the parts of a merged
step one by one, waiting for the device after each, so that their sum is more than the step.

MT-Uncertainty and its cheaper forms are compared with `uniform` in the last precision, with four tasks.
Prints rows as they are measured, and writes them to a file with `--out`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import weft
from benchmarks.speed.encoders import fresh
from benchmarks.speed.machine import in_words, machine, synchronise
from benchmarks.speed.timing import Taken, Variant, interleaved
from weft.acceleration.compiled import is_compiled
from weft.data.splits.split import Split
from weft.data.tokens.tokens import Tokens
from weft.sampling.plan.plan import Plan
from weft.training.conflict import build_conflict
from weft.training.engines.engine import Move
from weft.training.engines.graph_by_task import GraphByTask
from weft.training.optim.owners import OwnerOptimizers
from weft.training.step import by_task
from weft.training.step import driver as drivers
from weft.training.step.driver import Driver
from weft.training.step.gradients import step_seed
from weft.training.uncertainty import chooser_of
from weft.utils.processes import Processes

STEPS = 12
"""The steps that every variant runs through, again and again."""

CHOOSING = 4
"""The number of tasks of MT-Uncertainty."""

FORMS: dict[str, dict[str, Any]] = {
    "mt_uncertainty": {},
    "every: 2": {"every": 2},
    "every: 4": {"every": 4},
    "half the candidates": {"candidates": 1 / 2},
    "exit_layer: half the blocks": {"exit_layer": 1 / 2},
    "every: 2, exit_layer: half the blocks": {"every": 2, "exit_layer": 1 / 2},
}
"""Settings of the sampler; `candidates` as a share of the batch, `exit_layer` of the blocks."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--precision", nargs="+", default=["float32", "bf16"], choices=["float32", "bf16"])
    parser.add_argument("--conflicts", nargs="+", default=["pcgrad", "upgrad"])
    parser.add_argument("--encoder", default="random:minilm")
    parser.add_argument("--method", default="full", help="YAML, such as {use: lora, share: all}")
    for name, default in (("rows", 32), ("length", 64), ("rounds", 7), ("eager-rounds", 3), ("steps", STEPS)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--engine", help="default: that of `auto`; `graph` runs uncaptured on a CPU")
    parser.add_argument("--lanes", type=int, default=by_task.LANES, help="most tasks that run side by side")
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=[*FORMS, "none"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.engine is not None:
        drivers.choose_engine = lambda model, training, _: (  # type: ignore[assignment]
            args.engine if training.engine == "auto" else training.engine,
            None,
        )
    by_task.LANES = args.lanes
    began = time.monotonic()
    told = machine(torch.device(args.device))
    print(in_words(told))
    print(f"{args.encoder}, {args.method}, {args.rows} rows of {args.length} tokens\n")
    print("| precision | tasks | step | engine | ms (quartiles) | ratio to the plain step |")
    print("|---|---|---|---|---|---|", flush=True)
    results: list[dict[str, Any]] = []
    for precision in args.precision:
        bench = Bench(args, precision, results)
        for count in args.tasks:
            bench.merging(count)
    forms = [form for form in args.forms if form != "none"]
    if forms:
        bench.choosing(forms)
    print(f"\n{time.monotonic() - began:.0f} s in all")
    if args.out:
        path = Path(args.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**vars(args), "machine": told, "results": results}, indent=1))


class Bench:
    """One model in one precision, and the drivers that train it in turns.

    Args:
        args: the command line.
        precision: of training.
        results: the rows of the table are added to it.
    """

    def __init__(self, args: argparse.Namespace, precision: str, results: list[dict[str, Any]]) -> None:
        self.args, self.precision, self.results = args, precision, results
        self.device = torch.device(args.device)
        count = max([*args.tasks, CHOOSING])
        self.tasks = [weft.Task(f"t{number}", size=2) for number in range(count)]
        encoder = fresh(args.encoder, self.device)
        self.model = weft.Model(encoder, self.tasks, yaml.safe_load(args.method)).to(self.device)
        self.train = [random_tokens(task, 8 * args.rows, args.length) for task in self.tasks]

    def merging(self, count: int) -> None:
        """Measure the plain step and every way to merge, with the first `count` tasks."""
        for engine, rounds in (("auto", self.args.rounds), ("eager", self.args.eager_rounds)):
            plain = self.driver(count, engine)
            steps = self.prepared(plain)
            variants = [Variant("plain", cycled(plain, steps))]
            self.warm(plain, steps)
            merged: Driver | None = None
            for name in self.args.conflicts:
                try:
                    conflict = build_conflict(name)
                except weft.WeftError as why:
                    print(f"| {self.precision} | {count} | {name} | left out: {why} | | |".replace("\n", " "))
                    continue
                if merged is None:
                    merged = self.driver(count, engine, conflict=name)
                    own = self.prepared(merged)
                    self.warm(merged, own)
                variants.append(Variant(name, self.with_conflict(merged, conflict, own)))
            taken = interleaved(variants, self.device, rounds, 1, len(steps) if engine == "auto" else 4)
            for name, times in taken.items():
                self.row(count, name, plain.name, times, taken["plain"])
            if merged is not None and isinstance(merged.engine, GraphByTask):
                self.parts(count, merged, own)
            for driver in (plain, merged):
                if driver is not None:
                    driver.close()
            if plain.name == "eager":  # a device without a graph has nothing else to measure
                return

    def choosing(self, forms: Sequence[str]) -> None:
        """Measure MT-Uncertainty, which chooses before it trains, beside `uniform`."""
        plain = self.driver(CHOOSING, "auto")
        steps = self.prepared(plain)
        variants = [Variant("uniform", cycled(plain, steps))]
        self.warm(plain, steps)
        built = [plain]
        for name in forms:
            settings = dict(FORMS[name])
            if "candidates" in settings:
                settings["candidates"] = round(settings["candidates"] * self.args.rows)
            if "exit_layer" in settings:
                settings["exit_layer"] = round(settings["exit_layer"] * self.model.num_layers)
            driver = self.driver(CHOOSING, "auto", sampler={"use": "mt_uncertainty", **settings})
            run = self.chosen(driver)
            for _ in range(self.args.steps):  # captures all shapes
                run()
            self.released(driver)
            built.append(driver)
            variants.append(Variant(name, run))
        taken = interleaved(variants, self.device, self.args.rounds, 1, self.args.steps)
        for name, times in taken.items():
            self.row(CHOOSING, name, plain.name, times, taken["uniform"])
        for driver in built:
            driver.close()

    def driver(self, count: int, engine: str, **settings: Any) -> Driver:
        """A driver of the first `count` tasks' steps."""
        training = weft.Training(
            steps=1000,
            batch_size=self.args.rows,
            mixed=True,
            engine=engine,
            precision=self.precision,
            lr=1e-6,
            verify_engine=False,
            **{"sampler": "uniform", **settings},
        )
        plan = Plan(
            [len(tokens) for tokens in self.train[:count]],
            training.sampler,
            seed=0,
            steps=training.steps or 0,
            batch_size=training.batch_size,
            mixed=True,
            names=[task.name for task in self.tasks[:count]],
        )
        names, ids = list(plan.names), np.arange(count)
        driver = Driver(self.model, training, self.train[:count], names, ids, plan, Processes())
        driver.begin(OwnerOptimizers(self.model, lr=1e-6), None)
        self.plan = plan
        return driver

    def prepared(self, driver: Driver) -> list[Any]:
        """Some steps, prepared as a thread of a run prepares them."""
        return [driver.prepared(self.plan.step(number)) for number in range(self.args.steps)]

    def warm(self, driver: Driver, steps: list[Any]) -> None:
        """Compile and capture all shapes; then other drivers may patch the model."""
        for prepared in steps:
            driver.engine.step(prepared, move_of(prepared.step))
        self.released(driver)

    def released(self, driver: Driver) -> None:
        """Undo the patches of a captured engine: its graphs need them no more."""
        synchronise(self.device)
        if driver.engine.name == "graph":
            driver.engine.patch_stack.undo()
            driver.engine.patch_stack.patches = []
        assert not is_compiled(self.model)

    def with_conflict(self, driver: Driver, conflict: Any, steps: list[Any]) -> Callable[[], None]:
        """A step that is merged in this way; all ways share one engine and its graphs."""
        run, merged = cycled(driver, steps), driver.gradients.merged
        assert merged is not None
        method = conflict.of(merged.names)

        def step() -> None:
            merged.conflict = method
            run()

        return step

    def chosen(self, driver: Driver) -> Callable[[], None]:
        """A step of MT-Uncertainty: the choice, the preparation and the step, as the loop does it."""
        plan = self.plan
        chooser = chooser_of(self.model, list(plan.names), plan.sizes.tolist(), plan)
        assert chooser is not None
        number = 0

        def run() -> None:
            nonlocal number
            step = chooser.step(plan, number % plan.steps, driver.measured, print)
            number += 1
            driver.engine.step(driver.prepared(step), move_of(step))

        return run

    def parts(self, count: int, driver: Driver, steps: list[Any]) -> None:
        """Time the parts of merged steps, in milliseconds per step."""
        engine: Any = driver.engine
        spent: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any]) -> Any:
            synchronise(self.device)
            start = time.perf_counter()
            result = work()
            synchronise(self.device)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
            return result

        def one(prepared: Any) -> None:
            step = prepared.step
            engine._begin(step.number, move_of(step))
            present = sorted(np.unique(step.task[: step.real]).tolist())
            several = len(prepared.groups) > 1
            for group, packed in zip(prepared.groups, prepared.packed, strict=True):
                replay = partial(engine._replay, engine._pass_of(packed), packed, step.number, "dropout")
                timed("passes", replay)
                if several:
                    places = [present.index(task) for task in group.tasks]
                    timed("held", partial(engine._flat.hold, places, [True] * len(places), len(present)))
            matrix = engine._flat.matrix(len(present), several)
            gramian = timed("products", lambda: engine._flat.gramian(matrix).cpu())
            seed = step_seed(0, step.number, 0, "conflict")
            merged = timed("weights", lambda: engine._tasks.weigh(present, gramian, None, seed))
            timed("weighted sum", lambda: engine._flat.write(matrix, present, merged))
            timed("update", engine._update)

        for prepared in steps:
            one(prepared)
        groups = sum(len(prepared.groups) for prepared in steps)
        told = {name: 1e3 * seconds / len(steps) for name, seconds in spent.items()}
        words = ", ".join(f"{name} {ms:.2f}" for name, ms in told.items())
        facts = f"{groups / len(steps):.1f} groups per step, {engine.shapes} graphs"
        print(f"| {self.precision} | {count} | parts | {facts} | {words} | |", flush=True)
        self.results.append({"precision": self.precision, "tasks": count, "parts": told, "facts": facts})

    def row(self, count: int, name: str, engine: str, times: Taken, plain: Taken) -> None:
        """Print and keep a row."""
        ratio = times.ms / plain.ms
        spread = f"{times.ms:.2f} ({times.low:.2f} to {times.high:.2f})"
        print(f"| {self.precision} | {count} | {name} | {engine} | {spread} | {ratio:.2f} |", flush=True)
        facts = {"precision": self.precision, "tasks": count, "step": name, "engine": engine}
        self.results.append({**facts, "ms": times.ms, "low": times.low, "high": times.high, "ratio": ratio})


def random_tokens(task: weft.Task, count: int, length: int) -> Tokens:
    """Rows of random tokens, all of one length, with random labels."""
    draw = np.random.default_rng(0)
    arrays = {
        "ids": draw.integers(1000, 20_000, count * length, np.int32),
        "offsets": np.arange(count + 1, dtype=np.int64) * length,
        "full_lengths": np.full(count, length, np.int64),
    }
    labels = draw.integers(0, 2, count).tolist()
    split = Split(task, "train", "random rows", [("",)] * count, labels, np.arange(count))
    return Tokens("", arrays, split)


def move_of(step: Any) -> Move:
    """How a step updates the weights."""
    return Move(1.0, None, np.unique(step.task[: step.real]).tolist(), [], None)


def cycled(driver: Driver, steps: list[Any]) -> Callable[[], None]:
    """Runs one of the steps at each call."""
    number = 0

    def run() -> None:
        nonlocal number
        prepared = steps[number % len(steps)]
        number += 1
        driver.engine.step(prepared, move_of(prepared.step))

    return run


if __name__ == "__main__":
    main()
