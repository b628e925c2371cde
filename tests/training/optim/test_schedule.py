"""The learning rate of a step."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.training.optim.schedule import lr_factor

RUNS = given(st.integers(1, 300), st.floats(0, 0.999), st.sampled_from(["linear", "cosine", "constant"]))


@RUNS
def test_it_rises_to_one_and_never_rises_again(steps, warmup, schedule):
    factors = [lr_factor(step, steps, warmup, schedule) for step in range(steps)]
    rising = round(warmup * steps)
    assert all(0 < f <= 1 for f in factors)
    assert factors[:rising] == pytest.approx([(step + 1) / rising for step in range(rising)])
    after = factors[rising:]
    assert after == sorted(after, reverse=True)
    assert after[:1] in ([1.0], [])


@RUNS
def test_the_step_after_the_last_would_have_nothing(steps, warmup, schedule):
    assert lr_factor(steps, steps, warmup, schedule) == (1.0 if schedule == "constant" else 0.0)


@RUNS
def test_as_it_is_defined(steps, warmup, schedule):
    rising = round(warmup * steps)
    for step in range(rising, steps):
        progress = (step - rising) / (steps - rising)
        expected = {
            "linear": (steps - step) / (steps - rising),  # to the bit: runs of earlier versions had it so
            "constant": 1.0,
            "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
        }[schedule]
        assert lr_factor(step, steps, warmup, schedule) == expected


def test_a_cosine_is_above_the_line_at_first_and_below_it_later():
    line, wave = ([lr_factor(s, 100, 0.1, kind) for s in range(10, 100)] for kind in ("linear", "cosine"))
    assert wave[45] == pytest.approx(line[45])
    assert all(w > n for w, n in zip(wave[1:45], line[1:45], strict=True))
    assert all(w < n for w, n in zip(wave[46:], line[46:], strict=True))
