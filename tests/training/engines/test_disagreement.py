"""Code that computes something else than it should is noticed, said, and no longer used."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.support.disagreeing import Scaled, Wrong, fell_back
from tests.support.engines import Uncompiled, assert_same, go
from tests.support.more import some_of
from tests.support.tiny_run import write_run
from weft.acceleration.compiled import blocks_of
from weft.acceleration.patch import Forwards
from weft.training.engines.probe import Probe

pytestmark = [pytest.mark.usefixtures("token_cache"), pytest.mark.may_fall_back]


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

both_engines = pytest.mark.parametrize("engine", some_of(["graph", "compiled"], 1))


@both_engines
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


@both_engines
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


@both_engines
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

    def apply(self):
        self._forwards.apply()

    def undo(self):
        self._forwards.undo()


@both_engines
@pytest.mark.parametrize("precision", some_of(["float32", "bf16"], 1))
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


def test_a_reference_that_cannot_run_is_no_reference(tmp_path, capsys, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setattr(Probe, "read", broken)
    _, log = go(write_run(tmp_path, steps=2), tmp_path / "out", "graph", progress=True)
    assert "it could not be verified: RuntimeError: no such kernel; the run" in capsys.readouterr().err
    assert log[-1]["engine"] == "eager"
