"""The moving average of the weights: θ̄ ← d·θ̄ + (1 − d)·θ, whatever runs the steps."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.engines import as_graph
from tests.support.inductor import QUICK
from tests.support.more import some_of
from tests.support.tiny_run import breaking_off, write_run
from weft.acceleration import compiled
from weft.acceleration.compiler_options import inductor_options
from weft.config import load_run
from weft.errors import WeftError

pytestmark = pytest.mark.usefixtures("token_cache")

DECAY = 0.8
L0 = "method={use: lora, rank: 2, l0: {steps: 8}}"


class Recorder(weft.Component):
    """Keeps θ at the start and after every step: what an average is to be of."""

    name = "recorder"

    def begin(self, run):
        super().begin(run)
        self.weights = [self.now()]
        self.evaluated = []

    def now(self):
        return {n: p.detach().cpu().clone() for n, p in self.run.model.named_parameters() if p.requires_grad}

    def after_step(self, done):
        self.weights.append(self.now())

    def averages(self, decay=DECAY, first=0):
        """θ̄ after each step, by the equation, from the weights after step `first` on."""
        found = [{name: weight.double() for name, weight in self.weights[first].items()}]
        for weights in self.weights[first + 1 :]:
            last = found[-1]
            found.append(
                {n: decay * last[n] + (1 - decay) * weights[n].double() for n in last if n in weights}
            )
        return found


def go(file, out, *overrides, components=(), resume=False, device="cpu"):
    run = load_run(file, overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1).to(device)
    settings = {"resume": resume, "resolved": run.resolved, "progress": False, "components": components}
    return model, weft.train(model, run.training, out, **settings)


def trained(model):
    return {name: p.detach().cpu() for name, p in model.named_parameters() if p.requires_grad}


def log_of(out, event):
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def assert_average(weights, average):
    assert weights.keys() == average.keys()
    for name, value in weights.items():
        torch.testing.assert_close(value.double(), average[name], rtol=1e-5, atol=1e-6)


@pytest.fixture
def file(tmp_path):
    return write_run(tmp_path, steps=12)


@pytest.mark.parametrize(
    ("engine", "precision"),
    some_of(
        itertools.product(["eager", "graph"], ["float32", "bf16"]), [("eager", "float32"), ("graph", "bf16")]
    ),
)
def test_the_model_ends_with_the_average_and_trains_without_it(
    engine, precision, file, tmp_path, monkeypatch
):
    """`graph` runs uncaptured here; what it does on a GPU is below."""
    if engine == "graph":
        as_graph(monkeypatch)
    quiet = ["train.evaluate_every=0", f"train.precision={precision}"]
    recorder = Recorder()
    model, run = go(file, tmp_path / "ema", *quiet, f"train.ema={DECAY}", components=[recorder])
    plain, _ = go(file, tmp_path / "plain", *quiet)
    assert_average(trained(model), recorder.averages()[-1])
    last = recorder.weights[-1]
    assert all(torch.equal(value, last[name]) for name, value in trained(plain).items())
    assert not all(torch.equal(value, last[name]) for name, value in trained(model).items())
    losses = [[line["loss"] for line in log_of(tmp_path / name, "step")] for name in ("ema", "plain")]
    assert losses[0] == losses[1]
    loaded = trained(weft.load(run.folder))
    assert loaded.keys() == trained(model).keys()
    assert all(torch.equal(value, loaded[name]) for name, value in trained(model).items())


@pytest.mark.slow
def test_compiled_steps_are_averaged(tmp_path, monkeypatch):
    """With the real compiler, on a CPU."""
    monkeypatch.setattr(compiled, "inductor_options", lambda: {**inductor_options(), **QUICK})
    file = write_run(tmp_path, layers=1, steps=4, evaluate_every=2, engine="compiled", ema=DECAY)
    recorder = Recorder()
    model, run = go(file, tmp_path / "out", components=[recorder])
    assert log_of(run.folder, "end")[0]["engine"] == "compiled"
    assert_average(trained(model), recorder.averages()[log_of(run.folder, "end")[0]["best_step"]])


def test_evaluations_and_the_best_weights_are_of_the_average(file, tmp_path):
    """The scores in the log are those of a model with the averages that the equation gives."""
    recorder = Recorder()
    overrides = [f"train.ema={DECAY}", "train.evaluate_every=4", "train.checkpoint_every=0"]
    model, run = go(file, tmp_path / "out", *overrides, components=[recorder])
    end = log_of(run.folder, "end")[0]
    averages = recorder.averages()
    assert_average(trained(model), averages[end["best_step"]])
    files = list((run.folder / "checkpoints").glob("best-*.safetensors"))
    assert files
    for best in files:
        assert_average(load_file(best), averages[int(best.name.split(".")[0].removeprefix("best-"))])
    evaluations = log_of(run.folder, "evaluation")
    assert [line["step"] for line in evaluations] == [4, 8, 12]
    for line in evaluations:
        other = weft.Model(*(lambda r: (r.encoder, r.tasks, r.method))(load_run(file)), seed=1)
        with torch.no_grad():
            for name, parameter in other.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(averages[line["step"]][name])
        scores = watched_scores(other, load_run(file, overrides))
        assert scores["average"] == pytest.approx(line["average"], abs=1e-5)


def watched_scores(model, run):
    """The scores on the rows that a run evaluates."""
    from weft.data import load_split, tokenize
    from weft.evaluation.evaluate import evaluate, fixed_examples

    data = {t.name: tokenize(load_split(t, "validation"), model.tokenizer, 24) for t in run.tasks}
    rows = {name: fixed_examples(own, run.training.evaluate_rows, 1, name) for name, own in data.items()}
    return evaluate(model, data, rows)


@pytest.mark.parametrize(
    ("cut", "overrides"),
    some_of(
        [
            (7, []),
            (5, [L0]),
            (14, [L0, "train.mixed=true"]),
            (8, ["train.precision=bf16", "train.accumulate=2", "train.evaluate_every=0"]),
            (10, ["method=full", "train.stop={patience: 1}", "train.best=cat"]),
            (8, ["train.best=per_task"]),
        ],
        2,
    ),
)
def test_a_resumed_run_is_bit_identical(cut, overrides, file, tmp_path):
    every = [f"train.ema={DECAY}", *overrides]
    straight, run = go(file, tmp_path / "straight", *every)
    with breaking_off(cut), pytest.raises(KeyboardInterrupt):
        go(file, tmp_path / "broken", *every)
    assert list((tmp_path / "broken" / "checkpoints").glob("step-*"))
    resumed, again = go(file, tmp_path / "broken", *every, resume=True)
    assert run.metrics == again.metrics
    for (name, a), b in zip(straight.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_the_average_begins_anew_when_gates_are_decided(file, tmp_path):
    recorder = Recorder()
    overrides = [L0, f"train.ema={DECAY}", "train.evaluate_every=0"]
    model, _ = go(file, tmp_path / "out", *overrides, components=[recorder])
    assert len(recorder.weights) == 1 + 8 + 12
    average = recorder.averages(first=8)[-1]
    gates = {n: p for n, p in model.named_parameters() if n.endswith("alpha")}
    assert gates
    assert all((p.abs() == 10).all() and not p.requires_grad for p in gates.values())
    assert_average(trained(model), average)


@pytest.mark.parametrize("decay", [0, 1, 1.5, -0.1, "much"])
def test_a_decay_lies_between_0_and_1(decay):
    with pytest.raises(WeftError, match="ema: expected"):
        weft.Training(ema=decay)
    if not isinstance(decay, str):
        with pytest.raises(WeftError, match="expected a decay between 0 and 1"):
            weft.Ema(decay)


def test_a_run_goes_on_with_its_own_decay(file, tmp_path):
    with breaking_off(7), pytest.raises(KeyboardInterrupt):
        go(file, tmp_path / "out", components=[weft.Ema(0.9)])
    with pytest.raises(WeftError, match=r"started with decay 0.9 and cannot continue with 0.99"):
        go(file, tmp_path / "out", components=[weft.Ema(0.99)], resume=True)
    with pytest.raises(
        WeftError, match=r"contains the state of component 'ema', which this run does not have"
    ):
        go(file, tmp_path / "out", resume=True)
    with pytest.raises(WeftError, match=r"train.ema: None then, 0.9 now"):
        go(file, tmp_path / "out", "train.ema=0.9", resume=True)
    go(file, tmp_path / "out", components=[weft.Ema(0.9)], resume=True)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["graph", "compiled", "eager"])
def test_on_a_gpu_the_average_is_of_the_weights_after_the_step(engine, tmp_path):
    """A captured step is queued, not done, when the average is updated; the recorder waits after that."""
    file = write_run(tmp_path, steps=12, engine=engine, ema=DECAY, evaluate_every=4)
    recorder = Recorder()
    model, run = go(file, tmp_path / "out", components=[recorder], device="cuda")
    end = log_of(run.folder, "end")[0]
    assert end["engine"] == engine
    averages = recorder.averages()
    assert_average(trained(model), averages[end["best_step"]])
    for best in (run.folder / "checkpoints").glob("best-*.safetensors"):
        assert_average(load_file(best), averages[int(best.name.split(".")[0].removeprefix("best-"))])
