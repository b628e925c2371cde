"""A training component by the recipe of docs/extension.md: one class, passed to `weft.train`."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from tests.support.tiny_run import breaking_off, write_run
from weft.config import load_run

pytestmark = pytest.mark.usefixtures("token_cache")


class Distance(weft.Component):
    """How far the weights have walked: Σ ‖θ_k − θ_{k−1}‖ over the steps, and the examples of each task."""

    name = "distance"

    def begin(self, run):
        super().begin(run)
        self.walked = 0.0
        self.examples = [0] * len(run.names)
        self.last = self.weights()

    def weights(self):
        return torch.cat([p.detach().flatten() for p in self.run.model.parameters() if p.requires_grad])

    def after_step(self, done):
        now = self.weights()
        self.walked += float((now - self.last).norm())
        self.last = now
        for task in done.step.task[: done.step.real].tolist():
            self.examples[task] += 1

    def log_fields(self, event):
        if event == "step":
            return {"walked": self.walked}
        return {"trained_on": dict(zip(self.run.names, self.examples, strict=True))} if event == "end" else {}

    def state(self):
        return {"walked": self.walked, "examples": self.examples, "last": self.last}

    def load_state(self, state):
        self.walked, self.examples = state["walked"], list(state["examples"])
        self.last = state["last"].to(self.last.device)


def go(file, out, resume=False):
    run = load_run(file)
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    toy = Distance()
    settings = {"resolved": run.resolved, "progress": False, "resume": resume, "components": [toy]}
    weft.train(model, run.training, out, **settings)
    return toy, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def fields(log):
    walked = [line["walked"] for line in log if line["event"] == "step"]
    return walked, log[-1]["trained_on"]


def test_a_component_logs_and_its_state_survives_a_break(tmp_path):
    file = write_run(tmp_path, steps=10, evaluate_every=0)
    toy, log = go(file, tmp_path / "straight")
    walked, trained_on = fields(log)
    assert len(walked) == 3  # log_every: 4, and the last step
    assert 0 < walked[0] < walked[1] < walked[2] == toy.walked
    assert trained_on == log[-1]["window"]["examples"]  # as the loop itself counts them
    metrics = json.loads((tmp_path / "straight" / "metrics.json").read_text())
    assert metrics["trained_on"] == trained_on
    assert all("walked" not in line for line in log if line["event"] != "step")

    with breaking_off(7), pytest.raises(KeyboardInterrupt):
        go(file, tmp_path / "broken")
    resumed, again = go(file, tmp_path / "broken", resume=True)
    assert fields(again) == (walked, trained_on)
    assert resumed.walked == toy.walked
    assert torch.equal(resumed.last, toy.last)
