import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.model import losses
from weft.sampling.plan.weights import RULES, example_weights

some_tasks = st.lists(st.integers(0, 63), min_size=1, max_size=100).map(np.array)


@pytest.mark.parametrize("rule", RULES)
@given(task=some_tasks)
def test_the_rule_is_that_of_the_losses(rule, task):
    weights = example_weights(task, rule)
    assert weights.dtype == np.float32
    assert weights == pytest.approx(losses.example_weights(torch.tensor(task), rule).numpy(), rel=1e-5)
    assert rule == "sum" or weights.sum() == pytest.approx(1, abs=1e-5)


def test_task_mean():
    assert example_weights(np.array([0, 2, 2, 0, 0, 0]), "task_mean") == pytest.approx(
        [1 / 8, 1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 8]
    )


def test_the_rules_have_the_names_of_the_losses():
    assert RULES == losses.RULES
    with pytest.raises(WeftError, match="did you mean 'task_mean'"):
        example_weights(np.array([0]), "taskmean")
