"""Several threads that use one model at once get the answers that each would get alone."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.more import examples
from tests.support.near import assert_near
from tests.support.tiny import batch, build, labels, no_dropout, scramble
from tests.support.tiny_run import save_encoder
from weft.model.threads import in_eval

THREADS = 8
# adapters that read the route in every way: at maps, norms and scores, beside blocks, prepared; own bodies
CASES = {
    "bert-lora": ("bert", {"use": "lora", "rank": 2, "layers": "1"}),
    "deberta-v3-ca_mtl": ("deberta-v3", ["ca_mtl", "lora"]),
    "modernbert-pals": ("modernbert", ["pals", "bitfit"]),
    "bert-separate": ("bert", "separate"),
}
REQUESTS = [(name, row) for name in NAMES for row in rows_of_kind(name, 3)]
TEXTS = [
    *("the cat sees a dog", "a bird", "the old cat likes the new dog here now"),
    *(("the cat sees", "a dog"), ("the cat", ["a dog", "a bird here", "not"])),
]


@pytest.fixture(scope="module", params=CASES)
def model(request, tmp_path_factory):
    family, method = CASES[request.param]
    folder = save_encoder(tmp_path_factory.mktemp("threads") / "encoder", family)
    tasks = [task_of_kind(name) for name in NAMES]
    return scramble(weft.Model(folder, tasks, method, max_length=24))


@pytest.fixture(autouse=True)
def switching_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def some(of, most):
    return st.lists(st.sampled_from(range(len(of))), min_size=1, max_size=most)


ACTIONS = st.tuples(
    st.one_of(
        st.tuples(st.just("predict"), some(REQUESTS, 8)), st.tuples(st.just("predict_all"), some(TEXTS, 3))
    ),
    st.sampled_from([False, False, True]),
)
"""What a thread does: a call with these requests, inside `adapters_off` or not."""


def done(model, action):
    (call, which), bare = action
    given = [(REQUESTS if call == "predict" else TEXTS)[i] for i in which]
    with model.adapters_off() if bare and not model.method.separate else nullcontext():
        return getattr(model, call)(given)


@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.lists(ACTIONS, min_size=1, max_size=2), min_size=THREADS, max_size=THREADS))
def test_threads_get_the_answers_that_each_would_get_alone(model, by_thread):
    expected = [[done(model, action) for action in own] for own in by_thread]
    model.train()  # the first of them puts it into eval mode, under the eyes of the others
    barrier = threading.Barrier(THREADS)

    def work(own):
        barrier.wait()
        return [done(model, action) for action in own]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, by_thread))
    assert_near(found, expected, 1e-6)
    assert not any(module.training for module in model.modules())


def test_coroutines_that_call_it_in_threads(model):
    parts = [REQUESTS[first::THREADS] for first in range(THREADS)]
    expected = [model.predict(part) for part in parts]

    async def both_ways():
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(THREADS) as pool:
            return await asyncio.gather(
                *(asyncio.to_thread(model.predict, part) for part in parts),
                *(loop.run_in_executor(pool, model.predict, part) for part in parts),
            )

    assert_near(asyncio.run(both_ways()), expected * 2, 1e-6)


def test_the_adapters_are_off_in_one_thread_alone():
    model = scramble(build("bert", "lora"))
    inputs = batch(model)
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        expected = model.run(**inputs).hidden
        with model.adapters_off():
            assert model.is_bare
            assert not pool.submit(lambda: model.is_bare).result()
            other = pool.submit(lambda: model.run(**inputs).hidden.detach()).result()
            bare = model.run(**inputs).hidden
    assert torch.equal(other, expected)
    assert not torch.equal(bare, expected)
    assert not model.is_bare


def test_the_parts_are_in_eval_mode_before_the_model_says_so():
    model = build("bert", "lora").train()
    seen = []
    for part in model.children():
        plain = part.eval

        def eval_(plain=plain):
            seen.append(model.training)
            return plain()

        part.eval = eval_
    assert in_eval(model) is model
    assert len(seen) > 1
    assert all(seen[: len(list(model.children()))])
    assert not any(module.training for module in model.modules())
    seen.clear()
    in_eval(model)
    assert not seen  # nothing is walked where there is nothing to do


class Meeting:
    """Counts how many threads are inside, and can wait for all of them to be."""

    def __init__(self, inner, barrier=None):
        self.inner, self.barrier = inner, barrier
        self.inside = self.most = 0
        self.counting = threading.Lock()

    def encode(self, *given):
        with self.counting:
            self.inside += 1
            self.most = max(self.most, self.inside)
        if self.barrier is not None:
            self.barrier.wait(timeout=20)
        found = self.inner.encode(*given)
        with self.counting:
            self.inside -= 1
        return found


def run_by_threads(model, count):
    inputs = batch(model)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: model.run(**inputs).hidden, range(count)))


def test_plain_passes_run_side_by_side():
    model = build("bert", "lora")
    model._ordered = Meeting(model._ordered, threading.Barrier(3))
    run_by_threads(model, 3)
    assert model._ordered.most == 3


def test_passes_under_an_engine_take_turns():
    model = build("bert", "lora")
    model._ordered = Meeting(model._ordered)
    model.takes_turns = True
    run_by_threads(model, 6)
    assert model._ordered.most == 1


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_backward_pass_in_another_thread_finds_the_route(family):
    """On a GPU blocks that run again in the backward do so in autograd's own thread."""
    gradients = []
    for checkpointing in (False, True):
        model = no_dropout(scramble(build(family, ["lora", "pals"])))
        if checkpointing:
            model.gradient_checkpointing_enable()
        inputs = batch(model)
        loss = model.loss(model.run(**inputs), labels(model, inputs["task"]))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(loss.backward).result()
            assert pool.submit(lambda body=model.body: body.holder.route).result() is None
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 0
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
