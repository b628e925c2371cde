from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.support.every_kind import perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import company, losses_of, random_logits
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.readers.example import ExampleRows
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.collate import Places

KIND = KINDS["classify"]()


@given(company(), st.integers(2, 5), st.data())
def test_the_loss_is_cross_entropy(batch, size, data):
    values = [
        data.draw(st.integers(0, size - 1)) if own else data.draw(st.integers(0, 9)) for own in batch.mine
    ]
    logits = random_logits(len(values), size)
    found = losses_of("classify", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            expected = F.cross_entropy(logits.detach()[e : e + 1], torch.tensor([values[e]]))
            torch.testing.assert_close(found[e], expected)


def test_a_sister_task_with_more_labels_stays_finite():
    """Two classify tasks share one tensor of labels: an id that is too high for the smaller head."""
    labels = KIND.collate([4, 1], [True, True], Places([0, 1], 3))
    found = KIND.loss(torch.zeros(2, 2), labels, None)
    assert found.isfinite().all()


@pytest.mark.parametrize("name", ["classify", "apart"])
@pytest.mark.parametrize("tokenizer", ["wordpiece", "roberta"])
def test_a_model_that_knows_is_judged_perfect(name, tokenizer):
    task = task_of_kind(name, 30, metrics=("accuracy", "macro_f1", "matthews"))
    tokens = tokens_of(task, tiny_tokenizer(tokenizer))
    assert set(judged(task, perfect_logits(tokens), tokens, range(30)).values()) == {1.0}
    wrong = [-x for x in perfect_logits(tokens)]
    assert judged(task, wrong, tokens, range(30))["accuracy"] == 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.integers(1, 5))
def test_the_guess_is_the_most_frequent_label(labels, count):
    task = Task("a", size=4)
    guess = KIND.guess(labels, task, [ExampleRows.of_texts(("x",))] * count)
    assert guess.shape == (count,)
    assert all(labels.count(g) == max(map(labels.count, labels)) for g in guess.tolist())


def test_answers_have_names():
    task = Task("a", labels=("no", "yes", "maybe"))
    found = KIND.answer(np.array([0.0, 2.0, 1.0], np.float32), task, ExampleRows.of_texts(("x",)))
    expected = torch.softmax(torch.tensor([0.0, 2.0, 1.0]), 0).tolist()
    assert found["label"] == "yes"
    assert list(found["probabilities"]) == ["no", "yes", "maybe"]
    assert list(found["probabilities"].values()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"choices": ("c",)}, "choices belongs to choose, rank; its kind is 'classify'"),
        ({"marks": ({"text": 0, "start": "s", "end": "e"},)}, "marks belongs to marked"),
        ({"compare": "cosine"}, "compare belongs to similarity"),
        ({"stride": 3}, "stride belongs to span, tag"),
        ({"rank_loss": "softmax"}, "rank_loss belongs to rank"),
        ({"apart": True}, "apart needs two texts"),
        ({"apart": "yes"}, "apart: expected true or false"),
        ({"class_weights": (1, 2, 3)}, "class_weights: expected 'balanced', or 2 numbers above 0"),
        ({"class_weights": (1, 0)}, "class_weights: expected"),
        ({"class_weights": "balance"}, "class_weights: expected"),
        ({"metrics": ("question_em",)}, "needs 'group'"),
        ({"metrics": ("pearson",)}, "metric 'pearson' does not fit classify-2"),
        ({"texts": ("a", "b", "c")}, "expected one text column or two"),
        ({"range": (0, 1)}, "a range belongs to regress and similarity"),
        ({"pool": "max"}, "pool 'max'"),
        ({"layers": 4}, "layers: expected 1, 2 or 3"),
        ({"hidden": 0}, "hidden: expected a width above 0"),
    ],
)
def test_settings_it_cannot_have(settings, message):
    with pytest.raises(WeftError, match=message):
        Task("a", labels=("no", "yes"), **settings)
