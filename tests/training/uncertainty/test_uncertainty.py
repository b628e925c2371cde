"""MT-Uncertainty: the choice among candidates, and measures of a batch of every kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.tiny import build, scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.batching.collate import collate
from weft.errors import WeftError
from weft.model.output import Output
from weft.tasks.kinds import KINDS
from weft.training.uncertainty import choose, measures, scores

NAN = math.nan


# the choice


@st.composite
def candidates(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Measures and tasks of some candidates, in the order of the tasks; a task may have no measure."""
    measure, task = [], []
    for t in range(draw(st.integers(1, 5))):
        count = draw(st.integers(0 if t else 1, 5))
        unknown = draw(st.booleans())
        grid = st.integers(0, 8).map(lambda k: k / 8)  # ties are common
        measure += [NAN] * count if unknown else draw(st.lists(grid, min_size=count, max_size=count))
        task += [t] * count
    return np.array(measure), np.array(task)


@given(candidates(), st.integers(1, 12), st.sampled_from(["code", "paper"]))
def test_the_highest_scores_are_taken_and_of_equals_the_first(given_, size, rule):
    measure, task = given_
    found = choose(measure, task, size, rule, {}).tolist()
    assert len(set(found)) == len(found) == min(size, len(task))
    if np.isfinite(measure).any():
        score = scores(measure, task, rule, {})
        assert found == sorted(range(len(task)), key=lambda p: (-score[p], p))[:size]
        assert (score[np.isnan(measure)] == 0).all()


@given(candidates())
def test_the_rules_are_as_they_are_written(given_):
    measure, task = given_
    known = np.isfinite(measure)
    means = {t: measure[known & (task == t)].mean() for t in set(task[known].tolist())}
    highest = max(means.values(), default=0)
    for place in np.flatnonzero(known):
        paper = measure[place] / highest if highest else 0.0
        assert scores(measure, task, "paper", {})[place] == pytest.approx(paper)
        code = paper * means[int(task[place])]
        assert scores(measure, task, "code", {})[place] == pytest.approx(code)


@given(candidates(), st.integers(1, 12))
def test_the_papers_divisor_changes_no_order(given_, size):
    measure, task = given_
    if np.isfinite(measure).any():
        by_measure = np.argsort(-np.nan_to_num(measure), kind="stable")[:size]
        assert choose(measure, task, size, "paper", {}).tolist() == by_measure.tolist()


@pytest.mark.parametrize("rule", ["code", "paper"])
def test_a_proxys_scores_are_taken_position_by_position(rule):
    """What the task knows of itself counts for nothing: not even for the largest mean."""
    task = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    measure = np.array([1.0, 1.0, 1.0, 0.5, 0.25, NAN, NAN, NAN])
    found = scores(measure, task, rule, {0: 1, 2: 1})
    expected = [0.5, 0.25] if rule == "code" else [0.5 / 0.375, 0.25 / 0.375]
    np.testing.assert_allclose(found, [*expected, 0, *expected, *expected, 0])
    assert choose(measure, task, 4, rule, {0: 1, 2: 1}).tolist() == [0, 3, 5, 1]


def test_where_nothing_can_be_measured_tasks_take_turns():
    task = np.array([0, 0, 0, 1, 2, 2])
    assert choose(np.full(6, NAN), task, 5, "code", {}).tolist() == [0, 3, 4, 1, 5]
    sure = choose(np.zeros(6), task, 2, "code", {})
    assert sure.tolist() == [0, 1]  # sure of everything: the scores are equal


def test_mistakes_are_told():
    with pytest.raises(WeftError, match="rule 'cod' does not exist; did you mean 'code'"):
        choose(np.zeros(2), np.zeros(2, int), 1, "cod", {})
    with pytest.raises(WeftError, match="one candidate or more"):
        choose(np.zeros(0), np.zeros(0, int), 1, "code", {})


# measures of any mix of kinds


@pytest.fixture(scope="module")
def every_kind() -> tuple[Any, list[Any]]:
    tasks = [task_of_kind(name, 3) for name in NAMES]
    model = scramble(build("bert", "lora", tasks))
    tokenizer = tiny_tokenizer("wordpiece")
    return model, [tokens_of(task, tokenizer) for task in tasks]


def run(model: Any, items: list[tuple[int, Any, int]]) -> tuple[Output, dict[str, Any]]:
    inputs = collate([(tokens, i) for _, tokens, i in items], model.pad_id)
    inputs["input_ids"] = inputs["input_ids"] % 90 + 5
    task = torch.tensor([t for t, _, _ in items])
    example = inputs.get("example")
    labels = model.collate_labels(
        [tokens.target(i) for _, tokens, i in items], task, example, inputs["input_ids"].size(1)
    )
    inputs["task"] = task if example is None else task[example]
    with torch.no_grad():
        return model(**inputs), labels


@pytest.mark.parametrize("measure", ["entropy", "margin", "raw_entropy"])
def test_a_batch_of_every_kind_is_measured_as_each_example_alone(every_kind, measure):
    model, tokens = every_kind
    items = [(t, own, i) for i in range(3) for t, own in enumerate(tokens)]
    output, labels = run(model, items)
    found = measures(model, output, measure, labels)
    assert (found.shape, found.dtype) == ((len(items),), torch.float64)
    for (t, own, i), value in zip(items, found.tolist(), strict=True):
        by_itself, targets = run(model, [(t, own, i)])
        alone = measures(model, by_itself, measure, targets).item()
        assert math.isnan(value) == math.isnan(alone) == (not KINDS[model.tasks[t].kind].has_uncertainty)
        if not math.isnan(value):
            assert 0 <= value <= (math.log(64) if measure == "raw_entropy" else 1)  # of 64 tokens at most
            assert value == pytest.approx(alone, abs=1e-5)
    assert len({round(x, 4) for x in found.tolist() if not math.isnan(x)}) > 20
