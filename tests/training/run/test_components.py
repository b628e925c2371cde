"""Components of a run: what is refused, what a checkpoint keeps of them, and when each hook is called."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.sealing import unseal_state
from tests.support.tiny_run import breaking_off
from weft.config import load_run
from weft.errors import WeftError
from weft.training.run.checkpoint_files import last_checkpoint, read_state
from weft.training.run.components import Components

pytestmark = pytest.mark.usefixtures("token_cache")


def go(folder, out, *overrides, components=(), resume=False):
    run = load_run(folder / "run.yaml", overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    settings = {"resume": resume, "resolved": run.resolved, "progress": False, "components": components}
    return model, weft.train(model, run.training, out, **settings)


def log_of(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


class Named(weft.Component):
    """A component whose name is an argument."""

    def __init__(self, name, state=None):
        self.name, self._state = name, state

    def state(self):
        return self._state


def test_two_components_of_one_name_are_refused(folder, tmp_path):
    with pytest.raises(WeftError, match=r"two are named 'usage' \(Named, Usage\)"):
        go(folder, tmp_path / "out", components=[Named("usage")])
    with pytest.raises(WeftError, match=r"two are named 'ema' \(Ema\); train.ema adds one already"):
        go(folder, tmp_path / "out", "train.ema=0.9", components=[weft.Ema(0.9)])
    assert not (tmp_path / "out").exists()  # nothing is written before
    for name in ("", "a/b"):
        with pytest.raises(WeftError, match="expected a name without '/'"):
            Components([Named(name)])
    with pytest.raises(WeftError, match=r"expected instances of subclasses of weft.Component; found 3"):
        Components([3])


def test_resuming_needs_the_components_that_keep_a_state(folder, tmp_path):
    out = tmp_path / "out"
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        go(folder, out, components=[Named("mine", {}), Named("free")])
    with pytest.raises(
        WeftError, match=r"after step 3 contains the state of component 'mine', which this run"
    ):
        go(folder, out, resume=True)
    with pytest.raises(WeftError, match=r"component 'more' has no state in the checkpoint after step 3"):
        go(folder, out, components=[Named("mine", {}), Named("more", {"x": 1})], resume=True)
    # one that keeps nothing may be left out, and another such one may come
    go(folder, out, components=[Named("mine", {}), Named("other")], resume=True)


def test_a_checkpoint_keeps_the_keys_that_it_always_had(folder, tmp_path):
    """A run that an earlier weft began is resumed by these; what a run adds has a prefix of its own."""
    settings = ["train.mixed=true", "train.task_weights=learned", "train.conflict=pcgrad", "train.ema=0.9"]
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        go(folder, tmp_path / "out", *settings)
    checkpoint = last_checkpoint(tmp_path / "out" / "checkpoints")
    loop = read_state(checkpoint)["loop"]
    assert set(loop) == {
        *("step", "best", "best_step", "losses", "examples", "seconds", "stops", "tasks", "window", "parts"),
        *("step_seconds", "step_examples"),  # since metrics.json has examples_per_second
    }
    assert set(loop["parts"]) == {"usage", "task_weights", "conflict", "ema"}
    keys = {"done", "epoch_steps", "finished", "last", "longest", "warned", "stopped"}
    keys |= {"since"}  # since lines of losses have the examples of each task
    assert set(loop["parts"]["usage"]) == keys
    assert set(loop["parts"]["conflict"]) == {"conflict", "telemetry"}
    assert set(loop["parts"]["task_weights"]["cat"]) == {"s", "m", "v", "steps"}
    tensors = load_file(checkpoint / "more.safetensors")
    assert {name for name in tensors if "/" not in name} == {"ever", "epoch"}
    weights = load_file(checkpoint / "weights.safetensors")
    assert {name for name in tensors if "/" in name} == {f"ema/{name}" for name in weights}


def test_a_checkpoint_from_before_there_were_parts_goes_on(folder, tmp_path):
    """Usage counts from there on, and weights that are learned begin at 1."""
    out = tmp_path / "out"
    settings = ["train.mixed=true", "train.task_weights=learned"]
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        go(folder, out, *settings)
    checkpoint = last_checkpoint(out / "checkpoints")
    state = unseal_state(checkpoint)
    state["loop"]["parts"] = {}
    (checkpoint / "state.json").write_text(json.dumps(state))
    (checkpoint / "more.safetensors").unlink()
    _, run = go(folder, out, *settings, resume=True)
    assert 0 < log_of(run.folder)[-1]["data_used"] <= 1


class Calls(weft.Component):
    """Writes down what is called, and what there is to be seen then."""

    name = "calls"

    def begin(self, run):
        super().begin(run)
        self.seen = ["begin"]

    def at_phase(self, resumed):
        self.seen.append(f"phase {self.run.state.step} {resumed}")

    def before_step(self, number):
        assert number == self.run.state.step
        self.seen.append(f"before {number}")

    def after_step(self, done):
        assert done.step.number == self.run.state.step - 1
        assert done.losses is None
        self.seen.append(f"after {done.step.number}")

    def around_evaluation(self):
        self.seen.append("evaluation")
        return torch.no_grad()

    def after_evaluation(self):
        self.seen.append("evaluated")


def test_when_hooks_are_called(folder, tmp_path):
    calls = Calls()
    settings = ["method={use: lora, rank: 2, l0: {steps: 2}}", "train.steps=4", "train.evaluate_every=2"]
    go(folder, tmp_path / "out", *settings, components=[calls])
    steps = [[f"before {n}", f"after {n}"] for n in range(6)]
    assert calls.seen == [
        *("begin", *steps[0], *steps[1], "phase 2 False", "evaluation"),
        *(*steps[2], *steps[3], "evaluation", "evaluated"),
        *(*steps[4], *steps[5], "evaluation"),
        "evaluation",  # what the weights are inside is what the model ends with
    ]


class Halved(weft.Component):
    """Halves the loss of the first task, and reads the losses of every step."""

    name = "halved"
    needs_losses = True

    def begin(self, run):
        super().begin(run)
        self.lost = np.zeros(len(run.names))

    def task_factors(self):
        return np.array([0.5, *[1.0] * (len(self.run.names) - 1)], np.float32)

    def after_step(self, done):
        self.lost += done.losses

    def log_fields(self, event):
        return {"lost": self.lost.tolist()} if event == "step" else {}


def test_a_component_weighs_the_losses_of_tasks_and_reads_them(folder, tmp_path):
    """As the setting that does the same, bit for bit."""
    settings = ["train.mixed=true", "train.loss=sum", "train.steps=8"]
    model, run = go(folder, tmp_path / "component", *settings, components=[Halved()])
    other, _ = go(folder, tmp_path / "setting", *settings, "train.task_weights={cat: 0.5}")
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    lines = [line for line in log_of(run.folder) if line["event"] == "step"]
    assert all(value > 0 for value in lines[-1]["lost"])
    assert all(a < b for a, b in zip(lines[0]["lost"], lines[-1]["lost"], strict=True))


def test_a_field_that_a_line_has_is_refused(folder, tmp_path):
    class Loss(weft.Component):
        name = "mine"

        def log_fields(self, event):
            return {"loss": 1} if event == "step" else {}

    with pytest.raises(WeftError, match="component 'mine' logs 'loss', which the line 'step' has already"):
        go(folder, tmp_path / "out", components=[Loss()])
