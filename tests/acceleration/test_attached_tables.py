"""Tables on the adapters of a compiled model: one graph for all blocks, computed once in inference."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from tests.support.derived_methods import METHODS
from tests.support.more import some_of
from tests.support.tiny import batch, build, labels, no_dropout, scramble
from weft.acceleration.attached_tables import AttachedTables
from weft.acceleration.compiled import Compiled
from weft.adapters.derived import DerivedTables
from weft.inference.captured import CapturedModel

every_method = pytest.mark.parametrize("method", METHODS)
one_method = pytest.mark.parametrize("method", some_of(METHODS, 1))
"""The compiler takes seconds for each."""
BOTH = [(method, precision) for method in METHODS for precision in ("float32", "bf16")]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def without_inductor(monkeypatch):
    """Compiled pieces run as they were traced: no code is generated."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda piece, **_: plain(piece, backend="eager", dynamic=True))
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


def graphs(model, rows=8, length=12):
    with torch.no_grad():
        model(**batch(model, rows, length))
    return counters["stats"]["unique_graphs"]


@pytest.mark.slow
@one_method
def test_all_blocks_share_one_graph_and_any_number_of_rows_runs_in_it(method):
    """The first block of an encoder is compiled; a further block, and other shapes, compile nothing."""
    counted = []
    for layers in (1, 2):
        torch.compiler.reset()
        counters.clear()
        model = scramble(build("bert", METHODS[method], layers=layers))
        compiled = Compiled(model, fused=False)
        known = graphs(model)
        assert [graphs(model, rows, length) for rows, length in ((9, 10), (12, 14), (7, 16))] == [known] * 3
        compiled.undo()
        counted.append(known)
    assert counted[0] == counted[1]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "precision"), some_of(BOTH, [BOTH[1], BOTH[-2]]))
def test_a_captured_model_computes_them_once(method, precision):
    model = scramble(build("bert", METHODS[method], layers=2)).eval()
    inputs = batch(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        expected = model(**inputs).by_shape
    captured = CapturedModel(model, precision, compiled=True)
    (tables,) = [entry for entry in model.preparing if isinstance(entry, AttachedTables)]
    assert not any(isinstance(entry, DerivedTables) for entry in model.preparing)
    for seed in (3, 4):
        captured(**batch(model, seed=seed))
    before = tables._kept
    again = captured(**inputs).by_shape
    assert tables._kept is before
    kept = [own for of_sites, _ in before for own in of_sites]
    maps = [table for own in kept for table in own if table.dim() > 2]
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    assert all(table.dtype == dtype and table.is_contiguous() for table in maps)
    close = {"rtol": 0.1, "atol": 0.1} if precision == "bf16" else CLOSE
    for shape, logits in expected.items():
        torch.testing.assert_close(again[shape].float(), logits.float(), **close)
    captured.close()
    assert all(adapter.tables is None and adapter.rows is None for _, adapter in model.placements)
    assert any(isinstance(entry, DerivedTables) for entry in model.preparing)


@every_method
def test_in_training_every_pass_has_its_own(method):
    """A step's change of the parameters is seen by the next pass, and gradients are those of the model."""
    model = no_dropout(scramble(build("bert", METHODS[method], head_dropout=0.0)))
    inputs = batch(model)

    def gradients():
        model.zero_grad(set_to_none=True)
        loss = model.loss(model(**inputs), labels(model, inputs["task"]))
        loss.backward()
        return loss.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    for _ in range(2):
        expected = gradients()
        tables = AttachedTables(model, once=False)
        found = gradients()
        tables.undo()
        torch.testing.assert_close(found, expected, **CLOSE)
        with torch.no_grad():
            for parameter in model.adapters.parameters():
                parameter.add_(0.1 * parameter.grad)


def test_a_model_without_tables_is_left_alone():
    model = build("bert", "lora")
    before = list(model.preparing)
    tables = AttachedTables(model, once=True)
    assert model.preparing == before
    tables.undo()
    assert model.preparing == before


@pytest.mark.slow
def test_blocks_that_run_again_compute_their_own():
    """In the backward pass they would find the tables of a later pass."""
    model = no_dropout(scramble(build("bert", METHODS["reft"], head_dropout=0.0)))
    inputs = batch(model)

    def gradients():
        model.zero_grad(set_to_none=True)
        first = model.loss(model(**inputs), labels(model, inputs["task"]))
        model(**{**inputs, "task": inputs["task"].flip(0)})
        first.backward()
        return {n: p.grad.clone() for n, p in model.adapters.named_parameters()}

    expected = gradients()
    model.gradient_checkpointing_enable()
    compiled = Compiled(model)
    assert not any(isinstance(entry, AttachedTables | DerivedTables) for entry in model.preparing)
    torch.testing.assert_close(gradients(), expected, **CLOSE)
    compiled.undo()
