"""TensorBoard's own reader finds the numbers of the log in the run's folder."""

from __future__ import annotations

import json

import pytest

from tests.support.tiny_run import breaking_off, write_run
from weft import cli

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
pytestmark = pytest.mark.usefixtures("token_cache")


def losses(out):
    events = accumulator.EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars("step/loss/cat")]


def logged(out):
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [(x["step"], x["loss"]["cat"]) for x in lines if x["event"] == "step" and "cat" in x["loss"]]


@pytest.mark.parametrize("setting", ["train.tensorboard=true", "train.trackers=[tensorboard]"])
def test_events_hold_the_log(tmp_path, setting):
    out = tmp_path / "out"
    file = write_run(tmp_path, baselines=False, log_every=2)
    assert cli.run(["train", str(file), setting, "--out", str(out), "--quiet"]) == 0
    assert [step for step, _ in losses(out)] == [step for step, _ in logged(out)]
    assert [value for _, value in losses(out)] == pytest.approx([value for _, value in logged(out)])


def test_a_resumed_run_shows_every_step_once(tmp_path):
    out = tmp_path / "out"
    file = write_run(tmp_path, baselines=False, log_every=2)
    words = ["train", str(file), "train.tensorboard=true", "--out", str(out), "--quiet"]
    with breaking_off(11):  # after the checkpoint at step 9, and the line of step 10
        assert cli.run(words) == 130
    before = losses(out)
    assert before[-1][0] == 10
    assert cli.run([*words, "--resume"]) == 0
    assert [step for step, _ in losses(out)] == [step for step, _ in logged(out)]
