"""Compiled blocks and captured passes of a model that several threads use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
from torch._dynamo.utils import counters

from tests.support.more import some_of
from tests.support.tiny import batch, build, scramble
from weft.acceleration.bias_tables import BiasTables
from weft.acceleration.compiled import Compiled, blocks_of
from weft.inference.captured import CapturedModel
from weft.model.trunk import run_trunk


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


def runs_of(model):
    """Passes of different tasks, with adapters and without."""

    def run(flip, bare):
        inputs = batch(model)
        if flip:
            inputs["task"] = inputs["task"].flip(0)
        with torch.no_grad():
            if not bare:
                return model(**inputs).hidden
            with model.adapters_off():
                return model(**inputs).hidden

    return [(run, flip, bare) for flip in (False, True) for bare in (False, True)]


def assert_near(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def by_threads(run, inputs, threads=4, times=5):
    """Each thread runs every batch several times: (which batch, its result)."""

    def work(first):
        order = [(first + n) % len(inputs) for n in range(times * len(inputs))]
        with torch.no_grad():
            return [(number, getattr(found := run(**inputs[number]), "hidden", found)) for number in order]

    with ThreadPoolExecutor(threads) as pool:
        return [pair for found in pool.map(work, range(threads)) for pair in found]


@pytest.mark.parametrize("whole", some_of([False, True], 1), ids=["blocks", "model"])
def test_a_second_thread_compiles_nothing_anew(whole):
    """The route is found per thread inside one graph, and the guards look at the thread's own."""
    model = scramble(build("bert", ["lora", "bitfit"], layers=1))
    expected = [run(flip, bare) for run, flip, bare in runs_of(model)]
    assert not torch.equal(expected[0], expected[1])
    assert not torch.equal(expected[0], expected[2])
    for module in [model] if whole else blocks_of(model.encoder):
        module.compile(backend="eager", fullgraph=True, dynamic=True)

    def every():
        return [run(flip, bare) for run, flip, bare in runs_of(model)]

    assert_near(every(), expected)
    known = counters["stats"]["unique_graphs"]
    assert known > 0
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:  # a new thread, which has had no route yet
            assert_near(pool.submit(every).result(), expected)
    assert_near(every(), expected)
    assert counters["stats"]["unique_graphs"] == known
    assert not counters["graph_break"]


@pytest.fixture
def without_inductor(monkeypatch):
    """Compiled pieces run as they were traced: no code is generated."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda piece, **_: plain(piece, backend="eager", dynamic=True))


@pytest.mark.usefixtures("without_inductor")
def test_threads_take_turns_under_the_compiler():
    """On a GPU the biases of a pass are looked up before its first block, and hang on the adapters."""
    model = scramble(build("bert", "bitfit", layers=1))
    inputs = [batch(model, seed=seed) for seed in range(4)]
    with torch.no_grad():
        expected = [model(**own).hidden for own in inputs]
        compiled, tables = Compiled(model, fused=False), BiasTables(model)
        assert model.takes_turns
        found = by_threads(model, inputs)
        tables.undo()
        compiled.undo()
        assert not model.takes_turns
        again = by_threads(model, inputs)
    for number, hidden in [*found, *again]:
        assert_near(hidden, expected[number])


def test_a_trunk_takes_its_turn_too():
    model = scramble(build("bert", "frozen", layers=1))
    model.takes_turns = True
    inputs = batch(model)
    with ThreadPoolExecutor(1) as pool:
        with model.lock:
            waiting = pool.submit(run_trunk, model, inputs, inputs["task"], 1)
            assert not wait([waiting], timeout=0.1).done  # a trunk that took no turn would take milliseconds
        assert waiting.result().depth == 1


def test_threads_take_turns_in_a_captured_model():
    """A pass of each shape has one place for its inputs."""
    model = scramble(build("bert", "lora", layers=1))
    inputs = [batch(model, seed=seed) for seed in range(4)]
    with torch.no_grad():
        expected = [model(**own).by_shape for own in inputs]
    captured = CapturedModel(model, compiled=False)
    found = by_threads(lambda **own: captured(**own).by_shape, inputs)
    with model.adapters_off():
        bare = captured(**inputs[0]).by_shape  # the same shape, but another pass
    captured.close()
    for number, by_shape in found:
        assert_near(by_shape, expected[number])
    assert any(not torch.allclose(bare[shape], expected[0][shape]) for shape in bare)
