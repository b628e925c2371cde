"""A step's examples as tensors, and what labels weigh."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind, tokens_of
from tests.support.more import examples
from tests.support.tiny import build, no_dropout, scramble
from tests.support.tiny_run import save_encoder
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.batching.batch import class_weights, make_batch
from weft.errors import WeftError
from weft.model.targets import target_table
from weft.tasks.kinds import KINDS
from weft.training.run.loop import Loop

pytestmark = pytest.mark.usefixtures("token_cache")
CPU = torch.device("cpu")


def tokens_for(labels, **settings):
    rows = [{"text": "the cat", "label": label} for label in labels]
    return tokens_of(weft.Task("a", files={"train": rows}, **settings), tiny_tokenizer("words"))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_balanced_weights(labels):
    """n / (C·n_c): every label that is there weighs the same in all, n / C."""
    found = class_weights(tokens_for(labels, size=4, class_weights="balanced"))
    assert found.shape == (4,)
    for label in range(4):
        if label in labels:
            assert found[label] == pytest.approx(len(labels) / (4 * labels.count(label)))
            assert found[label] * labels.count(label) == pytest.approx(len(labels) / 4)
        else:
            assert found[label] == 1
    if set(labels) == set(range(4)):
        assert np.mean([found[label] for label in labels]) == pytest.approx(1)
        from sklearn.utils.class_weight import compute_class_weight

        assert found == pytest.approx(compute_class_weight("balanced", classes=np.arange(4), y=labels))


def test_given_weights_and_none():
    assert class_weights(tokens_for([0, 1], size=2)) is None
    assert class_weights(tokens_for([0, 1], size=2, class_weights=(2, 0.5))).tolist() == [2.0, 0.5]


def test_a_batch_of_every_kind():
    tasks = [task_of_kind(name, 3) for name in NAMES]
    model = build("bert", "frozen", tasks)
    every = [tokens_of(task, tiny_tokenizer("words")) for task in tasks]
    chosen = [(t, i) for i in (2, 0) for t in reversed(range(len(tasks)))]
    ids = np.array([t for t, _ in chosen])
    batch = make_batch(model, [(every[t], i) for t, i in chosen], ids, CPU)
    example = batch.inputs["example"].tolist()
    counts = [len(every[t].rows_of(i)) for t, i in chosen]
    assert example == [e for e, count in enumerate(counts) for _ in range(count)]
    assert batch.inputs["task"].tolist() == [chosen[e][0] for e in example]
    length = batch.inputs["input_ids"].size(1)
    assert batch.labels["tag"].shape == (len(example), length)
    assert batch.labels["span"].shape == (len(example), 2)
    assert batch.labels["choose"].shape == batch.labels["rank"].shape == (len(example),)
    assert batch.labels["classify"].shape == (len(chosen),)
    row = 0
    for e, (t, i) in enumerate(chosen):
        kind, target = tasks[t].kind, every[t].target(i)
        for k, own in enumerate(every[t].rows_of(i)):
            ids_ = every[t].ids(own)
            assert batch.inputs["input_ids"][row, : len(ids_)].tolist() == ids_.tolist()
            assert batch.inputs["attention_mask"][row].sum() == len(ids_)
            if kind in ("choose", "rank"):
                assert batch.labels[kind][row] == target[k]
            elif kind == "span":
                assert tuple(batch.labels["span"][row].tolist()) == tuple(target[k])
            elif kind == "tag":
                found = batch.labels["tag"][row].tolist()
                assert found == list(target[k]) + [-100] * (length - len(ids_))
            if kind == "marked":
                assert batch.inputs["marks"][row, : len(ids_)].tolist() == every[t].marks(own).tolist()
            else:
                assert not batch.inputs["marks"][row].any()
            row += 1
        if kind in ("classify", "marked"):
            assert batch.labels[kind][e] == target
        if kind in ("regress", "similarity"):
            wanted = np.atleast_1d(tasks[t].target(target))
            assert batch.labels[kind][e, : len(wanted)].tolist() == pytest.approx(wanted.tolist())


@cache
def every_kind():
    tasks = [task_of_kind(name, 3) for name in NAMES]
    model = scramble(build("bert", "lora", tasks))
    return model, [tokens_of(task, tiny_tokenizer("words")) for task in tasks]


EXAMPLES = st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 2)), min_size=1, max_size=12)
KEYS = ("token_type_ids", "marks", "example")


@settings(max_examples=examples(25), deadline=None)
@given(EXAMPLES, st.integers(1, 9), st.integers(0, 8))
def test_a_batch_filled_up_loses_the_same(chosen, further, longer):
    """To a fixed length and number of rows, with inputs that it may not need: the examples' own losses."""
    model, every = every_kind()
    items, ids = [(every[t], i) for t, i in chosen], np.array([t for t, _ in chosen])
    plain = make_batch(model, items, ids, CPU)
    rows, length = plain.inputs["input_ids"].shape
    filled = make_batch(model, items, ids, CPU, length=length + longer, rows=rows + further, keys=KEYS)
    assert set(filled.inputs) == {"input_ids", "attention_mask", "task", *KEYS}
    assert filled.inputs["input_ids"].shape == (rows + further, length + longer)
    assert filled.examples == len(chosen) + 1 == plain.examples + 1
    for name, labels in filled.labels.items():
        by_row = name in ("choose", "rank", "span", "tag")
        assert labels.size(0) == (rows + further if by_row else filled.examples)
        # how wide they are follows from the model's tasks
        assert labels.dtype == plain.labels[name].dtype
        assert name == "tag" or labels.shape[1:] == plain.labels[name].shape[1:]
    with torch.no_grad():
        losses = model.example_losses(model(**plain.inputs), plain.labels)
        found = model.example_losses(model(**filled.inputs, examples=filled.examples), filled.labels)
    assert found.isfinite().all()
    torch.testing.assert_close(found[: len(chosen)], losses, rtol=1e-4, atol=1e-5)


@settings(max_examples=examples(25), deadline=None)
@given(EXAMPLES)
def test_targets_that_are_kept_are_those_that_are_given(chosen):
    model, every = every_kind()
    ids = [t for t, _ in chosen]
    batch = make_batch(model, [(every[t], i) for t, i in chosen], np.array(ids), CPU)
    values = [every[t].target(i) for t, i in chosen]
    length = batch.inputs["input_ids"].size(1)
    given_ = model.collate_labels(values, torch.tensor(ids), batch.inputs.get("example"), length)
    assert set(batch.labels) == set(given_)
    for name, labels in given_.items():
        assert torch.equal(batch.labels[name], labels), name


@pytest.mark.parametrize(
    ("name", "kept", "given_"), [("multilabel", bool, "float32"), ("tag", "int32", "int64")]
)
def test_targets_are_kept_small_and_given_wide(name, kept, given_):
    task = task_of_kind(name, 3)
    tokens = tokens_of(task, tiny_tokenizer("words"))
    batch = make_batch(build("bert", "frozen", [task]), [(tokens, 1)], np.zeros(1, np.int64), CPU)
    assert target_table(tokens, KINDS[name](), task).values.dtype == kept
    assert batch.labels[name].numpy().dtype == given_


@pytest.mark.parametrize(
    ("kind", "wrong", "expected"),
    [("classify", True, "a label id from 0 to 1"), ("regress", "1.5", "a finite number")],
)
def test_a_whole_splits_labels_are_checked_as_one_is(kind, wrong, expected):
    task = weft.Task("a", kind, size=2 if kind == "classify" else 1)
    assert KINDS[kind]().table([1, 0], task) is not None
    assert KINDS[kind]().table([0, wrong], task) is None  # so each is looked at, and the wrong one named
    with pytest.raises(ValueError, match=expected):
        KINDS[kind]().check(wrong, task.size)


def test_targets_are_as_wide_as_the_model_needs():
    tasks = [weft.Task(f"m{k}", "multilabel", size=k) for k in (3, 7)]
    tasks += [weft.Task(f"r{k}", "regress", size=k) for k in (1, 4)]
    found = build("bert", "frozen", tasks).collate_labels([[0, 2], 1.5], torch.tensor([0, 2]))
    assert found["multilabel"].tolist() == [[1, 0, 1, 0, 0, 0, 0], [0] * 7]
    assert found["regress"].tolist() == [[0] * 4, [1.5, 0, 0, 0]]


def test_filled_up_by_examples_of_one_row():
    task = task_of_kind("classify", 3)
    model = build("bert", "frozen", [task])
    tokens = tokens_of(task, tiny_tokenizer("words"))
    items, ids = [(tokens, i) for i in range(3)], np.zeros(3, np.int64)
    batch = make_batch(model, items, ids, CPU, rows=5, length=16, keys=())
    assert set(batch.inputs) == {"input_ids", "attention_mask", "task"}
    assert batch.examples == len(batch.labels["classify"]) == 5
    assert batch.inputs["attention_mask"].sum(1).tolist()[3:] == [1, 1]
    assert len(model(**batch.inputs).logits) == 5
    with pytest.raises(WeftError, match="3 rows; expected at most 2"):
        make_batch(model, items, ids, CPU, rows=2)
    with pytest.raises(WeftError, match="fewer than 3, so that a filling row is left"):
        make_batch(model, items, ids, CPU, rows=3, keys=["example"])


def test_a_wrong_label_is_named():
    task = weft.Task("a", size=3, files={"train": [{"text": "the cat", "label": 2}] * 2})
    tokens = tokens_of(task, tiny_tokenizer("words"))
    model = build("bert", "frozen", [weft.Task("a", size=2)])
    with pytest.raises(WeftError, match="example 0, task 'a': label 2; expected a label id from 0 to 1"):
        make_batch(model, [(tokens, 1)], np.zeros(1, np.int64), CPU)


def test_a_batch_of_one_row_each_has_no_examples():
    task = task_of_kind("classify", 3)
    model = build("bert", "frozen", [task])
    tokens = tokens_of(task, tiny_tokenizer("words"))
    batch = make_batch(model, [(tokens, i) for i in range(3)], np.zeros(3, np.int64), CPU)
    assert set(batch.inputs) == {"input_ids", "attention_mask", "task"}


WEIGHTS = {"classify": (0.5, 3.0), "marked": (2.0, 0.25)}


def loop_of(encoder, folder, weighted):
    """A loop of one step over two tasks with class weights and one without."""
    tasks = [
        task_of_kind(name, 9, class_weights=WEIGHTS.get(name, ()) if weighted else ())
        for name in ("classify", "marked", "regress")
    ]
    model = no_dropout(scramble(weft.Model(encoder, tasks, "full", head_dropout=0.0, max_length=24)))
    train = [tokens_of(task, model.tokenizer) for task in tasks]
    training = weft.Training(
        steps=3, batch_size=24, mixed=True, group_by_length=False, max_length=24, lr=0.01
    )
    validation = {task.name: tokens for task, tokens in zip(tasks, train, strict=True)}
    return Loop(model, training, train, validation, folder)


def test_weights_of_labels_scale_the_weights_of_examples(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    weighted, plain = (loop_of(encoder, tmp_path, own) for own in (True, False))
    step = weighted.plan.step(0)
    assert np.array_equal(step.weight, plain.plan.step(0).weight)
    told = weighted.driver.gradients.of(weighted.driver.gradients.microbatches.prepare(step), None, None)
    # by hand, on the model without class weights
    names = ["classify", "marked", "regress"]
    items = [(plain.train[t], i) for t, i in zip(step.task.tolist(), step.index.tolist(), strict=True)]
    scale = []
    for t, (tokens, i) in zip(step.task.tolist(), items, strict=True):
        scale.append(WEIGHTS[names[t]][tokens.labels[i]] if names[t] in WEIGHTS else 1.0)
    assert len(set(scale)) > 3
    batch = make_batch(plain.model, items, step.task.astype(np.int64), CPU)
    losses = plain.model.example_losses(plain.model(**batch.inputs), batch.labels)
    (losses * torch.tensor(scale) * torch.from_numpy(step.weight)).sum().backward()
    found = dict(weighted.model.named_parameters())
    assert any(p.grad is not None and p.grad.abs().max() > 1e-3 for p in found.values())
    for name, parameter in plain.model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name].grad, parameter.grad, rtol=1e-4, atol=1e-6)
    # what is told of the losses is not weighted
    for t in range(3):
        own = [loss for loss, task in zip(losses.tolist(), step.task.tolist(), strict=True) if task == t]
        assert told.loss[t] == pytest.approx(sum(own), rel=1e-4)
        assert told.examples[t] == len(own)


def test_a_weight_of_two_is_the_example_twice(tmp_path):
    """Under the loss `sum`: rows that are there twice, or whose label weighs two, are one gradient."""
    rows = rows_of_kind("classify", 12)
    twice = [row for row in rows for _ in range(2 if row["label"] == "yes" else 1)]
    gradients = []
    encoder = save_encoder(tmp_path / "encoder")
    for files, weights in ((rows, (1, 2)), (twice, ())):
        task = weft.Task("a", labels=("no", "yes"), class_weights=weights, files={"train": files})
        model = no_dropout(weft.Model(encoder, [task], "full", head_dropout=0.0, max_length=24))
        tokens = tokens_of(task, model.tokenizer)
        training = weft.Training(steps=1, batch_size=len(files), loss="sum", max_length=24, lr=0.1)
        loop = Loop(model, training, [tokens], {"a": tokens}, tmp_path)
        step = loop.plan.step(0)
        assert sorted(step.index.tolist()) == list(range(len(files)))
        loop.driver.gradients.of(loop.driver.gradients.microbatches.prepare(step), None, None)
        gradients.append(model.heads["classify-2"].weight.grad.clone())
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
