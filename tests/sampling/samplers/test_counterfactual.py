"""A policy over tasks that is given by name, or by a file."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.sampling import build_sampler
from weft.sampling.plan.choice import Chance
from weft.sampling.plan.plan import Plan
from weft.sampling.samplers.counterfactual import Counterfactual, read_policy

POLICY = {"rte": 0.5, "cola": 0.2, "sst2": 0.3}
TASKS = ["cola", "rte", "sst2"]

policies = st.lists(st.floats(0, 1), min_size=1, max_size=64).filter(lambda p: sum(p) > 0.01)


@given(policies, st.randoms())
def test_each_task_has_its_own_probability_whatever_the_sizes_and_the_order(weights, draw):
    p = np.array(weights) / sum(weights)
    names = [f"task {i}" for i in range(len(p))]
    sampler = Counterfactual(policy=dict(zip(names, p.tolist(), strict=True)))
    order = draw.sample(range(len(p)), len(p))
    [segment] = sampler.segments(np.arange(1, len(p) + 1) ** 4, 7, [names[i] for i in order])
    assert (segment.first, segment.stop) == (0, 7)
    assert isinstance(segment.choice, Chance)
    assert np.allclose(segment.choice.share, p[order], atol=1e-12)
    assert segment.choice.share.sum() == pytest.approx(1, abs=1e-9)


def test_a_plan_draws_by_it():
    policy = {"cola": 0.7, "rte": 0.3, "sst2": 0}
    plan = Plan([5, 50, 500], {"use": "counterfactual", "policy": policy}, 1, 4000, 2, names=TASKS)
    drawn = [row.drawn for row in plan.summary()]
    assert drawn[2] == 0
    assert abs(drawn[0] / 4000 - 0.7) < 4 * np.sqrt(0.21 / 4000)
    assert plan.share_at(17).tolist() == [0.7, 0.3, 0]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["policy.yaml", "policy.json"])
def test_a_file_is_the_same_and_is_not_needed_again(tmp_path, name, wrapped):
    said = {"policy": POLICY, "learned": {"windows": 9}} if wrapped else POLICY
    file = tmp_path / name
    file.write_text(json.dumps(said) if name.endswith("json") else yaml.safe_dump(said), encoding="utf-8")
    sampler = build_sampler({"use": "counterfactual", "policy": str(file)})
    file.unlink()
    assert sampler == Counterfactual(policy=POLICY)
    assert sampler.settings() == {"use": "counterfactual", "policy": POLICY}
    assert build_sampler(sampler.settings()) == sampler


def test_people_may_round():
    sampler = Counterfactual(policy={"cola": 0.333, "rte": 0.333, "sst2": 0.333})
    [segment] = sampler.segments(np.ones(3, np.int64), 1, TASKS)
    assert np.allclose(segment.choice.share, 1 / 3)


@pytest.mark.parametrize(
    ("policy", "messages"),
    [
        ({"cola": 0.5, "rte": 0.4}, ["policy: the probabilities must sum to 1; found 0.9 over 2 tasks"]),
        ({"cola": -0.5, "rte": 1.5}, ["cola: expected a probability from 0 to 1; found -0.5"]),
        ({"cola": "half", "rte": 0.5}, ["cola: expected a probability from 0 to 1; found 'half'"]),
        ({"cola": float("nan"), "rte": 1}, ["cola: expected a probability from 0 to 1; found nan"]),
        ({"cola": True}, ["cola: expected a probability from 0 to 1; found True"]),
        ({}, ["expected one probability per task, {cola: 0.25, rte: 0.75}; found {}"]),
        ([0.5, 0.5], ["expected one probability per task", "found [0.5, 0.5]"]),
        ("nowhere.yaml", ["there is no file 'nowhere.yaml'", "weft policy RUN --out nowhere.yaml"]),
    ],
)
def test_wrong_policies_are_refused(policy, messages):
    with pytest.raises(WeftError) as wrong:
        build_sampler({"use": "counterfactual", "policy": policy})
    for message in ["sampler 'counterfactual' has wrong settings", *messages]:
        assert message in str(wrong.value)


def test_a_policy_is_needed():
    with pytest.raises(WeftError, match="policy: "):
        build_sampler("counterfactual")


@pytest.mark.parametrize(
    ("names", "messages"),
    [
        (["cola", "rte"], ["sampler.policy: 'sst2' is not a task of this run", "known: cola, rte"]),
        (["cola", "rte", "sst"], ["'sst2' is not a task of this run; did you mean 'sst'?"]),
        ([*TASKS, "qnli", "wnli"], ["no probability for qnli, wnli", "each of the run's 5 tasks"]),
    ],
)
def test_a_policy_of_other_tasks_is_refused(names, messages):
    with pytest.raises(WeftError) as wrong:
        Plan([9] * len(names), Counterfactual(policy=POLICY), 1, 5, 2, names=names)
    for message in messages:
        assert message in str(wrong.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.json", "{", "neither as YAML nor as JSON"),
        ("p.yaml", "a: [", "neither as YAML nor as JSON"),
        ("p.yaml", "a: 0.5\nb: 0.1", "p.yaml: the probabilities must sum to 1; found 0.6"),
        ("p.yaml", "", "expected one probability per task"),
    ],
)
def test_wrong_files_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(WeftError, match=message):
        read_policy(tmp_path / name)
