"""What is known of a batch before it runs."""

from __future__ import annotations

import torch

from tests.support.tiny import batch, build, scramble
from weft.core.route import Route
from weft.model.inputs import single_task


def test_rows_of_one_task_are_known_and_mixed_ones_too():
    assert single_task(torch.tensor([2, 2, 2])) == 2
    assert single_task(torch.tensor([1])) == 1
    assert single_task(torch.tensor([2, 1, 2])) is None
    assert single_task(torch.zeros(3, dtype=torch.long, device="meta")) is None  # no waiting for a device


def test_one_slot_for_all_rows_gives_the_same_as_gathering():
    model = scramble(build("bert", [{"use": "lora", "rank": 3, "share": {"g": ["a", "c"]}}, "task_norm"]))
    x = torch.randn(5, 4, 32)
    for t in range(len(model.tasks)):
        gathered = Route(torch.full((5,), t))
        alone = Route(gathered.task, single=t)
        for _, adapter in model.placements:
            for name in adapter.stacks:
                one, each = adapter.take(name, alone), adapter.take(name, gathered)
                assert one.size(0) == 1
                assert torch.equal(one.expand_as(each), each)
            torch.testing.assert_close(
                adapter(x, alone).expand(5, 4, -1), adapter(x, gathered).expand(5, 4, -1), rtol=0, atol=1e-5
            )


def test_gradients_of_a_single_task_batch_reach_its_slot_alone():
    model = scramble(build("bert", "bitfit"))
    inputs = batch(model)
    inputs["task"] = torch.full_like(inputs["task"], 2)
    output = model.run(**inputs)
    (output.hidden.square().sum() + output.pooled.sum()).backward()
    for _, adapter in model.placements:
        gradient = adapter.v.grad
        assert gradient[[0, 1, 3]].abs().max() == 0
        assert gradient[2].abs().max() > 0
