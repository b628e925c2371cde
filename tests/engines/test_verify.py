"""Engines are compared with plain code before they are trusted, and comparing leaves no trace."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

import weft
from tests.engines.test_graph import CASES, Uncompiled, as_graph, assert_same, undropped
from tests.tiny import CONFIGS, batch, build, labels, scramble
from tests.tiny_run import write_run
from weft.config import load_run
from weft.engines import verifier
from weft.engines.compiled import blocks_of
from weft.engines.compiler_options import compiler_options
from weft.engines.dress import Forwards
from weft.engines.probe import Probe
from weft.engines.quiet import without_dropout, without_trace
from weft.engines.verifier import Verifier
from weft.engines.verify import Difference, Reading, Tolerance, compared, difference
from weft.training import driver

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
    def options():
        config = torch._dynamo.config
        duck = torch.fx.experimental._config.use_duck_shape
        limits = config.recompile_limit, config.accumulated_recompile_limit
        return config.force_nn_module_property_static_shapes, *limits, duck

    before = options()
    limits = max(before[1], 512), max(before[2], 4096)

    def failing():
        with compiler_options(True):
            assert options() == (True, *limits, False)
            with compiler_options(False):
                assert options() == (False, *limits, False)
            assert options() == (True, *limits, False)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert options() == before


# runs: the engines without their compiler, or with one that computes what it should not


def go(file, out, engine, *overrides, dropout=0.1, compiled=Uncompiled, progress=False):
    """Train by an engine whose compiled pieces are `compiled`; returns the model and the log."""
    run = load_run(file, overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, head_dropout=dropout, seed=1)
    undropped(model, dropout)
    with pytest.MonkeyPatch.context() as patch:
        if engine == "graph":
            as_graph(patch)
        if engine == "compiled":
            patch.setattr(driver, "choose_engine", lambda *_: ("compiled", None))
        patch.setattr("weft.engines.compiled.Compiled", compiled)
        weft.train(model, run.training, out, resolved=run.resolved, progress=progress)
    return model, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", [*CASES, "candidates"])
def test_verifying_changes_no_bit_of_a_captured_run(case, every_kind, tmp_path):
    """Weights, and so optimisers, step counts and random numbers; dropout is on."""
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


@pytest.mark.parametrize("more", [[], ["train.accumulate=3"], ["train.optimizer=bert_adam"]])
def test_verifying_changes_no_bit_of_a_run_by_the_eager_engine_with_pieces(more, every_kind, tmp_path):
    plain, _ = go(every_kind, tmp_path / "plain", "compiled", *more, "train.verify_engine=false")
    verified, log = go(every_kind, tmp_path / "verified", "compiled", *more)
    assert log[-1]["verified"]["shapes"] >= 2
    for (name, a), b in zip(plain.state_dict().items(), verified.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


class Wrong(Uncompiled):
    """In the place of `Compiled`: pieces that compute something else."""

    piece = "example_losses"

    def __init__(self, model):
        self.model = model
        self.on()

    def on(self):
        own = getattr(type(self.model), self.piece).__get__(self.model)
        self.model.__dict__[self.piece] = lambda *args: self.changed(own(*args), *args)

    def remove(self):
        self.model.__dict__.pop(self.piece, None)

    def suspended(self):
        return _Off(self)

    def changed(self, found, *args):
        raise NotImplementedError


class _Off:
    """What `with compiled.suspended()` enters."""

    def __init__(self, garment):
        self.garment = garment

    def __enter__(self):
        self.garment.remove()

    def __exit__(self, *error):
        self.garment.on()


class Scaled(Wrong):
    """Losses that are 5 % too large."""

    def changed(self, found, *args):
        return 1.05 * found


class NoGradient(Wrong):
    """Losses that are right, with a gradient that is no number."""

    def changed(self, found, *args):
        return found + (0.0 * found).clamp(min=0).sqrt()


class NoNumber(Wrong):
    """One task's losses are no numbers."""

    def changed(self, found, output, labels):
        return torch.where(output.task == 0, math.nan, found)


class WrongWhenLong(Wrong):
    """Right for all lengths but one: that of a later step."""

    def changed(self, found, output, labels):
        return 1.05 * found if output.hidden.size(1) == 24 else found


class WrongLogits(Wrong):
    """Heads answer with more for the last label than for the first."""

    piece = "answered"

    def changed(self, found, *args):
        return {shape: logits + torch.arange(logits.size(-1)) for shape, logits in found.items()}


WRONG = {"scaled": Scaled, "no gradient": NoGradient, "no number": NoNumber}


def fell_back(log, folder, engine, err):
    """What is said of a fallback: shown, in the log twice, and in metrics.json; returns the event."""
    (event,) = [line for line in log if line["event"] == "engine"]
    assert (event["from"], event["to"]) == (engine, "eager")
    assert f"train.engine {engine}: {event['why']}; the run goes on with eager" in err
    expected = {"from": engine, "step": event["step"], "why": event["why"]}
    metrics = json.loads((folder / "metrics.json").read_text())
    for told in (log[-1], metrics):
        assert (told["engine"], told["engine_fallback"]) == ("eager", expected)
    rows, length = event["shape"]
    assert f"on {rows} rows of {length} tokens" in event["why"]
    return event


@pytest.mark.may_fall_back
@pytest.mark.parametrize("engine", ["graph", "compiled"])
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_code_is_noticed_and_the_run_goes_on_as_the_eager_one(kind, engine, tmp_path, capsys):
    file = write_run(tmp_path, steps=6, mixed=True)
    eager, _ = go(file, tmp_path / "eager", "eager", dropout=0.0)
    out = tmp_path / "wrong"
    model, log = go(file, out, engine, dropout=0.0, compiled=WRONG[kind], progress=True)
    event = fell_back(log, out, engine, capsys.readouterr().err)
    assert event["step"] == 0
    assert "the compiled model disagrees with the same model uncompiled" in event["why"]
    off = event["difference"]
    if kind == "scaled":
        assert off["loss"] == pytest.approx(0.05, rel=1e-3)
        assert "the losses differ by 0.05 (at most 0.001 is allowed), most for task" in event["why"]
    if kind == "no gradient":
        assert off == {"loss": 0.0, "gradient": None}
        assert "the gradients of" in event["why"]
    if kind == "no number":
        assert off["loss"] is None
        assert "most for task 'cat'" in event["why"]
    assert_same(eager, model)


@pytest.mark.may_fall_back
@pytest.mark.parametrize("engine", ["graph", "compiled"])
def test_a_shape_that_comes_later_is_verified_when_it_comes(engine, tmp_path, capsys):
    file = write_run(tmp_path, steps=12)
    eager, _ = go(file, tmp_path / "eager", "eager", dropout=0.0)
    out = tmp_path / "wrong"
    model, log = go(file, out, engine, dropout=0.0, compiled=WrongWhenLong, progress=True)
    event = fell_back(log, out, engine, capsys.readouterr().err)
    assert event["step"] > 0
    assert event["shape"][1] == 24
    assert log[-1]["verified"]["shapes"] >= 1
    assert_same(eager, model)


@pytest.mark.may_fall_back
@pytest.mark.parametrize("engine", ["graph", "compiled"])
def test_candidates_that_are_measured_wrongly_are_noticed(engine, tmp_path, capsys):
    file = write_run(tmp_path, steps=4, sampler="mt_uncertainty", evaluate_every=0, batch_size=4, lr=0.1)
    eager, _ = go(file, tmp_path / "eager", "eager", dropout=0.0)
    out = tmp_path / "wrong"
    model, log = go(file, out, engine, dropout=0.0, compiled=WrongLogits, progress=True)
    event = fell_back(log, out, engine, capsys.readouterr().err)
    assert event["difference"]["gradient"] == 0
    assert_same(eager, model)


class NoAdapters(Uncompiled):
    """In the place of `Compiled`: a patch that forgets the adapters of one map."""

    def __init__(self, model):
        maps = [block.attention.self.query for one in model.encoders for block in blocks_of(one)]
        self._forwards = Forwards((one, nn.Linear.forward.__get__(one)) for one in maps)

    def on(self):
        self._forwards.on()

    def remove(self):
        self._forwards.remove()


@pytest.mark.may_fall_back
@pytest.mark.parametrize("engine", ["graph", "compiled"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_patch_that_forgets_an_adapter_is_noticed(precision, engine, tmp_path, capsys):
    """LoRA begins at zero and is seen by its gradient alone; the eager engine wears no patch then."""
    file = write_run(tmp_path, steps=5, mixed=True, precision=precision)
    only = ["method={use: lora, rank: 2, sites: [query]}", "train.lr=0.05", "heads.dropout=0"]
    eager, _ = go(file, tmp_path / "eager", "eager", *only, dropout=0.0)
    out = tmp_path / "wrong"
    model, log = go(file, out, engine, *only, dropout=0.0, compiled=NoAdapters, progress=True)
    event = fell_back(log, out, engine, capsys.readouterr().err)
    assert "the patched model disagrees with the plain one" in event["why"]
    assert "adapters differ by 1 (at most" in event["why"]
    assert event["difference"]["loss"] < 0.01
    assert not any("forward" in vars(m) for m in model.modules() if isinstance(m, nn.LayerNorm))
    if precision == "float32":
        assert_same(eager, model)


def test_in_bf16_the_rounding_of_plain_autocast_is_measured(every_kind, tmp_path):
    _, log = go(every_kind, tmp_path / "out", "graph", "train.precision=bf16")
    verified = log[-1]["verified"]
    assert 0 < verified["rounding"]["loss"] < 0.05
    assert 0 < verified["patches"]["loss"] < 0.05
    (first,) = [line for line in log if line["event"] == "verified"]
    assert first["step"] == 0
    assert first["rounding"] == verified["rounding"]


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


@pytest.mark.may_fall_back
def test_a_reference_that_cannot_run_is_no_reference(tmp_path, capsys, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setattr(Probe, "read", broken)
    _, log = go(write_run(tmp_path, steps=2), tmp_path / "out", "graph", progress=True)
    assert "it could not be verified: RuntimeError: no such kernel; the run" in capsys.readouterr().err
    assert log[-1]["engine"] == "eager"
