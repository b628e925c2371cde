"""A model with a task of every kind: what a batch holds beside an example changes nothing of it."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
import torch

import weft
from tests.conformance.table import METHODS
from tests.support.every_kind import NAMES, perfect_logits, task_of_kind, tokens_of
from tests.support.tiny import FAMILIES, build, no_dropout, scramble
from tests.support.tiny_run import save_encoder
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.batching.batch import make_batch
from weft.model.ownership import owned
from weft.tasks.kinds import KINDS

CPU = torch.device("cpu")
EACH = 3
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@cache
def tasks():
    return tuple(task_of_kind(name, EACH) for name in NAMES)


@cache
def tokens():
    return tuple(tokens_of(task, tiny_tokenizer("words")) for task in tasks())


def items():
    """(task id, example) of every example, in no order."""
    found = [(t, i) for t in range(len(NAMES)) for i in range(EACH)]
    random.Random(3).shuffle(found)
    return found


def batch_of(model, chosen):
    given = [(tokens()[t], i) for t, i in chosen]
    return make_batch(model, given, np.array([t for t, _ in chosen]), CPU)


def interleaved(batch, seed=1):
    """The same batch with its rows anywhere; those of one example stay in their order."""
    rows = len(batch.inputs["input_ids"])
    example = batch.inputs["example"].tolist()
    places = random.Random(seed).sample(range(rows), rows)
    mixed = [example[p] for p in places]
    taken = {e: iter([r for r, own in enumerate(example) if own == e]) for e in set(example)}
    order = torch.tensor([next(taken[e]) for e in mixed])
    assert order.tolist() != list(range(rows))
    inputs = {name: value[order] for name, value in batch.inputs.items()}
    by_row = {"choose", "rank", "span", "tag"}
    labels = {name: value[order] if name in by_row else value for name, value in batch.labels.items()}
    return inputs, labels


def model_of(family, method="lora", **settings):
    return scramble(build(family, METHODS[method], tasks(), **settings))


def test_every_kind_is_here():
    assert {task.kind for task in tasks()} == set(KINDS)
    assert {KINDS[task.kind]().reads_of(task) for task in tasks()} >= {
        "pooled",
        "tokens",
        "pair",
        "marked",
        "cosine",
    }
    assert {task.layers for task in tasks()} == {None, 2, 3}
    assert {task.pool for task in tasks()} >= {None, "mean", "task_pooler"}
    # several rows an example, and windows
    assert all(
        (tokens()[NAMES.index(name)].row_counts > 1).any() for name in ("span", "tag", "choose", "rank")
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_mixed_rows_anywhere_equal_each_example_alone(family):
    model = model_of(family)
    chosen = items()
    inputs, labels = interleaved(batch_of(model, chosen))
    with torch.no_grad():
        mixed = model.run(**inputs)
        losses = model.example_losses(mixed, labels)
        assert mixed.task.tolist() == [t for t, _ in chosen]
        for e, (t, i) in enumerate(chosen):
            alone = batch_of(model, [(t, i)])
            output = model.run(**alone.inputs)
            name = NAMES[t]
            torch.testing.assert_close(
                mixed.logits[e], output.logits[0], **CLOSE, msg=lambda m, n=name: f"{n}: {m}"
            )
            kind = KINDS[tasks()[t].kind]().of(tasks()[t])
            own = kind.loss(output.by_shape[tasks()[t].head], alone.labels[kind.name], output.layout)[0]
            torch.testing.assert_close(losses[e], own, **CLOSE, msg=lambda m, n=name: f"{n}: {m}")


def test_an_examples_logits_are_those_of_its_rows_in_their_order():
    model = model_of("bert", layers=1)
    chosen = items()
    inputs, _ = interleaved(batch_of(model, chosen))
    with torch.no_grad():
        output = model.run(**inputs)
    example, lengths = inputs["example"].tolist(), inputs["attention_mask"].sum(1).tolist()
    for e, (t, _) in enumerate(chosen):
        rows = [r for r, own in enumerate(example) if own == e]
        given = output.by_shape[model.tasks[t].head]
        expected = {
            "example": lambda given=given, e=e: given[e],
            "row": lambda given=given, rows=rows: torch.stack([given[r, 0] for r in rows]),
            "token": lambda given=given, rows=rows: torch.cat([given[r, : lengths[r]] for r in rows]),
        }[KINDS[model.tasks[t].kind].answers_by]()
        assert torch.equal(output.logits[e], expected), NAMES[t]


@pytest.mark.parametrize(
    ("family", "method"), [("bert", "full"), ("modernbert", "pals"), ("distilbert", "separate")]
)
def test_mixed_gradients_equal_the_sum_of_single_ones(family, method):
    model = no_dropout(model_of(family, method, head_dropout=0.0))
    chosen = items()
    inputs, labels = interleaved(batch_of(model, chosen))
    model.loss(model.run(**inputs), labels, torch.ones(len(chosen))).backward()
    mixed = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    for t in range(len(NAMES)):
        alone = batch_of(model, [(t, i) for i in range(EACH)])
        model.loss(model.run(**alone.inputs), alone.labels, torch.ones(EACH)).backward()
    single = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert mixed.keys() == single.keys()
    for name, gradient in mixed.items():
        assert gradient.isfinite().all()
        torch.testing.assert_close(
            gradient, single[name], rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_a_task_leaves_the_others_heads_alone():
    """Of a mixed batch where one task has all the weight, no other's parameters have a gradient."""
    model = no_dropout(model_of("bert", head_dropout=0.0))
    chosen = items()
    batch = batch_of(model, chosen)
    for t, name in enumerate(NAMES):
        model.zero_grad()
        weight = torch.tensor([float(own == t) for own, _ in chosen])
        model.loss(model.run(**batch.inputs), batch.labels, weight).backward()
        moved = set()
        for item in owned(model):
            gradient = model.get_parameter(item.name).grad
            if gradient is not None and item.owner.startswith("task:"):
                own = gradient[item.slot] if item.slot is not None else gradient
                assert own.isfinite().all()
                if (own != 0).any():
                    moved.add(item.owner)
        assert moved == {f"task:{name}"}


@pytest.mark.usefixtures("many_graphs")
def test_compiled_equals_eager():
    """Logits and losses, without a break in the graph."""
    model = model_of("bert", layers=1)

    def passed(inputs, labels):
        output = model(**inputs)
        return output.by_shape, model.example_losses(output, labels)

    compiled = torch.compile(passed, backend="eager", fullgraph=True, dynamic=True)
    # other numbers of rows, examples and tokens in the same graph
    for chosen in (items(), items()[:20]):
        inputs, labels = interleaved(batch_of(model, chosen))
        with torch.no_grad():
            found, expected = compiled(inputs, labels), passed(inputs, labels)
        torch.testing.assert_close(found[1], expected[1], **CLOSE)
        assert found[0].keys() == expected[0].keys()
        for shape, logits in expected[0].items():
            torch.testing.assert_close(found[0][shape], logits, **CLOSE)


def test_under_autocast_everything_stays_finite():
    model = model_of("bert", "full")
    inputs, labels = interleaved(batch_of(model, items()))
    with torch.autocast("cpu", torch.bfloat16):
        output = model.run(**inputs)
    losses = model.example_losses(output, labels)
    assert losses.dtype == torch.float32
    assert losses.isfinite().all()
    losses.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("method", ["lora", "full", "separate"])
def test_saved_and_loaded_it_answers_the_same(method, tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    model = scramble(weft.Model(encoder, tasks(), METHODS[method], max_length=24, pool="cls"))
    again = weft.load(model.save(tmp_path / "bundle", with_encoder=method == "full"))
    assert again.tasks == model.tasks
    batch = batch_of(model, items())
    with torch.no_grad():
        one, other = model.eval().run(**batch.inputs), again.eval().run(**batch.inputs)
    for t, mine, its in zip(one.task.tolist(), one.logits, other.logits, strict=True):
        assert torch.equal(mine, its), NAMES[t]
    state, loaded = model.state_dict(), again.state_dict()
    assert all(torch.equal(state[key], loaded[key]) for key in state)


def test_a_cosine_alone_has_nothing_to_save_but_itself(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    model = weft.Model(encoder, [task_of_kind("cosine", EACH)], "frozen", max_length=24)
    assert not list(model.heads.parameters())
    assert not [p for p in model.parameters() if p.requires_grad]
    again = weft.load(model.save(tmp_path / "bundle"))
    request = ("cosine", ("the cat", "a dog"))
    assert again.predict([request]) == model.predict([request])


@pytest.mark.parametrize("name", NAMES)
def test_an_invented_answer_has_the_fields_and_types_of_real_ones(name):
    """Tables of predictions take their columns from it; a list may be empty in an answer."""
    task, rows = tasks()[NAMES.index(name)], tokens()[NAMES.index(name)]
    kind = KINDS[task.kind]()
    invented = kind.example_answer(task)
    for answer in kind.answers(perfect_logits(rows), task, rows.examples(range(EACH))):
        assert_alike(answer, invented)


def assert_alike(value, invented):
    assert type(value) is type(invented)
    if isinstance(value, dict):
        assert list(value) == list(invented)
        for field in value:
            assert_alike(value[field], invented[field])
    if isinstance(value, list):
        for item in value:
            assert_alike(item, invented[0])
