from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_kind import perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import company, losses_of, random_logits
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data import load_split
from weft.data.readers.example import ExampleRows
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.suites import load_suite
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.collate import Places
from weft.tasks.kinds.kind import Inputs

KIND = KINDS["choose"]()


@given(company(2, 6), st.data(), st.sampled_from([1.0, 30.0, 300.0]))
def test_the_loss_is_the_softmax_over_an_examples_rows(batch, data, scale):
    """−log of the right ones' share; how far apart scores are is no matter."""
    values = [None] * len(batch.mine)
    for e, own in enumerate(batch.mine):
        if own:
            right = data.draw(st.sets(st.integers(0, len(batch.rows[e]) - 1), min_size=1))
            values[e] = [float(k in right) for k in range(len(batch.rows[e]))]
    logits = random_logits(len(batch.lengths), 1, scale=scale)
    found = losses_of("choose", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            shares = logits.detach()[batch.rows[e], 0].double().log_softmax(0)
            right = [k for k, x in enumerate(values[e]) if x]
            assert found[e].item() == pytest.approx(-shares[right].logsumexp(0).item(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["choose", "put_in"])
@pytest.mark.parametrize("tokenizer", ["wordpiece", "xlm-roberta"])
def test_a_model_that_knows_is_judged_perfect(name, tokenizer):
    task = task_of_kind(name, 40, metrics=("accuracy", "exact_match", "token_f1"))
    tokens = tokens_of(task, tiny_tokenizer(tokenizer))
    assert set(tokens.row_counts.tolist()) >= {3, 4, 5}
    found = judged(task, perfect_logits(tokens), tokens, range(40))
    assert found["accuracy"] == 1
    if name == "put_in":
        assert set(found.values()) == {1}
    else:  # of which one choice alone is right
        wrong = [-x for x in perfect_logits(tokens)]
        assert judged(task, wrong, tokens, range(40))["accuracy"] == 0


def test_one_text_and_a_choice_are_a_pair(tokenizer):
    rows = [{"p": "It rained.", "c1": "The street is wet.", "c2": "He won.", "label": 1}]
    task = Task("c", "choose", texts=("p",), choices=("c1", "c2"), files={"train": rows})
    tokens = tokens_of(task, tokenizer, 32)
    expected = tokenizer(["It rained."] * 2, ["The street is wet.", "He won."])
    assert [tokens.ids(r).tolist() for r in tokens.rows_of(0)] == expected["input_ids"]
    assert [tokens.types(r).tolist() for r in tokens.rows_of(0)] == expected["token_type_ids"]
    assert tokens.split.texts == [("It rained.", "The street is wet.", "He won.")]
    assert tokens.labels == [(1,)]
    assert tokens.target(0) == [0.0, 1.0]


def test_two_texts_take_the_choice_in():
    task = Task("c", "choose", texts=("p", "q"), choices=("e",))
    assert KIND.rows(task, ("It rained.", "so @placeholder is wet, and @placeholder shines", "it", "he")) == [
        ("It rained.", "so it is wet, and it shines"),
        ("It rained.", "so he is wet, and he shines"),
    ]
    assert KIND.rows(task, ("A man", "He then", "sits.", "runs.")) == [
        ("A man", "He then sits."),
        ("A man", "He then runs."),
    ]


def test_an_example_may_have_fewer_choices_than_there_are_columns():
    rows = [
        {"q": "who?", "a": "the cat", "b": "a dog", "c": "", "d": None, "label": 1},
        {"q": "who?", "a": "the cat", "b": "a dog", "c": "birds", "d": "he", "label": 3},
    ]
    task = Task("c", "choose", texts=("q",), choices=("a", "b", "c", "d"), files={"train": rows})
    split = load_split(task, "train")
    assert [len(texts) - 1 for texts in split.texts] == [2, 4]
    assert split.labels == [(1,), (3,)]


@pytest.mark.parametrize(
    ("value", "expected"), [(1, (1,)), ("1", (1,)), (1.0, (1,)), ([2, 0], (0, 2)), ((1, 1), (1,))]
)
def test_labels(value, expected):
    assert KIND.parse([value], ()) == expected
    KIND.fits(expected, Task("c", "choose", choices=("c",)), Inputs(("q", "a", "b", "c")))


@pytest.mark.parametrize("wrong", [-1, "x", None, [], [0, -1], 0.5, True, {"a": 1}])
def test_labels_that_are_none(wrong):
    with pytest.raises(
        ValueError, match="the index of the right choice, counted from 0, or a list of indices"
    ):
        KIND.parse([wrong], ())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"label": 2}, "the index of a choice, from 0 to 1: the example has 2"),
        ({"label": [0, 2]}, "the index of a choice, from 0 to 1"),
        ({"c": ["a"]}, "expected a list of two choices or more"),
        ({"c": "a, b"}, "expected a list of two choices or more"),
        ({"c": ["a", ""]}, "expected a text that is not empty"),
        ({"c": ["a", 3]}, "expected a string; found int"),
        ({"text": None}, "the text is missing"),
    ],
)
def test_rows_that_are_none(row, message):
    rows = [{"text": "who?", "c": ["a", "b"], "label": 1, **row}]
    with pytest.raises(WeftError, match=message):
        load_split(Task("c", "choose", choices=("c",), files={"train": rows}), "train")


def test_columns_with_too_few_choices():
    rows = [{"text": "who?", "a": "the cat", "b": " ", "label": 0}]
    with pytest.raises(WeftError, match="expected two choices or more"):
        load_split(Task("c", "choose", choices=("a", "b"), files={"train": rows}), "train")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"choices": ()}, "choose needs 'choices'"),
        ({"size": 2}, "choose has neither labels nor size"),
        ({"labels": ("a", "b")}, "choose has neither labels nor size"),
        ({"metrics": ("f1",)}, "metric 'f1' does not fit choose-1"),
        ({"class_weights": "balanced"}, "class_weights belongs to classify, marked"),
    ],
)
def test_settings_it_cannot_have(settings, message):
    with pytest.raises(WeftError, match=message):
        Task("c", "choose", **{"choices": ("c",), **settings})


def test_a_target_for_every_row():
    with pytest.raises(WeftError, match="example 0: 1 targets for 2 rows; expected one per row"):
        KIND.collate([[1.0]], [True], Places([0, 0], 3))


def test_guess_and_answer():
    task = Task("c", "choose", choices=("c",))
    examples = [ExampleRows.of_texts(("q", "a", "b", "c")), ExampleRows.of_texts(("q", "x", "y"))]
    assert KIND.guess([(2,), (2, 0), (1,)], task, examples) == [(2, "c"), (1, "y")]
    found = KIND.answer(np.array([0.0, 2.0, 1.0], np.float32), task, examples[0])
    assert (found["choice"], found["text"]) == (1, "b")
    assert sum(found["probabilities"]) == pytest.approx(1)
    assert np.argsort(found["probabilities"]).tolist() == [0, 2, 1]


def test_any_right_choice_is_right():
    task = Task("c", "choose", choices=("c",), metrics=("accuracy", "exact_match"))
    examples = [ExampleRows.of_texts(("q", "Bob", "Eve", "bob."))] * 2
    gold = KIND.gold([(1, 2), (0,)], task, examples)
    found = KIND.decode([np.array(x, np.float32) for x in ([0, 0, 9], [0, 0, 9])], task, examples)
    # the second is another choice with the right text
    assert KIND.score(task.metrics, gold, found, None) == {"accuracy": 0.5, "exact_match": 1.0}


def test_real_rows(shared, tokenizer):
    (task,) = load_suite("superglue", shared, ["copa"])
    tokens = in_memory(load_split(task, "train"), tokenizer, 64)
    assert (tokens.row_counts == 2).all()
    assert judged(task, perfect_logits(tokens), tokens, range(len(tokens))) == {"accuracy": 1}
    premise, *choices = tokens.split.texts[0]
    assert premise.endswith(("What was the cause?", "What was the effect?"))
    assert [tokens.ids(r).tolist() for r in tokens.rows_of(0)] == tokenizer([premise] * 2, choices)[
        "input_ids"
    ]
