from __future__ import annotations

import pytest
import torch

from tests.conformance.table import METHODS
from tests.support.tiny import FAMILIES, batch, build, scramble
from weft.errors import WeftError
from weft.model.trunk import frozen_depth, has_dropout, run_trunk, trunk_depth

UPPER = {"use": "lora", "rank": 2, "layers": "1"}
# (same for every task, frozen) of two blocks
SHARING = {
    "full": (2, 0),
    "frozen": (2, 2),
    "top_layer": (2, 0),
    "lora-all": (2, 0),
    "lora-everywhere": (1, 1),
    "pals-frozen": (1, 1),
    "lora": (0, 0),
    "task_norm": (0, 0),
    "separate": (0, 0),
    "ca_mtl-alignment": (0, 0),
}
LARGE = {"use": "ca_mtl", "attention": "none", "alignment": "none", "norm": "none", "size": "large"}


@pytest.mark.parametrize("method", SHARING)
def test_depths(method):
    model = build("bert", METHODS[method])
    assert (trunk_depth(model), frozen_depth(model)) == SHARING[method]
    assert model.trunk_depth == SHARING[method][0]


def test_depth_of_some_tasks():
    model = build("bert", METHODS["lora-groups"])  # a and c are in one group
    assert trunk_depth(model, [0, 2]) == trunk_depth(model, [1]) == 2
    assert trunk_depth(model, [0, 1]) == 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["frozen", "top_layer", "lora-all", "lora-everywhere"])
def test_running_from_the_trunk_is_the_plain_forward(method, family):
    model = scramble(build(family, METHODS[method]))
    inputs = batch(model)
    real = inputs["attention_mask"].bool()
    # half of the rows stand for two each, of two tasks
    twice = torch.arange(8) // 2
    inputs = {name: value if name == "task" else value[twice] for name, value in inputs.items()}
    alone = {name: value[::2] for name, value in inputs.items()}
    with torch.no_grad():
        plain = model.run(**inputs, layers=True)
        for depth in range(1, trunk_depth(model) + 1):
            trunk = run_trunk(model, alone, torch.zeros(4, dtype=torch.long), depth, layers=True)
            found = model.run(**inputs, trunk=trunk.of_rows(twice), layers=True)
            for one, other in zip(found.layers, plain.layers, strict=True):
                torch.testing.assert_close(one[real[twice]], other[real[twice]], rtol=0, atol=1e-6)
            torch.testing.assert_close(found.pooled, plain.pooled, rtol=0, atol=1e-6)
            torch.testing.assert_close(found.logits, plain.logits, rtol=0, atol=1e-6)


def test_what_reads_every_layer_is_given_those_of_the_trunk():
    model = scramble(build("modernbert", LARGE))
    inputs = batch(model)
    depth = trunk_depth(model)
    assert model.body.reads_layers
    assert depth == 3
    with torch.no_grad():
        plain = model.run(**inputs)
        found = model.run(**inputs, trunk=run_trunk(model, inputs, inputs["task"], depth))
    torch.testing.assert_close(found.hidden, plain.hidden, rtol=0, atol=1e-6)


def test_layers_that_were_not_kept_are_asked_for():
    model = build("bert", "frozen")
    inputs = batch(model)
    trunk = run_trunk(model, inputs, inputs["task"], 1)
    with pytest.raises(WeftError, match="without its layers"):
        model.run(**inputs, trunk=trunk, layers=True)


def test_adapters_that_are_off_are_off_in_the_trunk():
    model = scramble(build("bert", METHODS["lora-all"]))
    inputs = batch(model)
    with torch.no_grad(), model.adapters_off():
        plain = model.run(**inputs)
        found = model.run(**inputs, trunk=run_trunk(model, inputs, inputs["task"], 1))
    assert torch.equal(found.hidden, plain.hidden)


@pytest.mark.parametrize("method", ["frozen", UPPER, {**LARGE, "train_encoder": "layers 1"}])
@pytest.mark.parametrize("family", ["bert", "deberta-v2", "modernbert"])
def test_no_gradient_goes_below_the_lowest_place_that_trains(method, family):
    model = build(family, method).train()
    depth = frozen_depth(model)
    assert depth >= 1
    inputs = batch(model)
    output = model.run(**inputs, layers=True)
    # what enters the lowest block that trains hangs on nothing; with nothing trained, neither does the last
    assert not any(layer.requires_grad for layer in output.layers[: depth + 1])
    sum(logits.sum() for logits in output.logits).backward()
    frozen = [p for p in model.encoder.parameters() if not p.requires_grad]
    assert frozen
    assert all(p.grad is None for p in frozen)


def test_dropout_is_looked_for_in_the_trunk_alone():
    model = build("bert", UPPER)
    assert has_dropout(model, 1)
    for name, module in model.encoder.named_modules():
        if isinstance(module, torch.nn.Dropout) and "layer.1" not in name:
            module.p = 0.0
    assert not has_dropout(model, 1)
    assert has_dropout(model, 2)


@pytest.mark.slow
def test_compiled_blocks_run_from_a_trunk():
    model = scramble(build("bert", UPPER))
    inputs = batch(model)
    with torch.no_grad():
        plain = model.run(**inputs)
        trunk = run_trunk(model, inputs, inputs["task"], 1)
        for block in model.encoder.encoder.layer:
            block.compile(dynamic=True, backend="aot_eager", fullgraph=True)
        found = model.run(**inputs, trunk=trunk)
        again = model.run(**inputs, trunk=run_trunk(model, inputs, inputs["task"], 1))
    torch.testing.assert_close(found.hidden, plain.hidden, rtol=0, atol=1e-5)
    torch.testing.assert_close(again.hidden, plain.hidden, rtol=0, atol=1e-5)
