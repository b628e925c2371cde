from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.sampling.plan.choice import Chance, Cycle, Segment
from weft.sampling.plan.draw_counts import BLOCK, Turns
from weft.utils.counter_rng import draw_key

KEY = draw_key(7, "task")
CHOICES = [Chance([0.5, 0.3, 0.2]), Cycle([0, 2, 1, 2], 3), Chance([0.0, 0.1, 0.9])]


def make(bounds, width):
    stretches = pairwise([0, *bounds, 3000])
    segments = [Segment(a, b, choice) for (a, b), choice in zip(stretches, CHOICES, strict=False)]
    return Turns(segments, tasks=3, width=width, seed=7)


def one_by_one(bounds, width, steps):
    """The tasks and positions of all draws, by plain counting."""
    seen, found = [0, 0, 0], []
    for draw in range(steps * width):
        choice = CHOICES[sum(draw // width >= bound for bound in bounds)]
        task = int(choice.tasks(KEY, draw, draw + 1)[0])
        found.append((task, seen[task]))
        seen[task] += 1
    return found


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("bounds", [[], [700, 1500], [1024, 2048]])
def test_tasks_and_positions_are_those_of_plain_counting(width, bounds):
    steps = 2 * BLOCK + 100
    expected = one_by_one(bounds, width, steps)
    turns = make(bounds, width)
    for first in [*range(0, steps - 64, 64), 5, 2000, 0]:  # onwards, then at random
        task, position = turns.between(first, first + 16)
        assert list(zip(task, position, strict=True)) == expected[first * width : (first + 16) * width]
    for step in (0, 1, 699, 1023, 1024, 1025, 2048, steps):
        tasks = [task for task, _ in expected[: step * width]]
        assert make(bounds, width).before(step).tolist() == np.bincount(tasks, minlength=3).tolist()


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 60_000), st.integers(1, 9))
def test_a_late_step_is_found_without_the_earlier_ones(step, width):
    turns = make([20_000, 40_000], width)
    task, position = turns.between(step, step + 1)
    for draw in range(width):
        before = task[:draw].tolist().count(task[draw])
        assert position[draw] == turns.before(step)[task[draw]] + before


def test_the_last_segment_goes_on():
    turns = make([700, 1500], 1)
    assert turns.before(10_000).sum() == 10_000
