import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.model.losses import example_weights

tasks = st.lists(st.integers(0, 5), min_size=1, max_size=40).map(torch.tensor)


@given(tasks)
def test_task_mean_is_the_mean_of_means(task):
    loss = torch.rand(task.shape)
    expected = torch.stack([loss[task == t].mean() for t in task.unique()]).mean()
    torch.testing.assert_close((example_weights(task) * loss).sum(), expected)


@given(tasks)
def test_the_other_rules(task):
    loss = torch.rand(task.shape)
    torch.testing.assert_close((example_weights(task, "example_mean") * loss).sum(), loss.mean())
    torch.testing.assert_close((example_weights(task, "sum") * loss).sum(), loss.sum())


def test_a_rule_that_does_not_exist():
    with pytest.raises(WeftError, match="did you mean 'task_mean'"):
        example_weights(torch.tensor([0]), "task_men")
