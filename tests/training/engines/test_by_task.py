"""Merged gradients in captured steps, uncaptured: one pass per task on its own rows, as in eager steps."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from tests.support.disagreeing import Scaled, fell_back
from tests.support.engines import MERGED, SHARED, as_graph, assert_same, built, go
from tests.support.more import some_of
from tests.support.tiny_run import breaking_off, write_run
from weft.acceleration.cuda_graph import Capturer
from weft.errors import RunFailed

pytestmark = pytest.mark.usefixtures("token_cache")

KEPT = ("groups",)


def losses(log):
    return [line["loss"] for line in log if line["event"] == "step"]


def conflicts(log):
    return [line["conflict"] for line in log if line["event"] == "evaluation"]


def assert_same_logs(expected, log):
    """The same losses, and the same cosines of the tasks' gradients."""
    assert len(losses(log)) == len(losses(expected)) > 0
    for a, b in zip(losses(expected), losses(log), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
    assert conflicts(expected)
    for a, b in zip(conflicts(expected), conflicts(log), strict=True):
        assert a["steps"] == b["steps"]
        assert a["cosine"] == pytest.approx(b["cosine"], rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("case", some_of(MERGED, KEPT))
def test_gradients_are_merged_as_by_the_eager_engine(case, every_kind, tmp_path):
    more = [*MERGED[case], "train.evaluate_every=3"]
    eager, expected = go(every_kind, tmp_path / "eager", "eager", *more, dropout=0.0)
    captured, log = go(every_kind, tmp_path / "graph", "graph", *more, dropout=0.0)
    assert (expected[-1]["engine"], log[-1]["engine"]) == ("eager", "graph")
    assert log[-1]["verified"]["shapes"] >= 1
    assert_same_logs(expected, log)
    assert_same(eager, captured)


def train(file, out, *overrides, resume=False):
    """Train by the captured steps, uncaptured, with dropout; returns the model and the log."""
    run, model = built(file, overrides, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        as_graph(patch)
        weft.train(model, run.training, out, resume=resume, resolved=run.resolved, progress=False)
    return model, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("conflict", some_of(["pcgrad", "cr_mogm"], ["cr_mogm"]))
def test_a_resumed_run_equals_a_straight_one_to_the_last_bit(conflict, tmp_path):
    """With dropout, and with a method that has a state."""
    file = write_run(tmp_path, steps=8, checkpoint_every=3, mixed=True)
    more = [SHARED, f"train.conflict={conflict}"]
    straight, expected = train(file, tmp_path / "straight", *more)
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        train(file, tmp_path / "broken", *more)
    resumed, log = train(file, tmp_path / "broken", *more, resume=True)
    assert losses(log) == losses(expected)
    assert conflicts(log) == conflicts(expected)
    for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("case", some_of(["three tasks", "pcgrad", "groups"], 1))
def test_verifying_changes_no_bit(case, every_kind, tmp_path):
    few = case == "three tasks"
    file = write_run(tmp_path, steps=4, mixed=True) if few else every_kind
    more = MERGED["tseng" if few else case]
    plain, _ = go(file, tmp_path / "plain", "graph", *more, "train.verify_engine=false")
    verified, log = go(file, tmp_path / "verified", "graph", *more)
    report = log[-1]["verified"]
    assert report["shapes"] >= 1
    assert (report["loss"], report["gradient"]) == (0, 0)
    for (name, a), b in zip(plain.state_dict().items(), verified.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.may_fall_back
def test_wrong_code_is_noticed_and_the_run_goes_on_as_the_eager_one(tmp_path, capsys):
    file = write_run(tmp_path, steps=6, mixed=True)
    more = [SHARED, "train.conflict=pcgrad"]
    eager, expected = go(file, tmp_path / "eager", "eager", *more, dropout=0.0)
    out = tmp_path / "wrong"
    model, log = go(file, out, "graph", *more, dropout=0.0, compiled=Scaled, progress=True)
    event = fell_back(log, out, "graph", capsys.readouterr().err)
    assert event["step"] == 0
    assert event["difference"]["loss"] == pytest.approx(0.05, rel=1e-3)
    assert_same_logs(expected, log)
    assert_same(eager, model)


class Half(Scaled):
    """The gradient of one task's losses is half of what it should be; the losses are right."""

    def changed(self, found, output, labels):
        half = 0.5 * found + 0.5 * found.detach()
        return torch.where(output.task == 1, half, found)


@pytest.mark.may_fall_back
def test_a_wrong_gradient_of_one_task_is_noticed(tmp_path, capsys):
    """In the sum of all tasks' gradients it could pass."""
    file = write_run(tmp_path, steps=3, mixed=True)
    more = [SHARED, "train.conflict=pcgrad"]
    out = tmp_path / "wrong"
    _, log = go(file, out, "graph", *more, dropout=0.0, compiled=Half, progress=True)
    event = fell_back(log, out, "graph", capsys.readouterr().err)
    assert event["difference"]["gradient"] == pytest.approx(0.5, rel=1e-3)
    assert "the gradients of " in event["why"]


@pytest.mark.may_fall_back
def test_where_capturing_fails_the_run_goes_on_as_the_eager_one(tmp_path, capsys):
    file = write_run(tmp_path, steps=6, mixed=True)
    more = [SHARED, "train.conflict=pcgrad"]
    eager, _ = go(file, tmp_path / "eager", "eager", *more, dropout=0.0)

    def failing(self, function):
        function()
        raise RuntimeError("operation not permitted when stream is capturing")

    run, model = built(file, more, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        as_graph(patch)
        patch.setattr(Capturer, "__call__", failing)
        weft.train(model, run.training, tmp_path / "other", resolved=run.resolved)
    assert "the run continues with eager" in capsys.readouterr().err
    assert_same(eager, model)


def test_a_loss_that_is_no_number_is_reported_with_its_step_and_task(tmp_path):
    file = write_run(tmp_path, steps=6, lr=1e30, clip=None, evaluate_every=0, checkpoint_every=0, mixed=True)
    with pytest.raises(RunFailed, match=r"step [1-5]: the loss of task '\w+' is (nan|inf); the run diverged"):
        train(file, tmp_path / "out", "method=full", "train.conflict=pcgrad")


def test_the_model_chooses_its_examples_and_their_gradients_are_merged(tmp_path):
    file = write_run(tmp_path, steps=5, evaluate_every=5, log_every=1)
    more = [SHARED, "train.conflict=pcgrad", "train.batch_size=4", "train.sampler=mt_uncertainty"]
    eager, expected = go(file, tmp_path / "eager", "eager", *more, dropout=0.0)
    captured, log = go(file, tmp_path / "graph", "graph", *more, dropout=0.0)
    assert log[-1]["engine"] == "graph"
    assert_same_logs(expected, log)
    assert_same(eager, captured)
