"""Requests of many tasks are tokenized together, and each one as if it were alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.tiny_run import save_encoder
from weft.inference.predict import tokenized
from weft.inference.slab import tokenize_inputs

TASKS = [task_of_kind(name) for name in NAMES]
REQUESTS = [(name, row) for name in NAMES for row in rows_of_kind(name, 3, 5)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    encoder = save_encoder(tmp_path_factory.mktemp("slab") / "encoder")
    return weft.Model(encoder, TASKS, "frozen", max_length=16)


@given(numbers=st.lists(st.integers(0, len(REQUESTS) - 1), min_size=1, max_size=12))
def test_a_request_has_the_tokens_that_it_has_alone(model, numbers):
    requests = [REQUESTS[number] for number in numbers]
    together = tokenized(model, requests, range(len(requests)))
    for number, request in enumerate(requests):
        alone = tokenized(model, [request], range(1))
        task = model.task_id(request[0])
        assert together.examples.task[number] == task
        mine, its = together.tokens[task], alone.tokens[task]
        assert mine is together.examples.splits[together.examples.split[number]]
        index = int(together.examples.index[number])
        rows, expected = mine.rows_of(index), its.rows_of(0)
        assert len(rows) == len(expected)
        for row, other in zip(rows, expected, strict=True):
            assert np.array_equal(mine.ids(row), its.ids(other))
            assert np.array_equal(_types(mine, row), _types(its, other))
            assert np.array_equal(_marks(mine, row), _marks(its, other))
        assert mine.is_truncated(index) == its.is_truncated(0)
        assert mine.example(index).texts == its.example(0).texts


def test_tasks_of_plain_texts_share_one_call(model):
    requests = [
        (name, row) for name in ("classify", "regress", "multilabel") for row in rows_of_kind(name, 2, 1)
    ]
    slab = tokenized(model, requests, range(len(requests)))
    widths = {len(task.texts) for task in TASKS if task.name in {name for name, _ in requests}}
    assert len(slab.examples.splits) == len(widths)


def test_nothing_is_an_empty_slab(model):
    slab = tokenize_inputs(model, [])
    assert len(slab.examples) == 0
    assert not slab.tokens
    assert list(slab.examples.of_each_task()) == []


def _types(tokens, row):
    types = tokens.types(row)
    return np.zeros(len(tokens.ids(row)), int) if types is None else types


def _marks(tokens, row):
    marks = tokens.marks(row)
    return np.zeros(len(tokens.ids(row)), int) if marks is None else marks
