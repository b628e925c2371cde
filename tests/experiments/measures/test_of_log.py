"""Measures that follow from the log of a run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import RunFailed
from weft.experiments.measures.of_log import (
    LOG,
    composition,
    examples_per_second,
    peak_of,
    sparsity,
    speed,
)


def log_of(folder, *events):
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (folder / LOG).write_text(lines + '{"event": "st', encoding="utf-8")  # a killed run
    return folder


def line(step, step_seconds, seconds=1e6):
    return {"event": "step", "step": step, "seconds": seconds, "step_seconds": step_seconds}


def test_the_speed_is_that_of_the_steps_after_the_first_500(tmp_path):
    slow = [line(n, 10.0 * n / 50) for n in range(50, 500, 50)]
    steady = [line(n, 100 + 0.02 * n) for n in range(500, 3001, 50)]
    folder = log_of(tmp_path, {"event": "start"}, *slow, {"event": "evaluation", "step": 500}, *steady)
    assert speed(folder) == {"speed": pytest.approx(20.0)}


def test_the_speed_of_a_short_run_leaves_out_its_first_quarter(tmp_path):
    folder = log_of(tmp_path, line(10, 90.0), line(20, 95.0), line(30, 96.0), line(80, 101.0))
    assert speed(folder) == {"speed": pytest.approx(1000 * 6 / 60)}
    assert speed(log_of(tmp_path, line(3, 1.0))) == {}
    assert speed(log_of(tmp_path)) == {}


@pytest.mark.parametrize("event", ["resume", "gates"])
def test_what_is_compiled_again_is_no_steady_state(event, tmp_path):
    lines = [line(1000, 10.0), line(1050, 11.0), {"event": event, "step": 1060}, line(1100, 99.0)]
    assert speed(log_of(tmp_path, *lines, line(1150, 100.0))) == {"speed": pytest.approx(20.0)}


def test_lines_of_earlier_versions_have_the_seconds_of_the_run_alone(tmp_path):
    lines = [{"event": "step", "step": step, "seconds": step / 10} for step in (500, 1000, 2000)]
    assert speed(log_of(tmp_path, *lines)) == {"speed": pytest.approx(100.0)}


def test_the_examples_per_second_are_those_of_the_last_line(tmp_path):
    assert examples_per_second(log_of(tmp_path, {"event": "end", "examples_per_second": 812})) == {
        "examples_per_second": 812.0
    }
    assert examples_per_second(log_of(tmp_path, {"event": "end"})) == {}


def test_the_composition_adds_up_all_windows(tmp_path):
    windows = [{"examples": {"a": 20, "b": 10}}, {"examples": {"a": 0, "b": 10}}]
    events = [{"event": "evaluation", "window": windows[0]}, {"event": "end", "window": windows[1]}]
    assert composition(log_of(tmp_path, *events)) == {"composition": {"a": 50.0, "b": 50.0}}


def test_what_gates_have_kept(tmp_path):
    gates = {
        "event": "gates",
        "all": {"weights": [3, 12], "biases": [0, 0]},
        "sites": {"0/query": {"weights": [3, 6]}, "1/query": {"weights": [0, 6]}, "top": {"biases": [0, 0]}},
    }
    kept = sparsity(log_of(tmp_path, gates))
    assert kept == {"weights_kept": 25.0, "components_kept": {"0/query weights": 3.0, "1/query weights": 0.0}}
    with pytest.raises(RunFailed, match="no line is of gates; expected a method with l0"):
        sparsity(log_of(tmp_path, line(1, 1.0)))


def test_the_first_peak_is_that_of_the_smoothed_counts():
    steps = np.arange(2000)
    early = 10 * np.exp(-(((steps - 300) / 60) ** 2)) + 8 * np.exp(-(((steps - 1500) / 60) ** 2))
    late = 10 * np.exp(-(((steps - 1200) / 60) ** 2))
    assert abs(peak_of(early) - 300) < 30
    assert abs(peak_of(late) - 1200) < 30
    noise = np.random.default_rng(1).poisson(early)
    assert abs(peak_of(noise) - 300) < 100


@given(st.lists(st.integers(0, 32), min_size=1, max_size=300))
def test_a_peak_is_a_step_of_the_run(counts):
    step = peak_of(np.array(counts, float))
    assert 0 <= step < len(counts)
