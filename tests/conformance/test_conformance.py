"""What every method must keep on every family; see table.py."""

from __future__ import annotations

import copy
from functools import cache, lru_cache

import pytest
import torch

from tests.conformance.table import METHODS
from tests.tiny import FAMILIES, TASKS, batch, build, labels, no_dropout, scramble, tiny
from weft.encoder.load import load_encoder
from weft.engines.compiled import blocks_of
from weft.errors import WeftError
from weft.methods import METHODS as REGISTERED
from weft.methods import build_method
from weft.training.owners import OwnerOptimizers

CASES = [pytest.param(m, f, id=f"{m}-{f}") for f in FAMILIES for m in METHODS]
# by the scope all tests of a case follow each other, so that a model that none changes is built once for them
every_case = pytest.mark.parametrize(("method", "family"), CASES, scope="module")
# tracing takes a second a case: further settings of a method compile in one family, of either anatomy in
# turn; one family is compiled whole, of the others one block, as the engines do it
WHOLE = "bert"
EITHER = (WHOLE, "modernbert")
FURTHER = {m: EITHER[n % 2] for n, m in enumerate(m for m in METHODS if m not in REGISTERED)}
COMPILED = [c for c in CASES if c.values[0] in REGISTERED or FURTHER[c.values[0]] == c.values[1]]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def model_of(method: str, family: str, **settings):
    return scramble(build(family, METHODS[method], **settings))


@lru_cache(maxsize=4)
def at_start(method: str, family: str):
    """A model before any step, for tests that change nothing of it."""
    return build(family, METHODS[method])


@lru_cache(maxsize=4)
def shared(method: str, family: str):
    """`model_of` for tests that change nothing of it."""
    return model_of(method, family)


@lru_cache(maxsize=4)
def bare_of(family: str):
    """The family's encoder, for tests that change nothing of it."""
    return tiny(family)


def assert_near(found, expected):
    torch.testing.assert_close(found, expected, **CLOSE)


def real(x, mask):
    """The hidden states at real tokens."""
    return x[mask.bool()]


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
    apart = any(item.owner.startswith(("task:", "group:")) for item in _owned(model) if item.part != "heads")
    assert torch.equal(one.hidden, two.hidden) is not apart


def _owned(model):
    from weft.ownership import owned

    return owned(model)


@every_case
def test_mixed_losses_and_gradients_equal_single_task_ones(method, family):
    model = no_dropout(model_of(method, family, head_dropout=0.0))
    inputs = batch(model)
    task = inputs["task"]
    given = labels(model, task)
    loss = model.loss(model.run(**inputs), given)
    loss.backward()
    mixed = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    present = task.unique().tolist()
    total = 0.0
    for t in present:
        rows = task == t
        output = model.run(**{k: v[rows] for k, v in inputs.items()})
        part = model.loss(output, {k: v[rows] for k, v in given.items()}) / len(present)
        part.backward()
        total += part.detach()
    assert_near(total, loss.detach())
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    single = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    if method != "separate":
        unused = {n for n in trained - set(mixed) if "word_embeddings" not in n}
        assert not unused, "a parameter that a batch leaves without gradient breaks data parallelism"
    for name, gradient in mixed.items():
        torch.testing.assert_close(
            gradient, single[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


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


@cache
def compile_bare(family, layers):
    bare = tiny(family, layers=layers)
    inputs = batch(build(family, "frozen", layers=layers))
    with torch.no_grad():
        compiled = torch.compile(bare, backend="eager")
        compiled(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    return compiled  # kept, and with it the graph


@pytest.mark.parametrize(("method", "family"), COMPILED)
@pytest.mark.usefixtures("many_graphs")
def test_compiled_equals_eager_after_a_bare_one_was_compiled(method, family):
    layers = 1 if method in REGISTERED else None  # further settings may name blocks
    model = model_of(method, family, layers=layers)
    inputs = batch(model)
    # never reset: the graphs of the bare encoder and of other methods on the same class stay at hand
    compile_bare(family, layers)
    same = copy.deepcopy(model)
    with torch.no_grad():
        if (family == WHOLE and method in REGISTERED) or method == "separate":
            compiled = torch.compile(model, backend="eager", fullgraph=method != "separate")
        else:
            compiled = model
            for block in blocks_of(model.encoder):
                block.compile(backend="eager", fullgraph=True)
        for _ in range(2):
            found, expected = compiled(**inputs), same.run(**inputs)
            assert_near(found.hidden, expected.hidden)
            assert_near(found.logits, expected.logits)
            inputs["task"] = (inputs["task"] + 1) % len(model.tasks)  # other tasks, the same graph


@every_case
def test_under_autocast_the_start_is_the_base_too(method, family):
    """bf16 as on a GPU: no term may lift the stream to float32, and gradients must come."""
    model, bare = build(family, METHODS[method]), bare_of(family)
    inputs = batch(model)
    with torch.autocast("cpu", torch.bfloat16):
        expected = bare(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
        output = model.run(**inputs)
    assert output.hidden.dtype == expected.dtype
    tolerance = {"rtol": 0.1, "atol": 0.1} if model.method.separate else {"rtol": 0, "atol": 0}
    if model.method.starts_at_base:
        torch.testing.assert_close(output.hidden, expected, **tolerance)
    assert output.hidden.isfinite().all()
    model.loss(output, labels(model, inputs["task"])).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


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
        with pytest.raises(WeftError, match="no adapters to take off"), model.adapters_off():
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
def test_gradient_checkpointing_changes_nothing(method, family):
    model = no_dropout(model_of(method, family, head_dropout=0.0))
    encoder = next(iter(model.encoder.values())) if method == "separate" else model.encoder
    if not encoder.supports_gradient_checkpointing:
        with pytest.raises(Exception, match="has no gradient checkpointing"):
            model.gradient_checkpointing_enable()
        return
    inputs = batch(model)
    given = labels(model, inputs["task"])
    gradients = []
    for checkpointing in (False, True):
        if checkpointing and method == "lora":
            model.encoder.gradient_checkpointing_enable()  # Hugging Face's own way is as safe
        elif checkpointing:
            model.gradient_checkpointing_enable()
        output = model.run(**inputs, layers=True)
        loss = model.loss(output, given) + sum(x.square().mean() for x in output.layers)
        # another forward in between, with other tasks, must not reach into the first one's backward
        model.run(**{**inputs, "task": inputs["task"].flip(0)})
        model.zero_grad()
        loss.backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert_near(gradients[1][name], gradient)


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
def test_a_step_leaves_an_absent_task_alone(method, family):
    model = no_dropout(model_of(method, family))
    optimizers = OwnerOptimizers(model, lr=1e-2, weight_decay=0.1)
    inputs = batch(model)

    def step(tasks):
        rows = torch.isin(inputs["task"], torch.tensor(tasks))
        some = {k: v[rows] for k, v in inputs.items()}
        optimizers.zero_grad()
        model.loss(model.run(**some), labels(model, some["task"])).backward()
        optimizers.step(tasks)

    step([0, 1, 2, 3])  # everyone has momentum now
    kept = [0, 2] if method == "lora-groups" else [1, 3]
    gone = sorted({0, 1, 2, 3} - set(kept))
    before = {(i.name, i.slot): i.data.clone() for i in _owned(model)}
    states = copy.deepcopy(optimizers.state_dict())
    step(kept)
    absent = {f"task:{model.tasks[t].name}" for t in gone} | (
        {"group:second"} if method == "lora-groups" else set()
    )
    moved = set()
    for item in _owned(model):
        equal = torch.equal(item.data, before[item.name, item.slot])
        if item.owner in absent or not item.trains:
            assert equal, f"{item.name}[{item.slot}] of {item.owner} moved"
        elif not equal:
            moved.add(item.owner)
    assert {f"task:{model.tasks[t].name}" for t in kept} <= moved
    for owner in absent & set(states):
        _same_state(optimizers.state_dict()[owner], states[owner])


def _same_state(found, expected):
    assert found["param_groups"] == expected["param_groups"]
    for key, entry in expected["state"].items():
        for name, value in entry.items():
            assert torch.equal(found["state"][key][name], value)


@every_case
def test_merged_equals_unmerged(method, family):
    model = shared(method, family)
    inputs = batch(model)
    if any(adapter.merged(0) is None for _, adapter in model.pairs):
        with pytest.raises(WeftError, match="cannot be merged"):
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
    from weft.encoder.anatomy import FAMILIES as KNOWN

    assert {tiny(f).config.model_type for f in FAMILIES} == set(KNOWN)
    assert load_encoder("random:bert-tiny").model.config.model_type in KNOWN
