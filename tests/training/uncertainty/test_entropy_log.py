"""`train.measure_uncertainty`: the entropy of each task over a run, whatever the sampler."""

from __future__ import annotations

import json
import math

import pytest
import torch

import weft
from tests.support.more import some_of
from tests.support.tiny_run import breaking_off, metrics_of, untimed, write_run
from weft.config import load_run
from weft.errors import WeftError
from weft.workflows.train import train_run

pytestmark = pytest.mark.usefixtures("token_cache")


def train(file, out, *settings, resume=False):
    run_file = load_run(file, ["method=full", "train.lr=0.001", *settings])
    return train_run(run_file, out, resume=resume, device="cpu", tell=lambda note: None)


def lines(out, event):
    every = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [untimed(line) for line in every if line["event"] == event]


def weights(folder):
    return dict(weft.load(folder).named_parameters())


@pytest.mark.parametrize("sampler", some_of(["mt_uncertainty", "annealed", "round_robin"], 1))
def test_every_task_that_has_a_measure_every_n_steps(sampler, tmp_path):
    file = write_run(tmp_path, steps=10)
    settings = [f"train.sampler={sampler}"]
    train(file, tmp_path / "out", *settings, "train.measure_uncertainty=5")
    measured = lines(tmp_path / "out", "uncertainty")
    assert [line["step"] for line in measured] == [0, 5, 10]
    for line in measured:
        assert list(line["entropy"]) == ["cat", "same"]  # a regression has none
        assert all(0 < value <= 1 for value in line["entropy"].values())
    # to measure changes nothing
    train(file, tmp_path / "plain", *settings)
    assert metrics_of(tmp_path / "plain") == metrics_of(tmp_path / "out")
    one, other = weights(tmp_path / "plain"), weights(tmp_path / "out")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert lines(tmp_path / "plain", "step") == lines(tmp_path / "out", "step")
    assert lines(tmp_path / "plain", "uncertainty") == []


def test_runs_of_different_samplers_measure_the_same_examples(tmp_path):
    """Before the first step the models are equal, and so is what is measured."""
    file = write_run(tmp_path, steps=4)
    first = []
    for sampler in ("annealed", "mt_uncertainty", "uniform"):
        train(file, tmp_path / sampler, f"train.sampler={sampler}", "train.measure_uncertainty=2")
        first.append(lines(tmp_path / sampler, "uncertainty")[0])
    assert first[0] == first[1] == first[2]


def test_it_is_the_mean_entropy_of_the_predictions(tmp_path):
    """Of the final model on the examples of the last line, computed by hand."""
    file = write_run(tmp_path, steps=3)
    train(
        file, tmp_path / "out", "train.measure_uncertainty=3", "train.evaluate_every=0", "heads.start=random"
    )
    model = weft.load(tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "cat.train.jsonl").read_text().splitlines()]
    plan = weft.sampling.Plan((40, 25, 9), "mt_uncertainty", 1, 4, 8)
    offered = plan.candidates(3)
    index = offered.index[offered.task == 0].tolist()
    answers = model.predict([("cat", rows[i]["text"]) for i in index])
    entropies = [-sum(p * math.log(p) for p in a["probabilities"].values()) / math.log(2) for a in answers]
    logged = lines(tmp_path / "out", "uncertainty")[-1]
    assert logged["step"] == 3
    assert logged["entropy"]["cat"] == pytest.approx(sum(entropies) / len(entropies), abs=1e-4)


@pytest.mark.parametrize("stop", [4, 6])
def test_a_resumed_run_has_the_same_lines(stop, tmp_path):
    file = write_run(tmp_path, steps=9)
    train(file, tmp_path / "straight", "train.measure_uncertainty=2")
    with breaking_off(stop), pytest.raises(KeyboardInterrupt):
        train(file, tmp_path / "broken", "train.measure_uncertainty=2")
    train(file, tmp_path / "broken", "train.measure_uncertainty=2", resume=True)
    both = [lines(tmp_path / run, "uncertainty") for run in ("straight", "broken")]
    assert both[0] == both[1]
    assert [line["step"] for line in both[0]] == [0, 2, 4, 6, 8]


def test_it_may_change_when_a_run_is_resumed(tmp_path):
    file = write_run(tmp_path, steps=8)
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        train(file, tmp_path / "out")
    train(file, tmp_path / "out", "train.measure_uncertainty=4", resume=True)
    assert [line["step"] for line in lines(tmp_path / "out", "uncertainty")] == [4, 8]


def test_without_any_measure_it_is_refused(tmp_path):
    file = write_run(tmp_path, steps=4)
    only = json.dumps(load_run(file).resolved["tasks"][2])
    with pytest.raises(WeftError, match=r"measure_uncertainty.*: no task of this run has an uncertainty"):
        train(file, tmp_path / "out", "train.measure_uncertainty=2", f"tasks=[{only}]")
