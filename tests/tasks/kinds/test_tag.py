from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.every_kind import TAGS, perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import LENGTH, company, losses_of, random_logits
from tests.support.more import examples
from tests.support.tiny_tokenizers import TOKENIZERS, tiny_tokenizer
from weft.data import load_split
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.suites import load_suite
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.collate import Places
from weft.tasks.kinds.kind import Inputs
from weft.tasks.kinds.tag import NOT_A_WORD, is_bio

KIND = KINDS["tag"]()
WORDS = ("the", "cat's", "hat,", "antidisestablishmentarianism", "Zürich", "雨が降る", "🙂", "1987", "[SEP]")


@given(company(), st.data())
def test_the_loss_is_the_mean_over_the_words(batch, data):
    """By hand; rows without a word of their own, and examples without any, among them."""
    values = [None] * len(batch.mine)
    tag = st.sampled_from([NOT_A_WORD, NOT_A_WORD, 0, 1, 2])
    for e, own in enumerate(batch.mine):
        if own:
            values[e] = [
                data.draw(st.lists(tag, min_size=batch.lengths[r], max_size=batch.lengths[r]))
                for r in batch.rows[e]
            ]
    logits = random_logits(len(batch.lengths), LENGTH, 3)
    found = losses_of("tag", values, batch, logits)
    shares = logits.detach().double().log_softmax(-1)
    for e, own in enumerate(batch.mine):
        if own:
            each = [
                -shares[r, k, t].item()
                for r, row in zip(batch.rows[e], values[e], strict=True)
                for k, t in enumerate(row)
                if t != NOT_A_WORD
            ]
            expected = sum(each) / len(each) if each else 0.0
            assert found[e].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_a_sister_task_with_more_tags_stays_finite():
    from weft.core.layout import Layout

    labels = KIND.collate([[[7, 1]], [[1, NOT_A_WORD]]], [True, True], Places([0, 1], 2))
    found = KIND.loss(random_logits(2, 2, 3), labels, Layout(None, 2))
    assert found.isfinite().all()


def test_targets_may_be_collated_without_the_rows_length():
    """Rows of strangers may be longer than those of this kind."""
    from weft.core.layout import Layout

    logits = random_logits(1, 5, 3)
    short = KIND.loss(logits, KIND.collate([[[NOT_A_WORD, 1]]], [True], Places([0], 0)), Layout(None, 1))
    whole = KIND.loss(logits, KIND.collate([[[NOT_A_WORD, 1]]], [True], Places([0], 5)), Layout(None, 1))
    assert short.item() == whole.item()


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_learnt_and_answered_it_is_the_gold_tags(name, data):
    """Sentences of any length, long words too, in windows of any size."""
    sentences = data.draw(
        st.lists(
            st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(TAGS)), min_size=1, max_size=40),
            min_size=1,
            max_size=3,
        )
    )
    rows = [{"words": [w for w, _ in own], "tags": [t for _, t in own]} for own in sentences]
    task = Task("t", "tag", labels=TAGS, texts=("words",), label="tags", files={"train": rows})
    tokens = tokens_of(task, tiny_tokenizer(name), data.draw(st.integers(10, 50)))
    examples = [tokens.example(i) for i in range(len(rows))]
    found = KIND.decode(perfect_logits(tokens), task, examples)
    assert found == [row["tags"] for row in rows]
    for i, row in enumerate(rows):
        learnt = [t for own in tokens.target(i) for t in own if t != NOT_A_WORD]
        assert sorted(learnt) == sorted(TAGS.index(t) for t in row["tags"])  # every word once


def test_a_word_without_a_token_is_no_entity(tokenizer):
    rows = [{"words": ["the", "\u200b", "cat"], "tags": ["O", "B-x", "B-y"]}]
    task = Task("t", "tag", labels=TAGS, texts=("words",), label="tags", files={"train": rows})
    tokens = tokens_of(task, tokenizer, 24)
    assert KIND.decode(perfect_logits(tokens), task, [tokens.example(0)]) == [["O", "O", "B-y"]]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_model_that_knows_is_judged_perfect(name):
    task = task_of_kind("tag", 30, metrics=("entity_f1", "surface_f1", "token_accuracy"))
    tokens = tokens_of(task, tiny_tokenizer(name), 20)
    assert tokens.row_counts.max() > 1
    assert set(judged(task, perfect_logits(tokens), tokens, range(30)).values()) == {1}


def test_answers_are_repaired_and_say_the_entities():
    rows = [{"words": ["the", "old", "cat", "sees", "Zürich"], "tags": ["O", "I-x", "I-x", "O", "B-y"]}]
    task = Task("t", "tag", labels=TAGS, texts=("words",), label="tags", files={"train": rows})
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"), 24)
    (logits,) = perfect_logits(tokens)
    assert KIND.answer(logits, task, tokens.example(0)) == {
        "tags": ["O", "B-x", "I-x", "O", "B-y"],
        "entities": [
            {"type": "x", "text": "old cat", "first": 1, "last": 2},
            {"type": "y", "text": "Zürich", "first": 4, "last": 4},
        ],
    }
    plain = Task("t", "tag", labels=("N", "V"), texts=("words",))
    example = tokens.example(0)
    assert set(KIND.answer(np.zeros((len(logits), 2), np.float32), plain, example)) == {"tags"}


def test_tags_that_are_no_entities_are_judged_word_by_word():
    assert Task("t", "tag", labels=("N", "V"), texts=("w",)).metrics == ("token_accuracy",)
    assert Task("t", "tag", size=3, texts=("w",)).metrics == ("token_accuracy",)
    assert Task("t", "tag", labels=TAGS, texts=("w",)).metrics == ("entity_f1", "surface_f1")
    with pytest.raises(
        WeftError,
        match=r"metric 'entity_f1' does not fit tag-2: it compares entities \(labels such as O, B-person, "
        r"I-person\), and the task's answers are tags; known: token_accuracy",
    ):
        Task("t", "tag", labels=("N", "V"), texts=("w",), metrics=("entity_f1",))
    assert is_bio(("B-x", "O"))
    assert not is_bio(("B-x", "I-x"))
    assert not is_bio(("O", "B-"))


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        (["the", "cat"], ["O"], "2 tags, one per word; there are 1"),
        (["the", "cat"], ["O", "B-z"], "one of O, B-x, I-x, B-y, I-y, or an id from 0 to 4"),
        (["the", "cat"], [0, 5], "one of O, B-x"),
        (["the", "cat"], 3, "a list of tags, one per word"),
        ([], [], "a list of words, one or more"),
        ("  ", "O", "a list of words, one or more"),
        (7, ["O"], "a list of words, one or more"),
        (["the", ""], ["O", "O"], "a list of words; word 2 is ''"),
        (["the", None], ["O", "O"], "word 2 is None"),
        (["the", "\ud83d"], ["O", "O"], "word 2 has half of a surrogate pair"),
    ],
)
def test_rows_that_are_none(words, tags, message):
    rows = [{"words": words, "tags": tags}]
    with pytest.raises(WeftError, match=message):
        load_split(
            Task("t", "tag", labels=TAGS, texts=("words",), label="tags", files={"train": rows}), "train"
        )


def test_forms_that_fit():
    task = Task("t", "tag", labels=TAGS, texts=("w",))
    for given_ in (["O", "B-x"], [0, 1], ("0", "1"), "O B-x"):
        label = KIND.parse([given_], TAGS)
        assert label == [0, 1]
        KIND.fits(label, task, Inputs(("the", "cat")))
    rows = [{"w": "the cat", "label": ["O", "B-x"]}, {"w": ("the", "cat"), "label": [0, 1]}]
    split = load_split(Task("t", "tag", labels=TAGS, texts=("w",), files={"train": rows}), "train")
    assert split.texts == [("the", "cat")] * 2
    assert split.labels == [[0, 1]] * 2


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=6))
def test_the_guess_is_the_most_frequent_tag(labels):
    from weft.data.readers.example import ExampleRows

    task = Task("t", "tag", labels=TAGS, texts=("w",))
    every = [tag for own in labels for tag in own]
    guess = KIND.guess(labels, task, [ExampleRows.of_texts(("a", "b", "c"))])
    assert len(guess) == 1
    assert len(set(guess[0])) == 1
    assert every.count(TAGS.index(guess[0][0])) == max(map(every.count, every))
    assert len(guess[0]) == 3


@pytest.mark.parametrize("max_length", [20, 128])
def test_real_rows(max_length, shared, tokenizer):
    (task,) = load_suite("wnut17", shared)
    split = load_split(task, "validation")
    tokens = in_memory(split, tokenizer, max_length)
    assert (tokens.row_counts.max() > 1) == (max_length == 20)
    found = judged(task, perfect_logits(tokens), tokens, range(len(split)))
    assert found == {"entity_f1": pytest.approx(1, abs=0.003), "surface_f1": pytest.approx(1, abs=0.003)}
