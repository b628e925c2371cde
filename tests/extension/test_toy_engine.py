"""An engine by the recipe of docs/extension.md: one file with one class, and one registration."""

from __future__ import annotations

import json
import sys

import pytest
from safetensors.torch import load_file

from tests.support.tiny_run import assert_refused, write_run
from weft import cli
from weft.training.engines import ENGINES
from weft.training.engines.eager import EagerEngine

pytestmark = pytest.mark.usefixtures("token_cache")

FILE = '''
"""Every step twice: the same gradients move the weights in two halves."""

from weft.training.engines.engine import Engine
from weft.training.step.task_losses import TaskLosses


class TwiceEngine(Engine):
    name = "twice"

    def __init__(self, gradients, optimizers, penalty=None, patch_stack=None, verifier=None):
        super().__init__(gradients, optimizers, penalty, patch_stack, verifier)
        self._losses = TaskLosses.zero(len(gradients.names))

    @classmethod
    def why_not(cls, model, training, processes):
        return "train.conflict merges gradients once per step" if training.conflict is not None else None

    def step(self, prepared, move):
        self.optimizers.zero_grad()
        self._losses.add(self.gradients.of(prepared, move.factors, self.penalty))
        self.optimizers.set_factor(move.factor / 2, move.peak)
        for _ in range(2):
            self.optimizers.step(move.present, move.drifting)

    def losses(self):
        lost, self._losses = self._losses, TaskLosses.zero(len(self.gradients.names))
        return lost

    def measured(self, candidates, measures, dropout):
        return self.gradients.measured(candidates, measures, dropout)
'''


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """The file, and its one line in the table."""
    (tmp_path / "twice.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ENGINES, "_entries", dict(ENGINES._entries))  # taken out again after the test
    ENGINES.register("twice", "twice:TwiceEngine")
    yield
    sys.modules.pop("twice", None)


def go(file, out, *overrides):
    assert cli.run(["train", str(file), *overrides, "--out", str(out)]) == 0
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return log, load_file(out / "bundle" / "tasks" / "cat.safetensors")


def test_an_engine_trains_and_is_named_in_the_log(registered, tmp_path, capsys):
    file = write_run(tmp_path, steps=8, evaluate_every=0)
    log, weights = go(file, tmp_path / "toy", "train.engine=twice")
    _, eager = go(file, tmp_path / "eager", "train.engine=eager")
    assert log[-1]["engine"] == "twice"
    assert json.loads((tmp_path / "toy" / "metrics.json").read_text())["engine"] == "twice"
    assert weights.keys() == eager.keys()
    assert any(not value.equal(eager[name]) for name, value in weights.items())
    losses = [line["loss"] for line in log if line["event"] == "step"]
    assert len(losses) == 2

    # it says by itself what it cannot run
    capsys.readouterr()
    conflict = ["train.mixed=true", "train.conflict=pcgrad"]
    log, _ = go(file, tmp_path / "conflict", "train.engine=twice", *conflict)
    assert log[-1]["engine"] == "eager"
    assert "train.engine is eager: train.conflict merges gradients once per step" in capsys.readouterr().err


def test_auto_takes_the_engine_of_the_highest_priority(tmp_path, monkeypatch):
    class FirstEngine(EagerEngine):
        name = "first"

        @classmethod
        def priority(cls, device):
            return 5 if device.type == "cpu" else None

    monkeypatch.setattr(ENGINES, "_entries", dict(ENGINES._entries))
    file = write_run(tmp_path, steps=4, evaluate_every=0)
    before, weights = go(file, tmp_path / "before")
    ENGINES.register("first", FirstEngine)
    after, same = go(file, tmp_path / "after")
    assert (before[-1]["engine"], after[-1]["engine"]) == ("eager", "first")
    assert all(value.equal(same[name]) for name, value in weights.items())


def test_a_name_that_is_not_registered_is_refused(registered, tmp_path, capsys):
    file = write_run(tmp_path)
    code = cli.run(["train", str(file), "train.engine=twise", "--out", str(tmp_path / "out")])
    told = ["engine: 'twise' does not exist; did you mean 'twice'?", "auto", "compiled", "eager", "graph"]
    assert_refused(code, capsys.readouterr(), told)
