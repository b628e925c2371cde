from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_kind import perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import company, losses_of, random_logits
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.readers.example import ExampleRows
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Inputs

KIND = KINDS["regress"]()
numbers = st.floats(-9, 9)


@given(company(), st.integers(1, 3), st.data())
def test_the_loss_is_the_squared_error(batch, size, data):
    def value(own):
        if own:
            return data.draw(numbers if size == 1 else st.lists(numbers, min_size=size, max_size=size))
        return data.draw(st.sampled_from([None, [1.0] * 5, "x"]))

    values = [value(own) for own in batch.mine]
    logits = random_logits(len(values), size)
    found = losses_of("regress", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            target = np.atleast_1d(np.asarray(values[e], float))
            expected = ((logits.detach()[e].double().numpy() - target) ** 2).mean()
            assert found[e].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["regress", "two"])
def test_a_model_that_knows_is_judged_perfect(name):
    task = task_of_kind(name, 30, metrics=("pearson", "spearman", "mse"))
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    found = judged(task, perfect_logits(tokens), tokens, range(30))
    assert found["pearson"] == pytest.approx(1)
    assert found["spearman"] == pytest.approx(1)
    assert found["mse"] == pytest.approx(0, abs=1e-9)


@given(st.floats(-100, 100), st.floats(0.5, 50), st.floats(-3, 3))
def test_answers_lie_in_the_range(low, width, output):
    task = Task("r", "regress", range=(low, low + width))
    (found,) = KIND.decode([np.array([output], np.float32)], task, [ExampleRows.of_texts(("x",))]).tolist()
    assert found == pytest.approx(low + width * min(max(output, 0), 1), rel=1e-4, abs=1e-3)
    assert KIND.answer(np.array([output], np.float32), task, None)["value"] == pytest.approx(found, abs=1e-4)


@given(st.floats(-100, 100), st.floats(0.5, 50), st.floats(0, 1))
def test_learnt_and_answered_it_is_the_label(low, width, share):
    task = Task("r", "regress", range=(low, low + width))
    label = low + width * share
    target = task.target(label)
    assert -1e-6 <= target <= 1 + 1e-6
    found = KIND.decode([np.array([target], np.float32)], task, [None])
    assert found[0] == pytest.approx(label, rel=1e-4, abs=1e-3)


@given(st.floats(-100, 100), st.floats(0.5, 50), st.floats(0, 1), st.floats(-300, 300))
def test_raw_targets_are_the_labels_and_answers_still_lie_in_the_range(low, width, share, output):
    task = Task("r", "regress", range=(low, low + width), targets="raw")
    label = low + width * share
    assert task.target(label) == label
    table = KIND.table([label], task)
    assert table is not None
    assert table.item() == np.float32(label)
    (answer,) = KIND.decode([np.array([output], np.float32)], task, [None]).tolist()
    assert answer == pytest.approx(min(max(output, low), low + width), rel=1e-5, abs=1e-4)
    assert Task(**task.settings()) == task


def test_raw_targets_are_of_numbers_only():
    assert Task("r", "regress", targets="raw").target(7.0) == 7.0
    with pytest.raises(WeftError, match="targets belongs to regress, similarity; its kind is 'classify'"):
        Task("c", labels=("x", "y"), targets="raw")
    with pytest.raises(WeftError, match=r"targets: expected raw .* found 'scaled'"):
        Task("r", "regress", targets="scaled")


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["1.5"], 1.5), ([2], 2.0), (["1", 2.5], [1.0, 2.5]), ([[1, 2]], [1.0, 2.0]), ([(3.0,)], 3.0)],
)
def test_labels(values, expected):
    assert KIND.parse(values, ()) == expected


@pytest.mark.parametrize("wrong", ["x", None, math.nan, "inf", [1, "y"]])
def test_labels_that_are_none(wrong):
    with pytest.raises(ValueError, match=r"a number|a finite number"):
        KIND.parse([wrong], ())


def test_labels_that_do_not_fit():
    task = Task("r", "regress", range=(0, 5))
    KIND.fits(5.0, task, Inputs(("x",)))
    with pytest.raises(ValueError, match="a number from 0 to 5, the task's range"):
        KIND.fits(5.1, task, Inputs(("x",)))
    with pytest.raises(ValueError, match="a finite number"):
        KIND.fits([1.0, 2.0], task, Inputs(("x",)))
    with pytest.raises(ValueError, match="a list of 2 finite numbers"):
        KIND.fits(1.0, Task("r", "regress", label=("x", "y")), Inputs(("x",)))


@given(st.lists(numbers, min_size=1, max_size=9))
def test_the_guess_is_the_mean(labels):
    guess = KIND.guess(labels, Task("r", "regress"), [None] * 3)
    assert guess.tolist() == [pytest.approx(sum(labels) / len(labels), abs=1e-6)] * 3


def test_several_outputs_are_guessed_and_answered_one_by_one():
    task = Task("r", "regress", label=("x", "y"))
    assert KIND.guess([[0.0, 2.0], [2.0, 4.0]], task, [None] * 2).tolist() == [[1.0, 3.0]] * 2
    assert KIND.answer(torch.tensor([1.0, 2.0]).numpy(), task, None) == {"value": [1.0, 2.0]}
