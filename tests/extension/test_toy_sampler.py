"""docs/extension.md, "A sampler": the toy draws small tasks more often."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from tests.extension.recipes import follow
from tests.support.tiny_run import write_run
from weft.cli import run
from weft.errors import WeftError
from weft.sampling import Plan, build_sampler


@pytest.fixture
def inverse(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    follow("A sampler", "my_sampler", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("inverse")
def test_it_draws_a_plan():
    plan = Plan([100, 300], batch_size=4, steps=4000, sampler="inverse", seed=1)
    drawn = np.bincount([plan.step(k).task[0] for k in range(4000)], minlength=2)
    assert drawn[0] / 4000 == pytest.approx(0.75, abs=0.03)
    again = Plan([100, 300], batch_size=4, steps=4000, sampler="inverse", seed=1)
    assert np.array_equal(plan.step(1234).index, again.step(1234).index)
    equal = build_sampler({"use": "inverse", "beta": 0})
    (segment,) = equal.segments(np.array([10, 90]), 5, ["a", "b"])
    assert segment.choice.share.tolist() == [0.5, 0.5]


@pytest.mark.usefixtures("inverse")
def test_a_run_trains_by_it_and_its_settings_are_checked(tmp_path, capsys):
    file = write_run(tmp_path, steps=4)
    setting = "train.sampler={use: inverse, beta: 0.5}"
    assert run(["show", "plan", str(file), setting, "--json"]) == 0
    shares = json.loads(capsys.readouterr().out)
    assert "count" in json.dumps(shares)
    assert run(["train", str(file), setting, "--out", str(tmp_path / "out")]) == 0
    assert "beta: 0.5" in (tmp_path / "out" / "run.yaml").read_text()
    with pytest.raises(WeftError, match="beta"):
        weft.Training(steps=1, sampler={"use": "inverse", "beta": -1})
