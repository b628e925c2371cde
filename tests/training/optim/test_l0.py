"""The two phases of a run with gates."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from tests.support.more import some_of
from tests.support.tiny import TASKS, batch, build, labels, no_dropout, scramble
from weft.adapters.gate import OPEN, SHUT
from weft.config import load_run
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.optim.l0 import decide, decided, draw, expected_open, gates_of, penalty, would_keep
from weft.training.optim.owners import OwnerOptimizers

METHOD = {"use": "morris", "rank": 6, "bias_rank": 2, "l0": {"penalty": 0.1}}


pytestmark = pytest.mark.usefixtures("token_cache")


def go(folder, out, *overrides):
    run = load_run(folder / "run.yaml", overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, seed=run.training.seed)
    weft.train(model, run.training, out, resolved=run.resolved, progress=False)
    return model, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def of(penalty, steps=12, use="morris", **more):
    settings = {"penalty": penalty, "steps": steps, "gate_lr": 1.0, **more}
    return f"method={json.dumps({'use': use, 'rank': 6, 'l0': settings})}"


def test_a_large_penalty_shuts_and_none_leaves_open(folder, tmp_path):
    kept = {}
    for value in (0.0, 10.0):
        model, log = go(folder, tmp_path / str(value), of(value), "train.steps=3")
        (told,) = [e for e in log if e["event"] == "gates"]
        kept[value] = told["all"]["weights"]
        assert told["step"] == 12
        assert set(torch.cat([g.alpha.flatten() for g in gates_of(model)]).tolist()) <= {OPEN, SHUT}
        assert log[-1]["step"] == 15
        opened = [e["gates_open"] for e in log if "gates_open" in e]
        assert len(opened) == 2  # at steps 4 and 8: of phase one alone
        assert (opened[0] > opened[-1]) if value else opened[-1] > 0.5
    assert kept[10.0] == [0, 24]
    assert kept[0.0][0] > 12


def test_only_phase_two_has_a_best_model(folder, tmp_path):
    _, log = go(folder, tmp_path / "out", of(0.01), "train.steps=4", "train.evaluate_every=3")
    seen = [e["step"] for e in log if e["event"] == "evaluation"]
    assert seen == [3, 6, 9, 12, 15, 16]
    assert log[-1]["best_step"] in (15, 16)


def test_each_phase_has_its_schedule_and_gates_have_their_own_rate(folder, tmp_path):
    every = ["train.log_every=1", "train.lr=0.01", "train.warmup=0.5", "train.steps=4"]
    _, log = go(folder, tmp_path / "out", of(0.01, steps=4, lr=0.002), *every)
    rates = [e["lr"] for e in log if e["event"] == "step"]
    assert rates == pytest.approx([0.001, 0.002, 0.002, 0.001, 0.005, 0.01, 0.01, 0.005])


def test_the_bundle_of_a_gated_run_predicts_and_compacts(folder, tmp_path):
    model, _ = go(folder, tmp_path / "out", of(0.02), "train.steps=3")
    loaded = weft.load(tmp_path / "out")
    assert [g.alpha.tolist() for g in gates_of(loaded)] == [g.alpha.tolist() for g in gates_of(model)]
    request = [("cat", "the old cat"), ("same", ("a dog", "a bird")), ("count", "red red red")]
    whole, small = loaded.predict(request), loaded.compact().predict(request)
    for one, other in zip(whole[:2], small[:2], strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    assert whole[2]["value"] == pytest.approx(small[2]["value"], abs=1e-5)


def test_a_step_of_phase_one(folder, tmp_path, monkeypatch):
    """The penalty is there once a step, gates are not clipped, u is one in a step and another in the next."""
    from weft.training.run import loop as loops

    seen: list[dict] = []
    step = loops.OwnerOptimizers.step
    drawn: list[torch.Tensor] = []
    forward = weft.Model.forward

    def watched(self, tasks, drifting=()):
        gates = gates_of(self.model)
        if gates[0].noise is not None:
            seen.append({"alpha": gates[0].alpha.detach().clone(), "grad": gates[0].alpha.grad.clone()})
        step(self, tasks, drifting)

    def counted(self, *given, **more):
        if self.training and gates_of(self)[0].noise is not None:
            drawn.append(gates_of(self)[0].noise.clone())
        return forward(self, *given, **more)

    monkeypatch.setattr(loops.OwnerOptimizers, "step", watched)
    monkeypatch.setattr(weft.Model, "forward", counted)
    # B = 0 at the start: in the first step the tasks have no say, and the gradient is the penalty's alone
    settings = ["train.steps=1", "train.accumulate=2", "train.mixed=true", "train.clip=1e-9"]
    go(folder, tmp_path / "out", of(0.5, steps=3), *settings)
    assert len(seen) == 3
    p = torch.sigmoid(seen[0]["alpha"])  # log(−l/r) is 0
    torch.testing.assert_close(seen[0]["grad"], 0.5 * p * (1 - p))
    assert len(drawn) == 6
    for number in range(3):
        assert torch.equal(drawn[2 * number], drawn[2 * number + 1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[2], drawn[4])


def test_gates_move_by_their_rate_and_nothing_else_does():
    """One step of AdamW moves α by its learning rate, whatever the others' is; decay leaves α alone."""
    model = scramble(build("bert", METHOD)).train()
    gates = gates_of(model)
    draw(gates, 5)
    before = [g.alpha.detach().clone() for g in gates]
    optimizers = OwnerOptimizers(model, lr=1e-6, weight_decay=0.5, gate_lr=0.25)
    optimizers.set_factor(1.0, 1e-5)
    inputs = batch(model)
    (model.loss(model.run(**inputs), labels(model, inputs["task"])) + penalty(gates)).backward()
    optimizers.step(range(4))
    moved = torch.cat([(g.alpha.detach() - b).abs().flatten() for g, b in zip(gates, before, strict=True)])
    torch.testing.assert_close(moved, torch.full_like(moved, 0.25), atol=1e-3, rtol=0)
    assert optimizers.lr == 1e-5


def test_without_a_rate_gates_stay():
    model = scramble(build("bert", METHOD)).train()
    before = [g.alpha.clone() for g in gates_of(model)]
    optimizers = OwnerOptimizers(model, lr=0.1)
    inputs = batch(model)
    model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
    optimizers.step(range(4))
    assert all(torch.equal(g.alpha, b) for g, b in zip(gates_of(model), before, strict=True))


def test_gates_of_all_and_gates_of_each():
    shared, own = build("bert", METHOD), build("bert", {"use": "lora", "rank": 3, "l0": True})
    assert {i.owner for i in owned(shared) if i.role == "gate"} == {"shared"}
    assert {i.owner for i in owned(own) if i.role == "gate"} == {f"task:{t.name}" for t in TASKS}
    assert sum(g.alpha.numel() for g in gates_of(shared)) == 2 * (2 * 6 + 6 * 2)
    assert sum(g.alpha.numel() for g in gates_of(own)) == 2 * 2 * 3 * len(TASKS)


def test_the_penalty_is_lambda_times_the_expected_number_of_open_gates():
    model = build("bert", METHOD)
    gates = gates_of(model)
    number = sum(g.alpha.numel() for g in gates)
    assert penalty(gates).item() == pytest.approx(0.1 * number * expected_open(gates), rel=1e-5)
    assert would_keep(gates) == 1.0
    decide(gates)
    assert expected_open(gates) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("maybe", "expected true, false, or settings"),
        ({"penalty": -1}, "penalty: expected greater than or equal to 0; found -1"),
        ({"penalti": 1}, "penalti: no such setting; did you mean 'penalty'"),
        ({"steps": 0, "low": 1}, "steps: "),
        ({"low": -1e-5}, "are too near to 0 and 1"),
        ({"start": 10}, "start: expected less than 10; found 10"),
        ({"start": float("nan")}, "start: expected a finite number"),
        ({"penalty": float("inf")}, "penalty: expected a finite number"),
    ],
)
def test_wrong_settings_are_told(value, told):
    with pytest.raises(WeftError, match="method 'morris' has wrong settings") as wrong:
        weft.methods.Morris(l0=value)
    assert told in str(wrong.value)


@pytest.mark.parametrize(("low", "high"), [(-1.5, 1.5), (-0.1, 1.1), (-0.001, 1.001)])
def test_decided_gates_are_zero_and_one_whatever_the_stretch(low, high):
    model = build("bert", {"use": "morris", "rank": 4, "l0": {"low": low, "high": high}})
    gates = gates_of(model)
    with torch.no_grad():
        for gate in gates:
            gate.alpha.copy_(torch.linspace(-2, 3, gate.alpha.numel()).view_as(gate.alpha))
    assert not decided(gates)
    decide(gates)
    assert decided(gates)
    assert set(torch.cat([g.values().flatten() for g in gates]).tolist()) == {0.0, 1.0}


def test_on_and_off():
    assert weft.methods.Morris(l0=True).l0 == weft.methods.Morris(l0={}).l0
    assert weft.methods.Morris(l0=False).l0 is None
    assert weft.methods.Morris(l0=True).l0.penalty == 5e-6


GATED = {
    "morris": METHOD,
    "tucker": {"use": "morris", "rank": 4, "core": "tucker", "l0": True},
    "lora": {"use": "lora", "rank": 3, "l0": True},
}


def phase_one(model, run, seed):
    """The loss of a step with drawn gates, and the gradient of every α."""
    gates = gates_of(model)
    draw(gates, seed)
    model.zero_grad()
    inputs = batch(model)
    loss = model.loss(run(**inputs), labels(model, inputs["task"])) + penalty(gates)
    loss.backward()
    return loss.detach(), torch.cat([g.alpha.grad.flatten() for g in gates])


def in_phase_one(method, layers=2):
    """A model whose components all matter, with gates between open and shut, and no dropout."""
    model = no_dropout(scramble(build("bert", GATED[method], layers=layers, head_dropout=0.0)))
    with torch.no_grad():
        for gate in gates_of(model):
            gate.alpha.copy_(torch.linspace(-0.5, 0.5, gate.alpha.numel()).view_as(gate.alpha))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("method", some_of(GATED, 1))
def test_compiled_it_draws_other_gates_in_every_step(method):
    model = in_phase_one(method, layers=1)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    losses = []
    for seed in (1, 2):
        eager, expected = phase_one(model, model, seed)
        loss, found = phase_one(model, compiled, seed)
        torch.testing.assert_close(loss, eager, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        assert float(found.abs().max()) > 1e-4
        losses.append(loss)
    assert not torch.equal(*losses)


@pytest.mark.parametrize("method", GATED)
def test_blocks_that_run_again_see_the_same_gates(method):
    model = in_phase_one(method)
    loss, expected = phase_one(model, model, 3)
    model.gradient_checkpointing_enable()
    again, found = phase_one(model, model, 3)
    torch.testing.assert_close(again, loss)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
