"""The captured step, uncaptured: on a CPU the same code runs over the same fixed memory, line by line."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch

import weft
from tests.support.engines import CASES, NO_GRADIENT, as_graph, assert_same, built, undropped
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.more import some_of
from tests.support.tiny import build, scramble, tiny
from tests.support.tiny_run import breaking_off, write_run
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.acceleration.cuda_graph import Capturer
from weft.config import load_run
from weft.data import load_split
from weft.data.batching.batch import make_batch
from weft.data.tokens.tokens import in_memory
from weft.errors import RunFailed
from weft.training.engines import choose_engine
from weft.training.run.loop import Loop
from weft.utils.processes import Processes

pytestmark = pytest.mark.usefixtures("token_cache")


def go(file, out, engine, *overrides, resume=False, dropout=0.0, progress=False):
    """Train by an engine; returns the model and the log's lines of steps."""
    run, model = built(file, overrides, dropout)
    with pytest.MonkeyPatch.context() as patch:
        if engine == "graph":
            as_graph(patch)
        weft.train(model, run.training, out, resume=resume, resolved=run.resolved, progress=progress)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return model, [line["loss"] for line in lines if line["event"] == "step"]


@pytest.mark.parametrize("method", ["full", "lora_bitfit_mtl", {"use": "morris", "rank": 2}, "separate"])
def test_no_loss_sees_these(method):
    """In float64, where rounding is far below every gradient that is one."""
    tasks = [task_of_kind(name, 4) for name in NAMES]
    model = undropped(scramble(build("bert", method, tasks)).double().train(), 0.0)
    tokens = [tokens_of(task, tiny_tokenizer("words")) for task in tasks]
    items = [(own, i) for own in tokens for i in range(4)]
    batch = make_batch(model, items, np.repeat(np.arange(len(tasks)), 4), torch.device("cpu"))
    output = model(**batch.inputs, examples=batch.examples)
    with pytest.MonkeyPatch.context() as patch:  # kinds compute losses in float32
        patch.setattr(torch.Tensor, "float", lambda self: self)
        losses = model.example_losses(output, batch.labels)
    losses.sum().backward()
    largest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    seen = 0
    for name, parameter in model.named_parameters():
        if parameter.grad is None or not name.endswith(NO_GRADIENT):
            continue
        seen += 1
        assert float(parameter.grad.abs().max()) < 1e-11 * largest, name
    assert seen > 3


KEPT = ("accumulated", "separate", "gates")


@pytest.mark.parametrize("case", some_of(CASES, KEPT))
def test_graph_equals_eager_at_dropout_zero(case, every_kind, tmp_path):
    """All head shapes, several rows an example; warming up leaves no trace, or the two would differ."""
    eager, losses = go(every_kind, tmp_path / "eager", "eager", *CASES[case])
    captured, found = go(every_kind, tmp_path / "graph", "graph", *CASES[case])
    assert len(losses) == len(found) > 0
    for a, b in zip(losses, found, strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
    assert_same(eager, captured)


@pytest.mark.parametrize("more", ["", ", every: 2, candidates: 3, exit_layer: 1"])
def test_candidates_are_measured_in_a_graph_too(more, tmp_path):
    file = write_run(tmp_path, steps=5, evaluate_every=0, log_every=1, measure_uncertainty=2)
    short = ["train.batch_size=4", f"train.sampler={{use: mt_uncertainty{more}}}"]
    eager, losses = go(file, tmp_path / "eager", "eager", *short)
    captured, found = go(file, tmp_path / "graph", "graph", *short)
    assert [list(a) for a in losses] == [list(b) for b in found]  # the same tasks were chosen in every step
    assert_same(eager, captured)


@pytest.mark.may_fall_back
@pytest.mark.parametrize("more", [["train.mixed=true"], ["train.sampler=mt_uncertainty"]])
def test_a_batch_of_several_tasks_goes_through_separate_encoders_without_a_graph(more, tmp_path, capsys):
    file = write_run(tmp_path, steps=3, evaluate_every=0, log_every=1)
    one = ["method=separate", "train.batch_size=4", *more]
    eager, _ = go(file, tmp_path / "eager", "eager", *one)
    captured, _ = go(file, tmp_path / "graph", "graph", *one, progress=True)
    assert "method 'separate' has one graph per task" in capsys.readouterr().err
    assert_same(eager, captured)
    assert captured.body.only is None


def test_in_bf16_both_engines_round_alike_and_give_the_encoder_back(tmp_path):
    """Frozen maps and norms are rounded while steps run; evaluations, checkpoints and bundles see float32."""
    file = write_run(tmp_path, steps=6, precision="bf16")
    whole = weft.load_encoder(str(tmp_path / "encoder")).model.state_dict()
    eager, losses = go(file, tmp_path / "eager", "eager")
    captured, found = go(file, tmp_path / "graph", "graph")
    for a, b in zip(losses, found, strict=True):
        assert a == pytest.approx(b, rel=0.02, abs=0.01)
    for model in (eager, captured):
        assert all(torch.equal(value, whole[name]) for name, value in model.encoder.state_dict().items())


def test_a_resumed_run_draws_the_dropout_of_a_straight_one(tmp_path):
    file = write_run(tmp_path, steps=8, checkpoint_every=3)
    straight, losses = go(file, tmp_path / "straight", "graph", dropout=0.1)
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        go(file, tmp_path / "broken", "graph", dropout=0.1)
    resumed, again = go(file, tmp_path / "broken", "graph", resume=True, dropout=0.1)
    assert again == losses
    for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_a_capture_leaves_no_trace(tmp_path):
    run = load_run(write_run(tmp_path, steps=4))
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    splits = {(t.name, s): load_split(t, s) for t in run.tasks for s in ("train", "validation")}
    tokens = {k: in_memory(v, model.tokenizer, 24) for k, v in splits.items()}
    train = [tokens[t.name, "train"] for t in run.tasks]
    validation = {t.name: tokens[t.name, "validation"] for t in run.tasks}
    with pytest.MonkeyPatch.context() as patch:
        as_graph(patch)
        loop = Loop(model, run.training, train, validation, tmp_path)
        engine = loop.driver.engine
        prepared = loop.driver.prepared(loop.plan.step(0))
        before = copy.deepcopy(model.state_dict())
        numbers = torch.get_rng_state()
        engine._pass_of(prepared.packed[0])
    assert engine.shapes == 1
    assert torch.equal(torch.get_rng_state(), numbers)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    for optimizer in loop.optimizers.optimizers.values():
        for state in optimizer.state.values():
            assert all(float(value.abs().max()) == 0 for value in state.values())
    assert engine.losses().examples.sum() == 0


@pytest.mark.may_fall_back
def test_where_capturing_fails_the_run_goes_on(tmp_path, capsys):
    file = write_run(tmp_path)
    eager, _ = go(file, tmp_path / "eager", "eager")

    def failing(self, function):
        function()
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    run = load_run(file)
    model = undropped(weft.Model(run.encoder, run.tasks, run.method, head_dropout=0.0, seed=1), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        as_graph(patch)
        patch.setattr(Capturer, "__call__", failing)
        weft.train(model, run.training, tmp_path / "other", resolved=run.resolved)
    why = "RuntimeError: operation not permitted when stream is capturing"
    assert f"train.engine graph: {why}; the run continues with eager" in capsys.readouterr().err
    assert_same(eager, model)


def test_a_loss_that_is_no_number_is_told_with_its_step_and_task(tmp_path):
    file = write_run(tmp_path, steps=6, lr=1e30, clip=None, evaluate_every=0, checkpoint_every=0, log_every=6)
    with pytest.raises(RunFailed, match=r"step [1-5]: the loss of task '\w+' is (nan|inf); the run diverged"):
        go(file, tmp_path / "out", "graph")


@pytest.mark.parametrize(
    ("wanted", "method", "conflict", "name", "why"),
    [
        ("auto", "lora", None, "eager", None),
        ("eager", "lora", None, "eager", None),
        ("compiled", "lora", None, "compiled", None),
        ("graph", "lora", None, "eager", "a graph needs a CUDA GPU, and the model is on cpu"),
        ("compiled", "separate", None, "eager", "method 'separate' has a different number of rows"),
        ("graph", "separate", None, "eager", "method 'separate' has a different number of rows"),
        ("compiled", "lora", "pcgrad", "eager", "train.conflict runs each task separately"),
    ],
)
def test_which_engine_runs_and_why_not_another(wanted, method, conflict, name, why):
    model = weft.Model(tiny("bert"), [weft.Task("a", size=2), weft.Task("b", size=2)], method)
    training = weft.Training(engine=wanted, conflict=conflict, mixed=True)
    found, told = choose_engine(model, training, Processes())
    assert found == name
    assert told is None if why is None else told.startswith(why)


@pytest.mark.parametrize("method", some_of(["{use: top_layer, train_encoder: none}", "frozen"], 1))
def test_a_kept_trunk_changes_nothing_where_nothing_is_dropped(method, every_kind, tmp_path):
    one = [f"method={method}", "train.steps=4"]
    plain, losses = go(every_kind, tmp_path / "plain", "eager", *one)
    for engine in ("eager", "graph"):
        kept, found = go(every_kind, tmp_path / engine, engine, *one, "train.trunk_cache=true")
        for a, b in zip(losses, found, strict=True):
            assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
        assert_same(plain, kept)
