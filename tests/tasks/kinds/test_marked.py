from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.every_kind import MARKS, perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import company, losses_of, random_logits
from tests.support.more import examples
from tests.support.tiny_tokenizers import TOKENIZERS, tiny_tokenizer
from weft.data import load_split
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.suites import load_suite
from weft.tasks import Task

WORDS = ("the", "cat's", "hat,", "antidisestablishmentarianism", "Zürich", "雨が降る", "🙂", "1987")
CHARACTERS = ({"text": 0, "start": "s1", "end": "e1"}, {"text": 1, "start": "s2", "end": "e2"})


@given(company(), st.data())
def test_the_loss_is_that_of_classify(batch, data):
    values = [data.draw(st.integers(0, 1)) if own else None for own in batch.mine]
    logits = random_logits(len(values), 2)
    found = losses_of("marked", values, batch, logits)
    shares = logits.detach().softmax(-1)
    for e, own in enumerate(batch.mine):
        if own:
            assert found[e].item() == pytest.approx(-shares[e, values[e]].log().item(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_marks_are_at_the_tokens_of_their_words(name, data):
    """By characters: the tokens that touch a mark spell it, no more than the words it is in."""
    tokenizer = tiny_tokenizer(name)
    words = [data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7)) for _ in range(2)]
    which = [data.draw(st.integers(0, len(own) - 1)) for own in words]
    texts = [" ".join(own) for own in words]
    starts = [len(" ".join([*own[:k], ""])) for own, k in zip(words, which, strict=True)]
    ends = [start + len(own[k]) for start, own, k in zip(starts, words, which, strict=True)]
    row = dict(zip(("a", "b", "s1", "s2", "e1", "e2"), (*texts, *starts, *ends), strict=True))
    task = Task(
        "m", "marked", size=2, texts=("a", "b"), marks=CHARACTERS, files={"train": [{**row, "label": 0}]}
    )
    tokens = tokens_of(task, tokenizer, 256)
    encoding = tokenizer.backend_tokenizer.encode(*texts)
    marks = tokens.marks(0).tolist()
    assert tokens.ids(0).tolist() == encoding.ids
    for number in (0, 1):
        spelt = set()
        for mark, (start, end), sequence in zip(marks, encoding.offsets, encoding.sequence_ids, strict=True):
            here = range(start, end) if sequence == number else range(0)
            touches = any(starts[number] <= k < ends[number] for k in here)
            assert bool(mark & (1 << number)) == touches
            spelt |= set(here) if touches else set()
        assert spelt - {starts[number] - 1} == set(range(starts[number], ends[number]))


def test_marks_may_overlap_in_one_text():
    marks = ({"text": 0, "start": "s1", "end": "e1"}, {"text": 0, "start": "s2", "end": "e2"})
    rows = [{"text": "the red cat sees", "s1": 0, "e1": 11, "s2": 8, "e2": 16, "label": 1}]
    task = Task("m", "marked", size=2, marks=marks, files={"train": rows})
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"), 24)
    found = dict(
        zip(
            tiny_tokenizer("wordpiece").convert_ids_to_tokens(tokens.ids(0)),
            tokens.marks(0).tolist(),
            strict=True,
        )
    )
    assert found == {"[CLS]": 0, "the": 1, "red": 1, "cat": 3, "sees": 2, "[SEP]": 0}


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_mark_that_is_cut_off_is_nowhere(side):
    tokenizer = tiny_tokenizer("wordpiece")
    text = "cat " + "the " * 30 + "dog"
    marks = ({"text": 0, "start": "s1", "end": "e1"}, {"text": 0, "start": "s2", "end": "e2"})
    rows = [{"text": text, "s1": 0, "e1": 3, "s2": len(text) - 3, "e2": len(text), "label": 1}]
    split = load_split(Task("m", "marked", size=2, marks=marks, files={"train": rows}), "train")
    before = tokenizer.truncation_side
    tokenizer.truncation_side = side
    try:
        tokens = in_memory(split, tokenizer, 8)
    finally:
        tokenizer.truncation_side = before
    assert tokens.marks(0).tolist() == (
        [0, 1, 0, 0, 0, 0, 0, 0] if side == "right" else [0, 0, 0, 0, 0, 0, 2, 0]
    )
    assert tokens.full_lengths[0] == 34


def test_a_model_that_knows_is_judged_perfect():
    task = task_of_kind("marked", 30)
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    assert judged(task, perfect_logits(tokens), tokens, range(30)) == {"accuracy": 1}


def test_words_and_characters_say_the_same():
    """Mark one by characters, mark two by its word's number and phrase: the tokens of either."""
    tokens = tokens_of(task_of_kind("marked", 30), tiny_tokenizer("wordpiece"), 60)
    for i in range(30):
        row = task_of_kind("marked", 30).files["train"][i]
        ids, marks = tokens.ids(i), tokens.marks(i)
        for bit, text in ((1, row["a"][row["s1"] : row["e1"]]), (2, row["p2"])):
            expected = (
                tiny_tokenizer("wordpiece").backend_tokenizer.encode(text, add_special_tokens=False).ids
            )
            assert ids[(marks & bit) > 0].tolist() == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s1": -1}, "'?s1, e1'?.*expected two positions in the text of 7 characters, start before end"),
        ({"s1": 5, "e1": 5}, "expected two positions in the text"),
        ({"e1": 99}, "expected two positions in the text"),
        ({"s1": "x"}, "expected two positions in the text"),
        ({"s1": 3, "e1": 4}, "expected a span that holds more than white space"),
        ({"w2": 2}, "expected the number of a word, from 0 to 1"),
        ({"w2": None}, "expected the number of a word"),
        ({"p2": " "}, "expected the marked words as a text"),
        ({"p2": 4}, "expected the marked words as a text"),
        ({"a": ""}, "expected a text that is not empty"),
    ],
)
def test_places_that_are_none(change, message):
    row = {"a": "the cat", "b": "a dog", "s1": 4, "e1": 7, "w2": 1, "p2": "dog", "label": 1}
    task = Task("m", "marked", size=2, texts=("a", "b"), marks=MARKS, files={"train": [{**row, **change}]})
    with pytest.raises(WeftError, match=message):
        load_split(task, "train")


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ((), "marked compares two marks; found 0"),
        (CHARACTERS[:1], "marked compares two marks; found 1"),
        ((CHARACTERS[0], {"text": 2, "start": "s", "end": "e"}), "expected a text from 0 to 1"),
        ((CHARACTERS[0], {"text": 1, "start": "s"}), "expected {text: 0, start: COLUMN, end: COLUMN}"),
        ((CHARACTERS[0], {"start": "s", "phrase": "e"}), "expected {text: 0, start: COLUMN"),
        ((CHARACTERS[0], {"start": "s", "end": ""}), "names of two columns"),
        ((CHARACTERS[0], {"start": "s", "end": 4}), "names of two columns"),
        ((CHARACTERS[0], "start"), "found 'start'"),
    ],
)
def test_marks_that_cannot_be(marks, message):
    with pytest.raises(WeftError, match=message):
        Task("m", "marked", size=2, texts=("a", "b"), marks=marks)


@pytest.mark.parametrize("name", ["wic", "wsc"])
def test_real_rows(name, shared, tokenizer):
    """Every mark of the real files is where its word is; a model that knows is judged perfect."""
    (task,) = load_suite("superglue", shared, [name])
    split = load_split(task, "train")
    tokens = in_memory(split, tokenizer, 256)
    assert judged(task, perfect_logits(tokens), tokens, range(len(tokens))) == {"accuracy": 1}
    same = []
    for i in range(0, len(tokens), 7):
        marks = np.asarray(tokens.marks(i))
        for number, (text, start, end) in enumerate(split.marks[i]):
            spelt = tokenizer.decode(tokens.ids(i)[(marks & (1 << number)) > 0])
            alone = tokenizer(split.texts[i][text][start:end], add_special_tokens=False)["input_ids"]
            expected = tokenizer.decode(alone).replace(" ", "")
            assert expected in spelt.replace(" ", "")  # "does" is in the token "doesn" of "doesn't"
            same.append(expected == spelt.replace(" ", ""))
    assert np.mean(same) > 0.98
