"""Gradients of tasks in fixed memory are merged as separately stored ones are."""

from __future__ import annotations

import pytest
import torch

from tests.support.more import some_of
from tests.support.task_gradients import METHODS, assert_same, gradients_of, made, ready, run, some
from tests.support.tiny import batch, labels
from weft.model.losses import example_weights
from weft.training.conflict.flat import BLOCK, FlatGradients

LANES = 4


def backward(model, inputs, weight, task, present):
    places = (inputs["task"] == task).nonzero().flatten()
    output = model.run(**some(inputs, places))
    targets = some(labels(model, inputs["task"]), places)
    (present * model.loss(output, targets, weight[places])).backward()


def flat_step(model, merging, flat, inputs, weight, passes, seed):
    """A step as the captured engine does it; `passes` are the tasks that run side by side."""
    present = sorted({task for tasks in passes for task in tasks})
    seen = set()
    for tasks in passes:
        owned = []
        for lane, task in enumerate(tasks):
            flat.release()
            backward(model, inputs, weight, task, len(present))
            owned.append(flat.take(lane))
        flat.restore()
        for gradients in owned:
            flat.add_owned(gradients)
        if len(passes) > 1:
            places = [present.index(task) for task in tasks]
            flat.hold(places, [task not in seen for task in tasks], len(present))
            seen |= set(tasks)
    matrix = flat.matrix(len(present), len(passes) > 1)
    gramian = flat.gramian(matrix)
    squares = flat.task_squares(present) if merging.conflict.whole else None
    merged = merging.weigh(present, gramian, squares, seed)
    merging.count(present, gramian)
    flat.write(matrix, present, merged)
    flat.scale_owned()
    return merged


def zeroed(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()


@pytest.mark.parametrize(
    "conflict", some_of(["pcgrad", "pcgrad_tseng", {"use": "pcgrad", "scope": "all"}], 1)
)
@pytest.mark.parametrize("method", METHODS)
def test_a_step_is_merged_as_with_separate_gradients(method, conflict):
    model = ready(method)
    inputs = batch(model, rows=10)
    weight = example_weights(inputs["task"])
    stored, merging = made(model, conflict), made(model, conflict)
    flat = FlatGradients(merging, LANES, torch.device("cpu"))
    # side by side, one after the other, in two groups of different sizes; then steps with some of the tasks
    for passes in ([(0, 1, 2, 3)], [(0,), (1,), (2,), (3,)], [(1, 3), (0, 2)], [(0, 2)], [(3,)]):
        tasks = torch.tensor([task for group in passes for task in group])
        places = torch.isin(inputs["task"], tasks).nonzero().flatten()
        few = some(inputs, places)
        model.zero_grad()
        expected_weights = run(model, stored, few, weight[places], seed=5)
        expected = gradients_of(model)
        flat.restore()
        zeroed(model)
        found = flat_step(model, merging, flat, few, weight[places], passes, seed=5)
        torch.testing.assert_close(found.all, expected_weights.all, rtol=1e-4, atol=1e-6)
        assert_same({n: p.grad for n, p in model.named_parameters() if p.grad is not None}, expected)
    counted, expected_window = merging.telemetry.window(), stored.telemetry.window()
    assert counted["steps"] == expected_window["steps"] == (4 if merging.shares else 0)
    assert counted["cosine"] == pytest.approx(expected_window["cosine"], abs=1e-5)


@pytest.mark.parametrize("method", ["full", "lora-groups"])
def test_micro_batches_of_a_task_are_added(method):
    model = ready(method)
    inputs = batch(model, rows=10)
    weight = example_weights(inputs["task"])
    stored, merging = made(model, "pcgrad"), made(model, "pcgrad")
    run(model, stored, inputs, 2 * weight, seed=1)  # the same examples twice are examples of twice the weight
    expected = gradients_of(model)
    flat = FlatGradients(merging, LANES, torch.device("cpu"))
    flat.restore()
    flat_step(model, merging, flat, inputs, weight, [(0, 1, 2, 3), (2, 3, 0, 1)], seed=1)
    assert_same({n: p.grad for n, p in model.named_parameters() if p.grad is not None}, expected)


def test_gradients_lie_in_one_matrix_and_p_grad_keeps_its_memory():
    model = ready("full")
    merging = made(model, "mean")
    flat = FlatGradients(merging, LANES, torch.device("cpu"))
    trained = sum(p.numel() for p in model.encoder.parameters() if p.requires_grad)
    assert flat.rows.shape[0] == LANES
    assert flat.rows.shape[1] >= trained
    assert flat.rows.shape[1] % BLOCK == 0
    flat.restore()
    before = {name: p.grad.data_ptr() for name, p in model.named_parameters() if p.grad is not None}
    inputs = batch(model, rows=8)
    flat_step(model, merging, flat, inputs, example_weights(inputs["task"]), [(0, 1, 2, 3)], seed=0)
    assert before == {name: p.grad.data_ptr() for name, p in model.named_parameters() if p.grad is not None}
