"""What a run will take."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.engines import as_graph
from tests.support.more import some_of
from tests.support.tiny_run import rows_of, save_encoder
from weft.acceleration.compiled import check_free
from weft.acceleration.cuda_graph import Capturer
from weft.data.splits.splits import prepare
from weft.data.tokens.tokens import tokenize
from weft.training.engines.eager import EagerEngine
from weft.training.engines.graph import GraphEngine
from weft.training.estimate.estimate import _evaluated, _fitting, duration, estimate, evaluation_shape, size
from weft.training.estimate.step_time import PASSES, Costs, Examples, Rate, _timed, fitted_line
from weft.training.run.plan import plan_of
from weft.training.settings import Training
from weft.training.step import driver

pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def setting(encoder, method="lora", **train):
    """A model, how to train it, its plan and rows: two tasks, one of them with two rows an example."""
    files = {
        name: {"train": rows_of(name, 40, 1), "validation": rows_of(name, 12, 2)} for name in ("cat", "same")
    }
    tasks = [
        weft.Task("cat", labels=("no", "yes"), files=files["cat"]),
        weft.Task("same", labels=("x", "y", "z"), texts=("a", "b"), apart=True, files=files["same"]),
    ]
    model = weft.Model(encoder, tasks, method)
    training = Training(**{"steps": 12, "batch_size": 8, "max_length": 24, "lr": 1e-3} | train)
    tokens = {
        (task.name, name): tokenize(split, model.tokenizer, 24)
        for task in tasks
        for name, split in prepare(task).splits.items()
    }
    own = [tokens[task.name, "train"] for task in tasks]
    plan = plan_of(training, [t.name for t in tasks], [len(t) for t in own], [t.lengths for t in own])
    validation = {task.name: tokens[task.name, "validation"] for task in tasks}
    return model, training, plan, own, validation


@pytest.mark.parametrize("mixed", some_of([False, True], [True]))
@pytest.mark.parametrize("method", ["full", "lora", "frozen", "separate", "ca_mtl"])
def test_an_estimate_leaves_the_model_as_it_is(encoder, method, mixed):
    given_all = setting(encoder, method, mixed=mixed, accumulate=2)
    model = given_all[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = estimate(*given_all, budget=0.1)
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert found.step_seconds > 0
    assert found.evaluation_seconds > 0
    assert (found.steps, found.looked_at) == (12, 12)
    assert found.seconds == pytest.approx(12 * found.step_seconds + found.evaluation_seconds)
    assert found.memory.peak > found.memory.weights > 0
    assert json.loads(json.dumps(found.as_dict()))["memory"]["peak"] == found.memory.peak


def test_the_largest_batch_counts_every_row(encoder):
    model, training, plan, own, _ = setting(encoder)
    found = estimate(model, training, plan, own, budget=0.05)
    steps = [plan.step(number) for number in range(plan.steps)]
    # the examples of the second task have two rows
    assert found.memory.rows == 16
    longest = max(int(own[1].lengths[s.index].max()) for s in steps if s.task[0] == 1)
    assert found.memory.length == longest
    assert found.evaluation_seconds is None
    halved = estimate(model, training.model_copy(update={"accumulate": 2}), plan, own, budget=0.05)
    assert halved.memory.rows == 8


def test_what_is_told(encoder):
    found = estimate(*setting(encoder), budget=0.05)
    memory, times = replace(found, note=None).lines()  # the note may report a busy machine
    assert memory.startswith("memory: about ")
    assert "(16 rows of " in memory
    assert "the largest of 12 steps" in memory
    assert "per step on this machine (cpu, 1 thread), 12 steps " in times
    batches = "batch" if found.timed == 1 else "batches"  # a busy machine times fewer
    assert times.endswith(f" (engine eager, {found.timed} {batches} timed)")
    small = replace(found, room=1000, note=None)
    assert small.lines()[2] == (
        "warning: this machine has 1 kB of memory; lower Training(batch_size=…) or "
        "Training(max_length=…), or raise Training(accumulate=…)"
    )
    assert found.fits
    assert not small.fits
    assert replace(found, room=None).fits


@pytest.mark.each_value
@pytest.mark.parametrize("engine", ["graph", "compiled"])
@pytest.mark.parametrize(
    ("method", "train"),
    [
        ("lora", {"mixed": True, "accumulate": 2}),
        ("full", {"optimizer": "bert_adam"}),
        ("separate", {}),
        ("lora", {"sampler": "mt_uncertainty"}),
        ("frozen", {"trunk_cache": True}),
    ],
)
def test_steps_are_timed_by_the_engine_that_will_run(engine, method, train, encoder, monkeypatch):
    """Uncompiled and uncaptured, as on a CPU; the model stays as it is."""
    as_graph(monkeypatch)
    monkeypatch.setattr(driver, "choose_engine", lambda *_: (engine, None))
    ran = []
    real = {"graph": GraphEngine, "compiled": EagerEngine}[engine].step
    monkeypatch.setattr(f"{real.__module__}.{real.__qualname__}", lambda *a: ran.append(a) or real(*a))
    given_all = setting(encoder, method, **train)
    model = given_all[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = estimate(*given_all, budget=0.1)
    assert len(ran) == found.timed * (1 + PASSES)
    assert found.timed >= 1
    assert found.engine == engine
    assert found.note is None
    assert found.startup_seconds >= 0
    assert found.step_seconds > 0
    whole = found.startup_seconds + 12 * found.step_seconds + found.evaluation_seconds
    assert found.seconds == pytest.approx(whole)
    assert json.loads(json.dumps(found.as_dict()))["engine"] == engine
    assert f"(engine {engine}, {found.timed} steps timed; about " in found.lines()[1]
    assert "more to compile and capture" in found.lines()[1]
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    check_free(model)


def test_starting_is_told_apart_and_two_steps_are_timed_whatever_it_takes(encoder, monkeypatch):
    as_graph(monkeypatch)
    real = Capturer.__call__

    def slow(self, function):
        time.sleep(0.3)
        return real(self, function)

    monkeypatch.setattr(Capturer, "__call__", slow)
    found = estimate(*setting(encoder, mixed=True), budget=0.01)
    assert found.timed >= 2
    assert found.startup_seconds > 0.5  # at least two shapes
    assert found.step_seconds < 0.2


@pytest.mark.parametrize("why", ["driver", "memory", "room"])
def test_an_engine_that_fails_leaves_eager_times_and_a_note(why, encoder, monkeypatch):
    as_graph(monkeypatch)

    def failing(self, function):
        raise {"driver": RuntimeError("no graphs here\nand more"), "memory": torch.OutOfMemoryError("full")}[
            why
        ]

    if why == "room":
        monkeypatch.setattr("weft.training.estimate.estimate._room", lambda device: 1000)
    else:
        monkeypatch.setattr(Capturer, "__call__", failing)
    model, *rest = setting(encoder)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = estimate(model, *rest, budget=0.05)
    assert found.engine == "eager"
    told = {
        "driver": "RuntimeError: no graphs here",
        "memory": "OutOfMemoryError: full",
        "room": "its batches do not fit into memory",
    }[why]
    assert found.note == f"engine graph could not be timed; these are the times of eager: {told}"
    assert f"note: {found.note}" in found.lines()
    assert found.startup_seconds == 0
    assert found.step_seconds > 0
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    check_free(model)


def test_why_another_engine_runs_is_told(encoder):
    found = estimate(*setting(encoder, engine="graph"), budget=0.05)
    assert found.engine == "eager"
    assert "note: a graph needs a CUDA GPU, and the model is on cpu" in found.lines()


def tokens_of(lengths, rows=1):
    lengths = np.array(lengths)
    return SimpleNamespace(lengths=lengths, row_counts=np.full(len(lengths), rows), row_lengths=lengths)


def test_what_is_timed_fits_the_machine():
    part = Examples([(tokens_of([9] * 16), i) for i in range(16)], np.zeros(16, np.int64))

    def count(rows, length):
        return rows * length

    assert _fitting(part, count, None).shape == (16, 9)
    assert _fitting(part, count, 50).shape == (4, 9)
    assert _fitting(part, count, 1).shape == (1, 9)


def test_evaluations_are_counted_by_rows_and_times():
    costs = SimpleNamespace(of=lambda rows, length: np.asarray(rows) * np.asarray(length))
    rows = {"a": tokens_of([5] * 100), "b": tokens_of([3] * 10)}
    whole = 64 * 5 + 36 * 5 + 10 * 3
    watched = 50 * 5 + 10 * 3
    training = Training(evaluate_every=30, evaluate_rows=50)
    assert _evaluated(training, rows, costs, 100) == 4 * watched + whole
    training = training.model_copy(update={"last_evaluation": "subset", "evaluate_every": 0})
    assert _evaluated(training, rows, costs, 100) == watched


@pytest.mark.parametrize(
    ("length", "rows", "cpu", "cuda"),
    [(32, 1000, 128, 512), (1024, 1000, 4, 16), (4096, 1000, 1, 4), (8192, 1000, 1, 2), (32, 10, 10, 10)],
)
def test_long_rows_are_evaluated_a_few_at_a_time(length, rows, cpu, cuda):
    lengths = np.array([5] * (rows - 1) + [length])
    assert evaluation_shape(lengths, torch.device("cpu")) == (cpu, length)
    assert evaluation_shape(lengths, torch.device("cuda")) == (cuda, length)


@given(st.lists(st.tuples(st.floats(1, 1e9), st.floats(1e-4, 10)), min_size=1, max_size=5))
def test_time_neither_begins_below_zero_nor_falls(points):
    rate = fitted_line(points)
    assert rate.fixed >= 0
    assert rate.slope > 0


def test_a_line_is_found():
    rate = fitted_line([(1, 3.0), (2, 5.0), (4, 9.0)])
    assert (rate.fixed, rate.slope, rate.seconds(10)) == pytest.approx((1, 2, 21))
    assert fitted_line([(2, 4.0)]).seconds(3) == pytest.approx(6)


def test_what_would_take_too_long_is_timed_on_fewer_examples(monkeypatch):
    clock = [0.0]
    ran = []
    monkeypatch.setattr("weft.training.estimate.step_time.time.perf_counter", lambda: clock[0])
    costs = SimpleNamespace(of=lambda rows, length: rows * length)

    def run(examples):
        ran.append(len(examples.items))
        clock[0] += 0.01 * len(examples.items) * 10

    batches = [
        Examples([(tokens_of([10] * 64), i) for i in range(n)], np.zeros(n, np.int64)) for n in (64, 32)
    ]
    rate, timed = _timed(run, batches, costs, torch.device("cpu"), budget=3.0)
    assert ran == [2, 2, 5, 5, 5, 5, 5, 5]
    assert timed == 2
    assert rate.seconds(640) == pytest.approx(6.4)


def test_costs_grow_with_rows_and_faster_with_length(encoder):
    costs = Costs(setting(encoder)[0])
    assert costs.of(8, 16) == pytest.approx(2 * costs.of(4, 16))
    assert costs.of(8, 16) > 2 * costs.of(8, 8)
    assert costs.of([1, 2], [3, 4]).shape == (2,)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (1.24, "1.2 s"), (45.4, "45 s"), (240, "4 min"), (9000, "2.5 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(12, "12 bytes"), (91_400, "91 kB"), (4_000_000, "4 MB"), (1_234_000_000, "1.23 GB"), (512e9, "512 GB")],
)
def test_sizes(count, text):
    assert size(count) == text


def test_a_run_without_steps_takes_no_time_for_them(encoder):
    estimated = estimate(*setting(encoder, steps=0), budget=0.05)
    assert estimated.steps == 0
    assert estimated.seconds == estimated.evaluation_seconds
    assert ", 0 steps " in estimated.lines()[1]


@pytest.mark.parametrize("slow", [1.0, 6.0])
def test_the_spread_of_repeated_passes_is_measured(slow, monkeypatch):
    clock, passes = [0.0], count()
    monkeypatch.setattr("weft.training.estimate.step_time.time.perf_counter", lambda: clock[0])
    costs = SimpleNamespace(of=lambda rows, length: rows * length)

    def run(examples):
        clock[0] += 0.01 * len(examples.items) * (slow if next(passes) % 3 == 2 else 1.0)

    batch = Examples([(tokens_of([10] * 8), i) for i in range(8)], np.zeros(8, np.int64))
    rate, _ = _timed(run, [batch], costs, torch.device("cpu"), budget=3.0)
    assert rate.spread == pytest.approx(slow)


def test_a_busy_machine_is_reported(encoder, monkeypatch):
    for spread, noted in ((1.2, False), (6.0, True)):
        rate = Rate(0.1, 0.0, spread)
        monkeypatch.setattr("weft.training.estimate.estimate.time_training", lambda *_, rate=rate: (rate, 1))
        estimated = estimate(*setting(encoder), budget=0.05)
        assert ("took up to 6.0 times as long" in "".join(estimated.lines())) == noted
