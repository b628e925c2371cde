from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_kind import perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import company, losses_of, random_logits
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data import load_split
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.tasks import Task
from weft.tasks.kinds import KINDS

KIND = KINDS["multilabel"]()
LABELS = ("cat", "dog", "bird", "fish")
some_ids = st.sets(st.integers(0, 3)).map(lambda ids: tuple(sorted(ids)))


@given(company(), st.data())
def test_the_loss_is_binary_cross_entropy(batch, data):
    size = 4
    values = [
        data.draw(some_ids) if own else data.draw(st.sampled_from([None, 7, [9]])) for own in batch.mine
    ]
    logits = random_logits(len(values), size)
    found = losses_of("multilabel", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            chances = [1 / (1 + math.exp(-x)) for x in logits[e].tolist()]
            each = [-math.log(p if k in values[e] else 1 - p) for k, p in enumerate(chances)]
            assert found[e].item() == pytest.approx(sum(each) / size, rel=1e-4)


@given(st.lists(some_ids, min_size=1, max_size=12))
def test_a_model_that_knows_is_judged_perfect(labels):
    rows = [{"text": "the cat", "label": [LABELS[i] for i in ids]} for ids in labels]
    task = Task("m", "multilabel", labels=LABELS, files={"train": rows})
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    assert tokens.labels == labels
    found = judged(task, perfect_logits(tokens), tokens, range(len(rows)))
    assert found["exact"] == 1
    if any(labels):
        assert found["micro_f1"] == 1


@given(some_ids)
def test_all_forms_of_a_label_are_one(ids):
    names = [LABELS[i] for i in ids]
    assert KIND.parse([names], LABELS) == ids
    assert KIND.parse([list(reversed(ids))], LABELS) == ids
    assert KIND.parse([tuple(map(str, ids))], LABELS) == ids
    assert KIND.parse([" , ".join(names)], LABELS) == ids
    for one, none in ((1, 0), ("1", "0"), (True, False), (1.0, 0.0)):
        assert KIND.parse([one if k in ids else none for k in range(4)], LABELS) == ids


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([["cow"]], "one of cat, dog, bird, fish, or an id from 0 to 3"),
        ([["cat", "cat"]], "each label once"),
        ([["cat", 0]], "each label once"),
        ([3], "a list of labels"),
        ([None], "a list of labels"),
        ([1, 0, 2, 0], "0 or 1 in each column of the label"),
        ([1, 0, None, 0], "0 or 1 in each column of the label"),
    ],
)
def test_labels_that_are_none(values, message):
    with pytest.raises(ValueError, match=message):
        KIND.parse(values, LABELS)


def test_an_empty_cell_says_that_none_holds(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text('text,label\nthe cat,"cat, dog"\na dog,\n')
    split = load_split(Task("m", "multilabel", labels=LABELS, files={"train": file}), "train")
    assert split.labels == [(0, 1), ()]


def test_columns_of_flags():
    rows = [{"text": "x", "cat": 1, "dog": 0, "bird": "1"}, {"text": "y", "cat": 0, "dog": 0, "bird": 0}]
    task = Task("m", "multilabel", label=("cat", "dog", "bird"), files={"train": rows})
    assert task.size == 3
    assert load_split(task, "train").labels == [(0, 2), ()]
    wrong = [{**rows[0], "dog": 5}]
    with pytest.raises(WeftError, match="expected 0 or 1 in each column of the label"):
        load_split(Task("m", "multilabel", label=("cat", "dog", "bird"), files={"train": wrong}), "train")


@given(st.lists(some_ids, min_size=1, max_size=9))
def test_the_guess_is_what_more_than_half_have(labels):
    guess = KIND.guess(labels, Task("m", "multilabel", labels=LABELS), [None, None])
    expected = [int(2 * sum(k in ids for ids in labels) > len(labels)) for k in range(4)]
    assert guess.tolist() == [expected] * 2


def test_answers():
    task = Task("m", "multilabel", labels=LABELS)
    found = KIND.answer(np.array([3.0, -1.0, 0.0, 1.0], np.float32), task, None)
    assert found["labels"] == ["cat", "fish"]
    assert found["probabilities"]["bird"] == 0.5
    assert found["probabilities"]["dog"] == pytest.approx(1 / (1 + math.e))
    # as they are judged
    assert KIND.decode([np.array([3.0, -1.0, 0.0, 1.0], np.float32)], task, [None]).tolist() == [[1, 0, 0, 1]]


def test_the_tiny_task():
    task = task_of_kind("multilabel", 30)
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    assert judged(task, perfect_logits(tokens), tokens, range(30)) == {
        "micro_f1": 1,
        "macro_f1": 1,
        "exact": 1,
    }
