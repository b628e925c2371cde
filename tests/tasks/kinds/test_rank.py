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
from weft.data.readers.example import ExampleRows
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Inputs
from weft.tasks.kinds.rank import RankPairwise

KIND = KINDS["rank"]()
relevance = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5])


def draw_values(batch, data):
    return [
        data.draw(st.lists(relevance, min_size=len(rows), max_size=len(rows))) if own else None
        for own, rows in zip(batch.mine, batch.rows, strict=True)
    ]


@given(company(1, 5), st.data(), st.sampled_from([1.0, 50.0]))
def test_the_softmax_loss(batch, data, scale):
    """−Σ q·log softmax(s) with q the share of the relevance; 0 where nothing is relevant."""
    values = draw_values(batch, data)
    logits = random_logits(len(batch.lengths), 1, scale=scale)
    found = losses_of("rank", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            shares = logits.detach()[batch.rows[e], 0].double().log_softmax(0).tolist()
            total = sum(values[e])
            expected = -sum(x / total * s for x, s in zip(values[e], shares, strict=True)) if total else 0
            assert found[e].item() == pytest.approx(expected, rel=1e-4, abs=1e-4)


@given(company(1, 5), st.data(), st.sampled_from([1.0, 50.0]))
def test_the_pairwise_loss(batch, data, scale):
    """RankNet: the mean over the pairs in order of log(1 + exp(s_j − s_i)); 0 where all are alike."""
    values = draw_values(batch, data)
    logits = random_logits(len(batch.lengths), 1, scale=scale)
    found = losses_of(RankPairwise(), values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            scores = logits.detach()[batch.rows[e], 0].double().tolist()
            each = [
                np.logaddexp(0, scores[j] - scores[i])
                for i, x in enumerate(values[e])
                for j, y in enumerate(values[e])
                if x > y
            ]
            expected = sum(each) / len(each) if each else 0
            assert found[e].item() == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_task_says_which_loss():
    softmax, pairwise = (Task("r", "rank", choices=("c",), rank_loss=loss) for loss in (None, "pairwise"))
    assert softmax.rank_loss == "softmax"
    assert type(KIND.of(softmax)) is type(KIND)
    assert isinstance(KIND.of(pairwise), RankPairwise)
    assert softmax.head != pairwise.head  # a shape has one loss


@pytest.mark.parametrize("name", ["rank", "pairwise"])
def test_a_model_that_knows_is_judged_perfect(name):
    task = task_of_kind(name, 40)
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    assert set(tokens.row_counts.tolist()) >= {1, 2, 5}
    assert judged(task, perfect_logits(tokens), tokens, range(40)) == {"mrr": 1, "ndcg": 1, "p_at_1": 1}


def test_one_number_says_the_relevant_one():
    rows = [{"text": "q", "c": ["a", "b", "c"], "label": 1}, {"text": "q", "c": ["a", "b"], "label": [0, 2]}]
    task = Task("r", "rank", choices=("c",), files={"train": rows})
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    assert [tokens.target(i) for i in range(2)] == [[0.0, 1.0, 0.0], [0.0, 2.0]]
    examples = [tokens.example(i) for i in range(2)]
    assert KIND.gold(tokens.labels, task, examples) == [[0.0, 1.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1], 1),
        (["2"], 2),
        ([[1, 0.5]], (1.0, 0.5)),
        ([[True, False]], (1.0, 0.0)),
        ([1, 0, "3"], (1.0, 0.0, 3.0)),
    ],
)
def test_labels(values, expected):
    assert KIND.parse(values, ()) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "a list of numbers, one per candidate, or the index of the relevant one"),
        ("x", "a list of numbers, one per candidate"),
        (None, "a list of numbers, one per candidate"),
        ([1, -1], "a list of numbers of 0 or more"),
        ([1, "x"], "a list of numbers of 0 or more"),
        ([1, math.inf], "a list of numbers of 0 or more"),
    ],
)
def test_labels_that_are_none(value, message):
    with pytest.raises(ValueError, match=message):
        KIND.parse([value], ())


def test_labels_that_do_not_fit():
    task, inputs = Task("r", "rank", choices=("c",)), Inputs(("q", "a", "b"))
    KIND.fits(1, task, inputs)
    KIND.fits((0.0, 2.0), task, inputs)
    with pytest.raises(ValueError, match="the index of a candidate, from 0 to 1"):
        KIND.fits(2, task, inputs)
    with pytest.raises(ValueError, match="2 numbers, one per candidate; there are 3"):
        KIND.fits((1.0, 0.0, 0.0), task, inputs)


def test_one_candidate_is_enough_and_none_is_not():
    rows = [{"text": "q", "c": ["a"], "label": [1]}]
    assert len(load_split(Task("r", "rank", choices=("c",), files={"train": rows}), "train")) == 1
    with pytest.raises(WeftError, match="expected a list of one choice or more"):
        load_split(Task("r", "rank", choices=("c",), files={"train": [{**rows[0], "c": []}]}), "train")
    # in columns too
    rows = [{"text": "q", "a": "x", "b": "", "label": [1]}]
    task = Task("r", "rank", choices=("a", "b"), files={"train": rows})
    assert load_split(task, "train").texts == [("q", "x")]
    with pytest.raises(WeftError, match="expected one choice or more"):
        load_split(Task("r", "rank", choices=("a", "b"), files={"train": [{**rows[0], "a": None}]}), "train")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"choices": ()}, "rank needs 'choices'"),
        ({"rank_loss": "pairwize"}, "rank_loss 'pairwize'; did you mean 'pairwise'"),
        ({"size": 3}, "rank has neither labels nor size"),
        ({"metrics": ("accuracy",)}, "metric 'accuracy' does not fit rank-1"),
    ],
)
def test_settings_it_cannot_have(settings, message):
    with pytest.raises(WeftError, match=message):
        Task("r", "rank", **{"choices": ("c",), **settings})


def test_guess_and_answer():
    task = Task("r", "rank", choices=("c",))
    examples = [ExampleRows.of_texts(("q", "a", "b", "c"))]
    assert KIND.guess([], task, examples) == [[0.0, -1.0, -2.0]]
    found = KIND.answer(np.array([0.5, 2.0, 0.5], np.float32), task, examples[0])
    assert found == {"order": [1, 0, 2], "scores": [0.5, 2.0, 0.5]}
