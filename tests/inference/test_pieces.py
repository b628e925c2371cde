"""Documents of many windows, and questions of many choices: bounded passes, and the same answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.more import examples
from tests.support.near import assert_near
from tests.support.tiny import build, scramble
from tests.support.tiny_run import WORDS
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.inference.batches import POSITIONS, ROWS
from weft.inference.examples import Examples
from weft.inference.pieces import in_pieces
from weft.inference.runner import answers

LONG = 6000  # words: more windows than a batch has rows


def model_of(folder, names=("tag", "span", "choose", "classify"), method="lora"):
    tasks = [task_of_kind(name) for name in names]
    return scramble(weft.Model(folder, tasks, method, max_length=24)).eval()


def count_rows(model):
    """The rows and the token positions of each pass through the first block."""
    seen = []
    attention = model.encoder.encoder.layer[0].attention
    inner = attention.forward

    def forward(hidden, *args, **kwargs):
        seen.append((hidden.size(0), hidden.size(0) * hidden.size(1)))
        return inner(hidden, *args, **kwargs)

    attention.forward = forward
    return seen


def words(count, seed=0):
    draw = np.random.default_rng(seed)
    return [WORDS[i] for i in draw.integers(len(WORDS), size=count)]


REQUESTS = {
    "tag": words(LONG),
    "span": ("the cat", " ".join(words(LONG, 1))),
    "choose": ("the cat sees", [" ".join(words(3, seed)) for seed in range(900)]),
}


@pytest.mark.each_value
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("batch_size", [None, 7])
def test_passes_are_bounded_and_answers_the_same(folder, name, batch_size):
    model = model_of(folder)
    seen = count_rows(model)
    answer = model.predict([(name, REQUESTS[name])], batch_size=batch_size)[0]
    rows, positions = zip(*seen, strict=True)
    assert max(rows) <= (batch_size or POSITIONS)
    assert max(positions) <= POSITIONS < sum(positions)
    before = len(seen)
    whole = model.predict([(name, REQUESTS[name])], batch_size=10_000)[0]
    assert len(seen) == before + 1  # all rows in one pass
    assert_near(answer, whole)


@pytest.mark.parametrize("method", ["lora", "frozen", {"use": "lora", "rank": 2, "layers": "1"}, "separate"])
def test_all_tasks_of_a_long_text(folder, method):
    """Whether tasks share all blocks, some or none."""
    model = model_of(folder, NAMES, method)
    text = " ".join(words(LONG))
    answer = model.predict_all([text, "the cat"])
    assert set(answer[0]) == {"classify", "two", "multilabel", "tag"}
    assert len(answer[0]["tag"]["tags"]) == LONG
    for name, of_task in answer[0].items():
        assert_near(of_task, model.predict(name, text))


def test_passes_of_all_tasks_are_bounded(folder):
    model = model_of(folder, ("tag", "classify"), "frozen")
    seen = count_rows(model)
    model.predict_all(" ".join(words(LONG)))
    assert max(rows for rows, _ in seen) <= ROWS


def test_a_stream_of_long_and_short_requests(folder):
    model = model_of(folder)
    requests = [
        *(("classify", "the cat"), ("tag", words(LONG)), ("tag", words(3)), ("classify", "a dog")),
        *(("span", REQUESTS["span"]), ("choose", REQUESTS["choose"]), ("tag", words(90, 2))),
    ]
    expected = model.predict(requests, batch_size=10_000)
    for found in (model.predict(requests), list(model.predict_stream(iter(requests)))):
        assert [answer["task"] for answer in found] == [task for task, _ in requests]
        for answer, right in zip(found, expected, strict=True):
            assert_near(answer, right)


@pytest.mark.usefixtures("capturing")
def test_captured_passes(folder):
    model = model_of(folder)
    for name, request in REQUESTS.items():
        whole = model.predict([(name, request)], batch_size=10_000)[0]
        assert_near(model.predict([(name, request)])[0], whole)


MODEL = scramble(build("bert", "lora", [task_of_kind(name, 6) for name in NAMES])).eval()
TOKENS = [tokens_of(task, tiny_tokenizer("words")) for task in MODEL.tasks]


@given(
    st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 5)), min_size=1, max_size=12),
    st.integers(1, 6),
)
def test_pieces_are_a_partition_of_the_rows(chosen, most):
    """Every row once, in its order; examples with one vector of logits stay whole; none is too large."""
    listed = [(task, TOKENS[task], index) for task, index in chosen]
    examples = Examples.of(listed)
    pieces = in_pieces(MODEL, examples, most)
    if pieces is None:
        assert examples.counts.max() <= most
        return
    assert pieces.starts[0] == 0
    assert pieces.starts[-1] == len(pieces.examples)
    for number, (task, tokens, index) in enumerate(listed):
        of_example = range(pieces.starts[number], pieces.starts[number + 1])
        rows = []
        for piece in of_example:
            assert pieces.examples.task[piece] == task
            finer = pieces.examples.splits[pieces.examples.split[piece]]
            assert np.array_equal(finer.flat("ids"), tokens.flat("ids"))
            rows += finer.rows_of(int(pieces.examples.index[piece]))
            if MODEL.answers_by[MODEL.tasks[task].head] == "example":
                assert len(of_example) == 1
            else:
                assert pieces.examples.counts[piece] <= most
        assert rows == list(tokens.rows_of(index))


@settings(max_examples=examples(20))
@given(
    st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 5)), min_size=1, max_size=8),
    st.integers(1, 6),
)
def test_logits_do_not_depend_on_the_pieces(chosen, most):
    listed = [(task, TOKENS[task], index) for task, index in chosen]
    for one, other in zip(answers(MODEL, listed, most), answers(MODEL, listed, 10_000), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
