from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.every_kind import perfect_logits, rows_of_kind, task_of_kind, tokens_of
from tests.support.kind_batches import LENGTH, company, losses_of, random_logits
from tests.support.more import examples
from tests.support.tiny_tokenizers import TOKENIZERS, tiny_tokenizer
from weft.data import load_split
from weft.data.splits.subset import rows_of
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.suites import load_suite
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Inputs
from weft.tasks.kinds.span import LONGEST, best_span, token_places

KIND = KINDS["span"]()
WORDS = (
    "the",
    "cat's",
    "hat,",
    "antidisestablishmentarianism",
    "Zürich",
    "雨が降る",
    "🙂",
    "1987",
    "e\u0301",
)


@given(company(), st.data())
def test_the_loss_is_that_of_start_and_end_in_each_window(batch, data):
    """By hand: over the row's own tokens alone, the mean over windows."""
    values = [None] * len(batch.mine)
    for e, own in enumerate(batch.mine):
        if own:
            places = [st.integers(0, batch.lengths[r] - 1) for r in batch.rows[e]]
            values[e] = [(data.draw(place), data.draw(place)) for place in places]
    logits = random_logits(len(batch.lengths), LENGTH, 2)
    found = losses_of("span", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            each = []
            for r, (first, last) in zip(batch.rows[e], values[e], strict=True):
                shares = logits.detach()[r, : batch.lengths[r]].double().log_softmax(0)
                each.append(-(shares[first, 0] + shares[last, 1]) / 2)
            assert found[e].item() == pytest.approx(float(sum(each) / len(each)), rel=1e-4, abs=1e-5)


def context_row(words, first, last, spaces):
    context = "".join(space + word for space, word in zip(spaces, words, strict=True))
    starts, at = [], 0
    for space, word in zip(spaces, words, strict=True):
        starts.append(at + len(space))
        at += len(space) + len(word)
    answer = context[starts[first] : starts[last] + len(words[last])]
    return context, answer, starts[first]


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_learnt_and_answered_it_is_the_gold_text(name, data):
    """Any words of the context, in windows of any size, wherever a window holds them whole."""
    tokenizer = tiny_tokenizer(name)
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30))
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(first + 3, len(words) - 1)))
    spaces = [data.draw(st.sampled_from([" ", " ", "  ", "\n"])) for _ in words]
    context, answer, start = context_row(words, first, last, spaces)
    max_length = data.draw(st.integers(10, 90))
    row = {"q": "who sees it?", "c": context, "answers": {"text": [answer], "answer_start": [start]}}
    task = Task("s", "span", texts=("q", "c"), label="answers", files={"train": [row]})
    tokens = tokens_of(task, tokenizer, max_length)
    example = tokens.example(0)
    target = tokens.target(0)
    assert len(target) == tokens.row_counts[0]
    places = token_places(example, start, start + len(answer))
    whole = tokenizer.backend_tokenizer.encode(context, add_special_tokens=False)
    touched = [
        k
        for k, (a, b) in enumerate(whole.offsets)
        if b > start and a < start + len(answer) and context[a:b].strip()
    ]
    if tokens.row_counts[0] == 1:
        assert places != [None]
    (logits,) = perfect_logits(tokens)
    for place, own, row_target in zip(places, example.channel("starts"), target, strict=True):
        # (0, 0), the first token of the row, stands for "not here"
        assert row_target == (place or (0, 0))
        assert own[0] == -1
        if place is not None:
            spaces_alone = sum(not context[a:b].strip() for a, b in whole.offsets)
            assert place[1] - place[0] + 1 >= len(touched) - spaces_alone
    if any(places) and len(touched) <= LONGEST - 2:
        (found,) = KIND.decode([logits], task, [example])
        assert found == answer.strip()
        told = KIND.answer(logits, task, example)
        assert context[told["start"] : told["end"]] == told["answer"] == found
        assert told["score"] == pytest.approx(20)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_model_that_knows_is_judged_perfect(name):
    task = task_of_kind("span", 30, stride=14)
    tokens = tokens_of(task, tiny_tokenizer(name), 48)
    assert tokens.row_counts.max() > 1
    assert judged(task, perfect_logits(tokens), tokens, range(30)) == {"token_f1": 1, "exact_match": 1}


@settings(max_examples=examples(30))
@given(st.integers(0, 999), st.integers(10, 60))
def test_the_best_piece_is_that_of_a_plain_search(seed, max_length):
    rows = rows_of_kind("span", 1, seed)
    task = Task("s", "span", texts=("q", "c"), label="answers", files={"train": rows})
    tokens = tokens_of(task, tiny_tokenizer("roberta"), max_length)
    example = tokens.example(0)
    total = int(tokens.row_lengths.sum())
    logits = np.random.default_rng(seed).normal(size=(total, 2)).astype(np.float32)
    best, where, first = -np.inf, None, 0
    for starts, ends in zip(example.channel("starts"), example.channel("ends"), strict=True):
        inside = [k for k, s in enumerate(starts) if s >= 0]
        for n, i in enumerate(inside):
            for j in inside[n : n + LONGEST]:
                score = logits[first + i, 0] + logits[first + j, 1]
                if score > best:
                    best, where = score, (int(starts[i]), int(ends[j]))
        first += len(starts)
    found = best_span(logits, example)
    assert not any(ord(c) > 127 for c in rows[0]["c"])  # no accents that go with the letter before them
    assert (found.start, found.end) == where
    assert found.score == pytest.approx(float(best))


def test_an_answer_is_never_longer_than_it_may_be():
    context = " ".join(f"w{k}" for k in range(99))
    row = {"q": "q", "c": context, "answers": {"text": [context], "answer_start": [0]}}
    task = Task("s", "span", texts=("q", "c"), label="answers", files={"train": [row]})
    tokens = tokens_of(task, tiny_tokenizer("xlm-roberta"), 1000)
    inside = np.flatnonzero(tokens.example(0).channel("starts")[0] >= 0)
    for length, given_ in ((LONGEST, True), (LONGEST + 1, False)):
        logits = np.zeros((len(tokens.ids(0)), 2), np.float32)
        logits[inside[5], 0] = logits[inside[5 + length - 1], 1] = 10
        found = best_span(logits, tokens.example(0))
        assert (found.score == 20) is given_
        starts, ends = (tokens.example(0).channel(name)[0] for name in ("starts", "ends"))
        assert 0 < ((starts >= found.start) & (ends <= found.end)).sum() <= LONGEST


def test_the_first_answer_with_a_place_is_learnt_and_all_are_judged():
    answers = {"text": ["a cat", "The cat", "cat"], "answer_start": [-1, 0, 4]}
    row = {"q": "who?", "c": "The cat sees", "answers": answers}
    task = Task("s", "span", texts=("q", "c"), label="answers", files={"train": [row]})
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"), 24)
    assert tokens.labels == [[("a cat", -1), ("The cat", 0), ("cat", 4)]]
    assert KIND.decode(perfect_logits(tokens), task, [tokens.example(0)]) == ["The cat"]
    # what is there to judge by alone is what is judged by
    assert KIND.gold(tokens.labels, task, []) == [["a cat"]]
    assert KIND.gold([[("x", 1), ("y", 5)]], task, []) == [["x", "y"]]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            {"text": ["cat"], "answer_start": [3]},
            "the answer 'cat' at character 3, where the context has ' ca'",
        ),
        ({"text": ["cat"], "answer_start": [99]}, "a position inside the context of 12 characters"),
        ({"text": ["cat"], "answer_start": [-2]}, "a position inside the context of 12 characters"),
        ({"text": ["sees it"], "answer_start": [8]}, "a position inside the context of 12 characters"),
        ({"text": ["cat"], "answer_start": [-1]}, "at least one answer with its position in the context"),
        ({"text": [], "answer_start": []}, "one answer or more"),
        ({"text": ["cat"], "answer_start": []}, 'answers as {"text"'),
        ({"text": [""], "answer_start": [4]}, 'answers as {"text"'),
        ({"text": ["cat"], "answer_start": ["x"]}, 'answers as {"text"'),
        ({"text": "cat", "answer_start": 4}, 'answers as {"text"'),
        ("cat", 'answers as {"text"'),
        (["cat"], 'answers as {"text"'),
    ],
)
def test_answers_that_are_none(answers, message):
    row = {"q": "who?", "c": "The cat sees", "answers": answers}
    task = Task("s", "span", texts=("q", "c"), label="answers", files={"train": [row]})
    with pytest.raises(WeftError, match=message):
        load_split(task, "train")


def test_forms_that_fit():
    task = Task("s", "span", texts=("q", "c"))
    for start in (4, "4", 4.0):
        label = KIND.parse([{"text": ("cat",), "answer_start": (start,), "more": 1}], ())
        assert label == [("cat", 4)]
        KIND.fits(label, task, Inputs(("who?", "The cat")))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"labels": ("a", "b")}, "span has neither labels nor size"),
        ({"size": 3}, "span has neither labels nor size"),
        ({"texts": ("c",)}, "expected 2 text columns"),
        ({"stride": -1}, "stride: expected a number of tokens, 0 or more"),
        ({"stride": True}, "stride: expected"),
        ({"metrics": ("accuracy",)}, "metric 'accuracy' does not fit span-2"),
        ({"apart": True}, "apart belongs to"),
    ],
)
def test_settings_it_cannot_have(settings_, message):
    with pytest.raises(WeftError, match=message):
        Task("s", "span", **{"texts": ("q", "c"), **settings_})


def test_padding_has_no_share():
    """Longer rows beside it change nothing."""
    from weft.core.layout import Layout

    logits = random_logits(1, 4, 2).detach()
    wide = torch.cat([logits, torch.full((1, 5, 2), 50.0)], 1)
    labels = torch.tensor([[1, 2]])
    one = KIND.loss(logits, labels, Layout(None, 1, torch.ones(1, 4, dtype=torch.bool)))
    two = KIND.loss(wide, labels, Layout(None, 1, torch.arange(9)[None] < 4))
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(one, KIND.loss(logits, labels, Layout(None, 1)))


def test_real_rows(shared, tokenizer):
    (task,) = load_suite("squad", shared)
    whole = load_split(task, "validation")
    split = rows_of(whole, range(0, len(whole), 40))
    tokens = in_memory(split, tokenizer, 128)
    assert tokens.row_counts.max() > 2
    found = judged(task, perfect_logits(tokens), tokens, range(len(split)))
    # a few answers are part of a token ("$3" of "$3bn"), or of more than 30 tokens
    assert found["exact_match"] > 0.985
    assert found["token_f1"] > 0.99
