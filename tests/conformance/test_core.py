"""The core of the conformance table, for the families that the whole table does not run on.

The properties are those of the other files of this folder; here a few methods stand for all.
"""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch

import weft
from tests.conformance import test_conformance, test_training
from tests.conformance.cases import CLOSE, assert_near, real, shared
from tests.conformance.table import METHODS
from tests.support.tiny import CORE_FAMILIES, TASKS, batch, build, scramble, tiny
from weft.acceleration.compiled import blocks_of
from weft.encoder.load import load_encoder
from weft.errors import WeftError
from weft.model.transforms.merge import can_have_bias
from weft.model.trunk import run_trunk, trunk_depth

CORE = ("lora", "bitfit", "houlsby", "pals", "morris", "ca_mtl")
CASES = [pytest.param(m, f, id=f"{m}-{f}") for f in CORE_FAMILIES for m in CORE]
core_case = pytest.mark.parametrize(("method", "family"), CASES, scope="module")
each_family = pytest.mark.parametrize("family", CORE_FAMILIES)
ONE_BLOCK = {**METHODS["ca_mtl"], "train_encoder": "all"}
"""CA-MTL for an encoder of one block, which has no top half."""


@core_case
def test_start_is_the_base_where_promised(method, family):
    test_conformance.test_start_is_the_base_where_promised(method, family)


@core_case
def test_mixed_batch_equals_single_task_batches(method, family):
    test_conformance.test_mixed_batch_equals_single_task_batches(method, family)


@core_case
def test_padding_changes_nothing(method, family):
    test_conformance.test_padding_changes_nothing(method, family)


@core_case
def test_with_adapters_off_it_is_the_bare_encoder(method, family):
    test_conformance.test_with_adapters_off_it_is_the_bare_encoder(method, family)


@core_case
def test_ledger_is_the_sum_over_the_real_tensors(method, family):
    test_conformance.test_ledger_is_the_sum_over_the_real_tensors(method, family)


@core_case
def test_under_autocast_the_start_is_the_base_too(method, family, monkeypatch):
    if family == "deberta":
        # Hugging Face's own attention of v1 overflows in bf16; a woven one without adapters does not
        base = build(family, "frozen")
        bare = SimpleNamespace(last_hidden_state=None)

        def run(ids, attention_mask):
            task = torch.zeros(len(ids), dtype=torch.long)
            bare.last_hidden_state = base.run(input_ids=ids, attention_mask=attention_mask, task=task).hidden
            return bare

        monkeypatch.setattr(test_training, "bare_of", lambda family: run)
    test_training.test_under_autocast_the_start_is_the_base_too(method, family)


@pytest.mark.parametrize("method", ["full", "pals", "ca_mtl"])
@each_family
def test_mixed_losses_and_gradients_equal_single_task_ones(method, family):
    """And every parameter that trains has a gradient: constants of a family do not train."""
    test_training.test_mixed_losses_and_gradients_equal_single_task_ones(method, family)
    trained = {
        name for name, p in build(family, METHODS[method]).encoder.named_parameters() if p.requires_grad
    }
    assert not any(name.startswith(("contact_head", "encoder.embed_positions")) for name in trained)


@pytest.mark.parametrize("method", ["lora", "pals"])
@each_family
def test_gradient_checkpointing_changes_nothing(method, family):
    test_training.test_gradient_checkpointing_changes_nothing(method, family)


@pytest.mark.parametrize("method", ["lora", "bitfit"])
@each_family
def test_merged_equals_unmerged_where_there_is_a_bias(method, family):
    model = shared(method, family)
    without = [site for site, _ in model.placements if not can_have_bias(model.encoder, site)]
    if method == "lora" or not without:
        test_conformance.test_merged_equals_unmerged(method, family)
        return
    with pytest.raises(WeftError, match=r"cannot be merged: .* has no bias, and the configuration of"):
        model.merge("a")


@each_family
@pytest.mark.usefixtures("many_graphs")
def test_compiled_blocks_equal_eager_ones(family):
    """Adapters at linear maps, norms, scores and outputs, in one graph without a break."""
    model = scramble(build(family, ["lora", "bitfit", ONE_BLOCK], layers=1))
    same = copy.deepcopy(model)
    inputs = batch(model)
    for block in blocks_of(model.encoder):
        block.compile(backend="eager", fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            found, expected = model(**inputs), same.run(**inputs)
            assert_near(found.hidden, expected.hidden)
            assert_near(found.logits, expected.logits)
            inputs["task"] = (inputs["task"] + 1) % len(model.tasks)  # other tasks, the same graph


@pytest.mark.parametrize("method", ["full", "lora", "morris"])
@each_family
def test_saved_equals_loaded(method, family, tmp_path):
    tiny(family).save_pretrained(tmp_path / "encoder")
    encoder = load_encoder(str(tmp_path / "encoder"))
    assert all(
        torch.equal(p, q) for p, q in zip(encoder.model.parameters(), tiny(family).parameters(), strict=True)
    )
    model = scramble(weft.Model(encoder, TASKS, METHODS[method], max_length=17)).eval()
    inputs = batch(model)
    again = weft.load(model.save(tmp_path / "bundle")).eval()
    with torch.no_grad():
        for one, other in zip(model.run(**inputs).logits, again.run(**inputs).logits, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("method", ["frozen", "lora-all"])
@each_family
def test_running_from_the_trunk_is_the_plain_forward(method, family):
    model = scramble(build(family, METHODS[method]))
    inputs = batch(model)
    mask = inputs["attention_mask"]
    with torch.no_grad():
        plain = model.run(**inputs, layers=True)
        assert trunk_depth(model) == model.num_layers
        for depth in range(1, model.num_layers + 1):
            trunk = run_trunk(model, inputs, inputs["task"], depth, layers=True)
            found = model.run(**inputs, trunk=trunk, layers=True)
            for one, other in zip(found.layers, plain.layers, strict=True):
                torch.testing.assert_close(real(one, mask), real(other, mask), **CLOSE)
            torch.testing.assert_close(found.logits, plain.logits, **CLOSE)


@each_family
def test_a_pickled_model_is_the_same(family):
    model = scramble(build(family, METHODS["ca_mtl"]))
    inputs = batch(model)
    again = pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        assert torch.equal(again.run(**inputs).hidden, model.run(**inputs).hidden)
