"""Engine `compiled` with the real compiler, on a CPU: errors of generated code show without a GPU."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from tests.support.engines import assert_same, built, options
from tests.support.every_kind import NAMES, write_every_kind
from tests.support.inductor import compile_quickly
from tests.support.tiny_run import write_run

pytestmark = pytest.mark.usefixtures("token_cache")

DRAWN = 1e-12
"""A dropout that leaves nothing out, and is drawn and compiled all the same."""

THREADS = {"cpp.threads": 2}
"""The suite runs on one thread, for which the compiler generates simpler code: sums without atomic additions
do not show that a scatter cannot be generated."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    compile_quickly(monkeypatch)


def go(file, out, engine, *overrides, dropout):
    """Train by an engine; returns the model and the log."""
    run, model = built(file, [*overrides, f"train.engine={engine}"], dropout)
    weft.train(model, run.training, out, resolved=run.resolved, progress=False)
    return model, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def losses(log):
    return [line["loss"] for line in log if line["event"] == "step"]


@pytest.mark.slow
def test_all_kinds_in_one_batch_are_trained_as_by_the_eager_engine(tmp_path, monkeypatch):
    """Heads of one slot and of several, forward and backward; compiling is nearly all of the time."""
    compile_quickly(monkeypatch, **THREADS)
    train = {"steps": 2, "batch_size": 42, "max_length": 24, "lr": 0.005, "mixed": True, "log_every": 1}
    train |= {"sampler": "uniform", "group_by_length": False, "seed": 7}  # all tasks in both steps
    file = write_every_kind(tmp_path, train, layers=1)
    eager, expected = go(file, tmp_path / "eager", "eager", dropout=0.0)
    model, log = go(file, tmp_path / "compiled", "compiled", dropout=DRAWN)
    assert all(set(line) == set(NAMES) for line in losses(log))
    for a, b in zip(losses(expected), losses(log), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
    assert_same(eager, model)
    assert log[-1]["engine"] == "compiled"
    verified = log[-1]["verified"]
    assert verified["shapes"] >= 1
    assert verified["loss"] < 1e-4
    assert verified["gradient"] < 1e-3


@pytest.mark.slow  # a compiler that has kept nothing of an earlier run needs a minute
def test_dropout_is_drawn_alike_and_verifying_changes_no_bit(tmp_path):
    """Dropout in blocks, attentions, adapters and heads; the compiler's options are left as they were."""
    file = write_run(tmp_path, layers=1, steps=4, mixed=True, evaluate_every=0, checkpoint_every=0)
    more = ["method={use: lora, rank: 2, dropout: 0.2}", "train.log_every=1"]
    before = options()
    plain, expected = go(
        file, tmp_path / "plain", "compiled", *more, "train.verify_engine=false", dropout=0.1
    )
    model, log = go(file, tmp_path / "verified", "compiled", *more, dropout=0.1)
    assert options() == before
    assert [line[-1]["engine"] for line in (expected, log)] == ["compiled", "compiled"]
    assert log[-1]["verified"]["shapes"] >= 1
    assert log[-1]["verified"]["loss"] < 1e-4
    assert log[-1]["verified"]["gradient"] < 1e-3
    assert losses(log) == losses(expected)
    for (name, a), b in zip(plain.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
