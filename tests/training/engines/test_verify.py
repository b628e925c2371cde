"""Engines are compared with plain code before they are trusted, and comparing leaves no trace."""

from __future__ import annotations

import math
import threading

import pytest
import torch

from tests.support.engines import CASES, go, options
from tests.support.more import some_of
from tests.support.tiny import CONFIGS, batch, build, labels, scramble
from tests.support.tiny_run import write_run
from weft.acceleration.compiler_options import compiler_options, per_thread
from weft.acceleration.difference import difference
from weft.training.engines import verifier
from weft.training.engines.probe import Probe
from weft.training.engines.quiet import without_dropout, without_trace
from weft.training.engines.verifier import Verifier
from weft.training.engines.verify import Difference, Reading, Tolerance, compared

pytestmark = pytest.mark.usefixtures("token_cache")


# what is compared


def test_a_difference_is_relative_and_infinite_where_something_is_no_number():
    right = torch.tensor([3.0, 4.0])
    assert difference(right, right) == 0
    assert difference(right + torch.tensor([0.0, 0.5]), right) == pytest.approx(0.1)
    assert difference(torch.tensor([3.0, math.nan]), right) == math.inf
    assert difference(torch.tensor([3.0, math.inf]), right) == math.inf
    assert difference(torch.zeros(2), torch.zeros(2)) == 0
    assert difference(torch.ones(2), torch.zeros(2)) == math.inf
    assert difference(torch.tensor([1e-5]), torch.tensor([2e-5]), floor=1e-2) == pytest.approx(1e-3)


def reading(losses, **norms):
    return Reading(torch.tensor(losses, dtype=torch.float64), ["a", "b"][: len(losses)], norms)


def test_the_task_and_the_owner_that_differ_most_are_named():
    found = compared(reading([1.0, 2.2], x=1.0, y=11.0), reading([1.0, 2.0], x=1.0, y=10.0))
    assert (found.task, found.owner) == ("b", "y")
    assert found.loss == pytest.approx(0.2 / 5**0.5)
    assert found.gradient == pytest.approx(0.1)


def test_an_owner_whose_gradient_is_rounding_alone_is_compared_with_the_largest():
    found = compared(reading([1.0], x=100.0, y=2e-6), reading([1.0], x=100.0, y=1e-6))
    assert found.gradient == pytest.approx(1e-5)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_no_number_is_the_engines_fault_only_if_the_reference_is_one(odd):
    assert compared(reading([odd], x=1.0), reading([1.0], x=1.0)).loss == math.inf
    assert compared(reading([1.0], x=odd), reading([1.0], x=1.0)).gradient == math.inf
    assert compared(reading([1.0], x=1.0), reading([odd], x=1.0)) is None
    assert compared(reading([odd], x=odd), reading([1.0], x=odd)) is None


def test_the_tolerance_follows_the_rounding_of_plain_autocast():
    assert Tolerance.of(bf16=False) == Tolerance(1e-3, 1e-2)
    assert Tolerance.of(bf16=True) == Tolerance(5e-2, 1e-1)
    assert Tolerance.of(bf16=True).widened(Difference(0.06, 0.01)) == Tolerance(0.24, 0.1)
    # a gradient that is missing differs by 1, and is never allowed
    assert Tolerance.of(bf16=True).widened(Difference(0.25, math.inf)) == Tolerance(0.5, 0.5)


def test_a_long_run_may_verify_longer(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(verifier.time, "monotonic", lambda: now[0])
    found = Verifier(False, 1000)
    assert found.allowed == 3.0
    for new, taken in ((True, 50.0), (False, 1.0), (False, 1.0), (True, 70.0)):
        now[0] += taken
        found.stepped(new)
    assert found.allowed == pytest.approx(0.02 * 1000 * 1.0)
    found.seconds = 19.0
    assert found.affordable
    found.seconds = 20.0
    assert not found.affordable


# looking without a trace


@pytest.mark.parametrize("family", CONFIGS)
def test_without_dropout_every_draw_gives_the_same(family):
    """In training mode, of every family and of adapters that drop out themselves."""
    methods = [{"use": "lora", "dropout": 0.3}, "pals", "top_layer"]
    for method in methods if family == "bert" else methods[:1]:
        model = scramble(build(family, method)).train()
        inputs = batch(model)

        def loss(seed, model=model, inputs=inputs):
            torch.manual_seed(seed)
            return model.loss(model(**inputs), labels(model, inputs["task"]))

        dropped = loss(1)
        with without_dropout(model):
            first = loss(1)
            assert torch.equal(first, loss(2))
        assert torch.equal(loss(1), dropped)
        assert not torch.equal(loss(1), first)


def test_random_numbers_and_modes_are_put_back():
    model = build("bert", "lora").train()
    model.encoder.eval()
    before, numbers = [m.training for m in model.modules()], torch.get_rng_state()

    def failing():
        with without_trace(model):
            torch.manual_seed(5)
            model.eval()
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert [m.training for m in model.modules()] == before
    assert torch.equal(torch.get_rng_state(), numbers)


def test_the_compilers_options_are_put_back_after_an_error():
    before = options()
    limits = max(before[1], 512), max(before[2], 4096)

    def failing():
        with compiler_options(True):
            assert options() == (True, *limits, False, True)
            with compiler_options(False):
                assert options() == (False, *limits, False, True)
            assert options() == (True, *limits, False, True)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert options() == before


def test_overlapping_threads_put_the_compilers_options_back():
    """One thread enters first and leaves first; the other is still inside then, and leaves last.

    Each thread is compared with itself: where PyTorch keeps its options per thread, a new thread
    starts with the defaults, whatever an earlier test left set in this one.
    """
    before = options()
    entered, left = threading.Event(), threading.Event()
    seen = {}

    def second():
        seen["before"] = options()
        with compiler_options(False):
            entered.set()
            left.wait(30)
            seen["inside"] = options()
        seen["after"] = options()

    other = threading.Thread(target=second)
    with compiler_options(True):
        other.start()
        assert entered.wait(30)
    seen["between"] = options()
    left.set()
    other.join(30)
    assert seen["inside"][0] is False
    assert seen["inside"][1] >= 512
    assert options() == before
    assert seen["after"] == (seen["before"] if per_thread() else before)
    assert seen["between"] == (before if per_thread() else seen["inside"])


# runs: the engines without their compiler, or with one that computes what it should not


@pytest.mark.slow
@pytest.mark.parametrize("case", some_of([*CASES, "candidates"], ["separate", "candidates"]))
def test_verifying_changes_no_bit_of_a_captured_run(case, every_kind, tmp_path):
    """Weights, and so optimizers, step counts and random numbers; dropout is on."""
    file, more = every_kind, CASES.get(case, [])
    if case == "candidates":
        file = write_run(tmp_path, steps=5, sampler="mt_uncertainty", evaluate_every=0, log_every=1)
        more = ["train.batch_size=4"]
    plain, lines = go(file, tmp_path / "plain", "graph", *more, "train.verify_engine=false")
    verified, log = go(file, tmp_path / "verified", "graph", *more)
    assert "verified" not in lines[-1]
    assert log[-1]["verified"]["shapes"] >= 2
    assert (log[-1]["verified"]["loss"], log[-1]["verified"]["gradient"]) == (0, 0)
    for (name, a), b in zip(plain.state_dict().items(), verified.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    losses = [[line["loss"] for line in one if line["event"] == "step"] for one in (lines, log)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("more", some_of([["train.accumulate=3"], [], ["train.optimizer=bert_adam"]], 1))
def test_verifying_changes_no_bit_of_a_run_by_the_eager_engine_with_pieces(more, every_kind, tmp_path):
    plain, _ = go(every_kind, tmp_path / "plain", "compiled", *more, "train.verify_engine=false")
    verified, log = go(every_kind, tmp_path / "verified", "compiled", *more)
    assert log[-1]["verified"]["shapes"] >= 2
    for (name, a), b in zip(plain.state_dict().items(), verified.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("usual", [True, False], ids=["within the tolerance", "beyond it"])
def test_in_bf16_the_rounding_of_plain_autocast_is_measured_once_it_is_needed(
    usual, every_kind, tmp_path, monkeypatch
):
    """A tolerance far below the rounding of bf16 is widened by what plain autocast itself is off by."""
    if not usual:
        monkeypatch.setattr(Tolerance, "of", classmethod(lambda cls, bf16: cls(1e-9, 1e-9)))
    _, log = go(every_kind, tmp_path / "out", "graph", "train.precision=bf16")
    verified = log[-1]["verified"]
    assert 0 < verified["patches"]["loss"] < 0.05
    (first,) = [line for line in log if line["event"] == "verified"]
    assert first["step"] == 0
    assert ("rounding" in verified) is not usual
    if not usual:
        assert 0 < verified["rounding"]["loss"] < 0.05
        assert first["rounding"] == verified["rounding"]
    assert log[-1]["engine"] == "graph"


def test_where_time_or_memory_is_short_shapes_are_counted_as_unverified(tmp_path, monkeypatch):
    file = write_run(tmp_path, steps=4)
    with monkeypatch.context() as patch:
        patch.setattr(verifier, "SECONDS", 0.0)
        patch.setattr(verifier, "SHARE", 0.0)
        _, log = go(file, tmp_path / "time", "graph")
    assert log[-1]["verified"]["shapes"] == 0
    assert log[-1]["verified"]["unverified"] >= 1

    def full(*args, **kwargs):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Probe, "read", full)
    _, log = go(file, tmp_path / "memory", "compiled")
    assert log[-1]["verified"]["shapes"] == 0
    assert log[-1]["verified"]["unverified"] >= 1
