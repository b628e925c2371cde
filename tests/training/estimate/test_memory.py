"""The memory that training takes."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.tiny import batch, build, labels
from weft.training.estimate.memory import Memory, count_activations, kept_bytes, memory_at, working_memory
from weft.training.optim.owners import OwnerOptimizers

METHODS = ("full", "lora", "frozen", "pals", "separate", "ca_mtl")


def inputs(model, rows, length, mixed):
    given = batch(model, rows, length)
    if not mixed:
        given["task"] = torch.zeros(rows, dtype=torch.long)
    task = given.pop("task")
    return given, task


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["bert", "distilbert", "deberta-v3", "modernbert"])
def test_activations_of_any_batch_follow_from_six_small_ones(family, method, mixed):
    # rows of several tasks go to encoders of their own: there it depends a little on who has how many
    within = 0.15 if method == "separate" and mixed else 0.002
    model = build(family, method)
    count = count_activations(model, mixed)
    assert not model.training
    model.train()
    for rows, length in ((8, 40), (12, 9), (4, 61)):
        kept = kept_bytes(model, *inputs(model, rows, length, mixed))
        if method == "pals" and mixed:
            assert kept <= count(rows, length)  # where rows of one task are one product, less is kept
            model.kernels = "reference"
            kept = kept_bytes(model, *inputs(model, rows, length, mixed))
        assert count(rows, length) == pytest.approx(kept, rel=within)


def test_more_memory_for_what_trains_more():
    kept = {method: count_activations(build("bert", method))(16, 32) for method in ("full", "lora", "frozen")}
    assert kept["full"] > kept["lora"] > kept["frozen"] > 0


@pytest.mark.parametrize("method", METHODS)
def test_weights_gradients_and_moments_are_those_of_the_optimizers(method):
    model = build("bert", method).train()
    found = memory_at(model, lambda rows, length: 7, (2, 8))
    optimizers = OwnerOptimizers(model)
    given = batch(model)
    output = model(**given)
    model.loss(output, labels(model, given["task"])).backward()
    optimizers.step(range(len(model.tasks)))
    held = {t.untyped_storage().data_ptr(): t.nbytes for t in (*model.parameters(), *model.buffers())}
    assert found.weights == sum(held.values())
    assert found.gradients == sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    moments = [
        value.nbytes
        for optimizer in optimizers.optimizers.values()
        for state in optimizer.state.values()
        for name, value in state.items()
        if name != "step"
    ]
    assert found.optimiser == sum(moments)
    assert (found.activations, found.evaluation, found.averages) == (7, 0, 0)
    averaged = memory_at(model, lambda rows, length: 7, (2, 8), averaged=True)
    assert averaged.peak - found.peak == averaged.averages == found.gradients


def test_on_meta_nothing_is_loaded():
    model = weft.Model("random:bert-base", [weft.Task("a", labels=("x", "y"))], "full", device="meta")
    found = memory_at(model, lambda rows, length: 0, (32, 128))
    # 109,482,240 with the pooler, and a head of 768·2 + 2
    assert found.gradients == 4 * (109_482_240 + 1538)
    assert found.optimiser == 2 * found.gradients


def test_an_evaluation_may_take_more_than_training():
    numbers = {"weights": 1, "gradients": 2, "optimiser": 3, "activations": 4, "working": 5}
    assert Memory(**numbers, evaluation=8, rows=1, length=1).peak == 15
    assert Memory(**numbers, evaluation=50, rows=1, length=1).peak == 56


def test_the_model_s_limit_is_kept():
    model = build("bert", "lora", max_length=12)
    count = count_activations(model)
    model.train()
    assert count(6, 12) == pytest.approx(kept_bytes(model, *inputs(model, 6, 12, False)), rel=0.002)


def test_working_memory_is_of_the_larger_sub_layer():
    model = build("bert", "full")  # 4 heads, width 32, 40 within
    assert working_memory(model, 2, 3) == 4 * (2 * 2 * 3 * 40 + 4 * 2 * 3 * 32)
    assert working_memory(model, 2, 300) == 4 * (4 * 2 * 4 * 300**2 + 3 * 2 * 300 * 32)


@pytest.mark.parametrize("method", METHODS)
def test_counting_leaves_no_graph_behind(method):
    """A graph that stays alive keeps its memory, and ties later backward passes to the stream it ran on."""
    model = build("bert", method).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    given, task = inputs(model, 4, 9, mixed=True)
    output = model(**given, task=task)  # the nodes of the parameters live as long as this
    nodes = [torch.autograd.graph.get_gradient_edge(p).node for p in trained]
    for node in nodes:
        node.metadata["old"] = True
    kept_bytes(model, given, task)
    del output, nodes, node
    found = [torch.autograd.graph.get_gradient_edge(p).node.metadata for p in trained]
    assert not any("old" in metadata for metadata in found)
