"""The `train` section by the amount of data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.data.drafting.draft import TaskDraft
from weft.training.settings import Training
from weft.workflows.new.train_settings import train_settings


def draft(rows, words=20):
    return TaskDraft("x", {}, {}, [], [], [], [], {}, "", rows, words)


@given(st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 5000)), min_size=1, max_size=5))
def test_settings_are_valid(sizes):
    settings, comments = train_settings([draft(*size) for size in sizes])
    training = Training(**settings)
    assert 100 <= training.steps <= 3000
    assert training.evaluate_every <= training.steps
    assert comments.keys() <= settings.keys()


def test_more_data_more_steps_and_longer_texts_longer_rows():
    small, large = (train_settings([draft(n)])[0] for n in (300, 8000))
    assert small["steps"] < large["steps"]
    lengths = [train_settings([draft(300, words)])[0]["max_length"] for words in (10, 60, 150, 900)]
    assert lengths == [64, 128, 256, 256]


def test_small_tasks_beside_large_ones_are_sampled_more_often():
    assert train_settings([draft(100), draft(10_000)])[0]["sampler"] == "square_root"
    assert "sampler" not in train_settings([draft(100), draft(150)])[0]
