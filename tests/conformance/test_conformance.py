"""What every method must keep on every family; see table.py."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.conformance.cases import CLOSE, assert_near, at_start, bare_of, every_case, model_of, real, shared
from tests.conformance.table import METHODS
from tests.support.tiny import CONFIGS, CORE_CONFIGS, CORE_FAMILIES, FAMILIES, TASKS, batch, build
from weft.encoder.load import load_encoder
from weft.errors import WeftError
from weft.methods import METHODS as REGISTERED
from weft.methods import build_method
from weft.model.ownership import owned
from weft.model.transforms.merge import can_merge


@every_case
def test_start_is_the_base_where_promised(method, family):
    model, bare = at_start(method, family), bare_of(family)
    inputs = batch(model)
    with torch.no_grad():
        expected = bare(inputs["input_ids"], attention_mask=inputs["attention_mask"])
        output = model.run(**inputs)
    if not model.method.starts_at_base:
        assert not torch.allclose(output.hidden, expected.last_hidden_state, atol=1e-6), "it could promise"
        return
    # the rows of separate bodies run in smaller batches, where products may be summed in another order
    tolerance = CLOSE if model.method.separate else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(output.hidden, expected.last_hidden_state, **tolerance)
    if getattr(bare, "pooler", None) is None:
        assert torch.equal(output.pooled, output.hidden[:, 0])
    else:
        torch.testing.assert_close(output.pooled, expected.pooler_output, **tolerance)


@every_case
def test_mixed_batch_equals_single_task_batches(method, family):
    model = shared(method, family)
    inputs = batch(model)
    task, mask = inputs["task"], inputs["attention_mask"]
    with torch.no_grad():
        mixed = model.run(**inputs, layers=True)
        assert len(mixed.layers) == model.num_layers + 1
        for t in task.unique().tolist():
            rows = task == t
            single = model.run(**{k: v[rows] for k, v in inputs.items()}, layers=True)
            assert_near(real(mixed.hidden[rows], mask[rows]), real(single.hidden, mask[rows]))
            assert_near(mixed.pooled[rows], single.pooled)
            for one, other in zip(mixed.layers, single.layers, strict=True):
                assert_near(real(one[rows], mask[rows]), real(other, mask[rows]))
            for row, logits in zip(rows.nonzero()[:, 0].tolist(), single.logits, strict=True):
                assert logits.shape == (model.tasks[t].size,)
                assert_near(mixed.logits[row], logits)


@every_case
def test_tasks_differ_where_the_method_says_so(method, family):
    model = shared(method, family)
    inputs = batch(model)
    other = (inputs["task"] + 1) % len(model.tasks)
    with torch.no_grad():
        one, two = model.run(**inputs), model.run(**{**inputs, "task": other})
    apart = any(item.owner.startswith(("task:", "group:")) for item in owned(model) if item.part != "heads")
    assert torch.equal(one.hidden, two.hidden) is not apart


@every_case
def test_padding_changes_nothing(method, family):
    model = shared(method, family)
    inputs = batch(model)
    encoder = next(iter(model.encoder.values())) if method == "separate" else model.encoder
    more = {
        "input_ids": torch.nn.functional.pad(
            inputs["input_ids"], (0, 5), value=encoder.config.pad_token_id or 0
        ),
        "attention_mask": torch.nn.functional.pad(inputs["attention_mask"], (0, 5)),
        "task": inputs["task"],
    }
    with torch.no_grad():
        one, two = model.run(**inputs), model.run(**more)
    mask = inputs["attention_mask"]
    assert_near(real(two.hidden[:, : mask.size(1)], mask), real(one.hidden, mask))
    assert_near(two.pooled, one.pooled)


@every_case
def test_called_by_itself_the_encoder_is_the_bare_one(method, family):
    model, bare = shared(method, family), bare_of(family)
    inputs = batch(model)
    with torch.no_grad():
        model.run(**inputs)
        if not model.method.separate:  # whose encoders were moved apart
            found = model.encoder(inputs["input_ids"][:3], attention_mask=inputs["attention_mask"][:3])
            expected = bare(inputs["input_ids"][:3], attention_mask=inputs["attention_mask"][:3])
            assert torch.equal(found.last_hidden_state, expected.last_hidden_state)


@every_case
def test_with_adapters_off_it_is_the_bare_encoder(method, family):
    model, bare = shared(method, family), bare_of(family)
    inputs = batch(model)
    if method == "separate":
        with pytest.raises(WeftError, match="no adapters to turn off"), model.adapters_off():
            pass
        return
    with torch.no_grad():
        before = model.run(**inputs)
        with model.adapters_off():
            found = model.run(**inputs, layers=True)
        expected = bare(inputs["input_ids"], attention_mask=inputs["attention_mask"])
        assert torch.equal(found.hidden, expected.last_hidden_state)
        assert len(found.layers) == model.num_layers + 1
        for one, other in zip(model.run(**inputs).logits, before.logits, strict=True):
            assert torch.equal(one, other)  # and on again


@every_case
def test_copies_and_state_dict_keep_hugging_faces_names(method, family):
    model, bare = model_of(method, family), bare_of(family)
    inputs = batch(model)
    names = list(bare.state_dict())
    bodies = list(model.encoder.values()) if method == "separate" else [model.encoder]
    for body in bodies:
        assert type(body) is type(bare)
        assert list(body.state_dict()) == names
    with torch.no_grad():
        before = model.run(**inputs)
        twin = copy.deepcopy(model)
        for parameter in twin.parameters():
            parameter.zero_()
        assert_near(model.run(**inputs).logits, before.logits)  # the copy shares nothing
        fresh = build(family, METHODS[method], seed=5)
        fresh.load_state_dict(model.state_dict())
        for one, other in zip(fresh.run(**inputs).logits, before.logits, strict=True):
            assert torch.equal(one, other)


@every_case
def test_merged_equals_unmerged(method, family):
    model = shared(method, family)
    inputs = batch(model)
    refused = [adapter for site, adapter in model.placements if not can_merge(site, adapter)]
    if refused:
        with pytest.raises(WeftError, match=f"cannot be merged: {refused[0].unmerged}"):
            model.merge("a")
        return
    with torch.no_grad():
        output = model.run(**inputs)
        for t, task in enumerate(model.tasks):
            plain = model.merge(task.name)
            assert not any("forward" in module.__dict__ for module in plain.modules())
            rows = inputs["task"] == t
            found = plain(inputs["input_ids"][rows], attention_mask=inputs["attention_mask"][rows])
            mask = inputs["attention_mask"][rows]
            assert_near(real(found.last_hidden_state, mask), real(output.hidden[rows], mask))


@every_case
def test_ledger_is_the_sum_over_the_real_tensors(method, family):
    model = at_start(method, family)
    found = model.ledger()
    encoder = sum(p.numel() for p in bare_of(family).parameters())
    held = sum(p.numel() for p in model.parameters())
    assert found["encoder"] == encoder
    own = 0 if method == "separate" else encoder
    added = found["shared"] + sum(found["per_task"].values())
    assert own + added + sum(found["heads"].values()) == held
    assert found["total_ratio"] == pytest.approx((own + added) / encoder)
    heads = {id(p) for p in model.heads.parameters()}
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad and id(p) not in heads)
    assert found["trained_percent_per_task"] == pytest.approx(100 * trained / encoder / len(TASKS))


@every_case
def test_several_rows_of_one_example(method, family):
    model = shared(method, family)
    inputs = batch(model, rows=4)
    with torch.no_grad():
        once = model.run(**inputs)
        example = torch.tensor([0, 1, 2, 3, 3, 2, 1, 0])
        twice = {k: torch.cat([v, v.flip(0)]) for k, v in inputs.items()}
        found = model.run(**twice, example=example)
    assert torch.equal(found.task, inputs["task"])
    assert_near(found.logits, once.logits)


def test_every_registered_method_is_in_the_table():
    used = {part.name for spec in METHODS.values() for part in build_method(spec).parts}
    assert used == set(REGISTERED)
    assert set(REGISTERED) <= set(METHODS), "each under its own name, with the settings it is known by"


def test_every_known_family_is_in_the_table():
    """Either in the whole table or in its core; an older transformers may lack some."""
    from weft.encoder.families import FAMILIES as KNOWN

    tables = CONFIGS | CORE_CONFIGS
    assert {model_type for model_type, _ in tables.values()} == set(KNOWN)
    assert set(CONFIGS) == set(FAMILIES)
    assert all(KNOWN[tables[f][0]].since for f in set(tables) - {*FAMILIES, *CORE_FAMILIES})
    assert load_encoder("random:bert-tiny").model.config.model_type in KNOWN
