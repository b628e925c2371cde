"""Runs that diverge: the task is named, the exit code is 1, and the last good weights are left."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import weft
from tests.support.engines import as_graph
from tests.support.not_finite import contents, spoil
from tests.support.tiny_run import write_run
from tests.support.whole_runs import go, log_of
from weft import cli
from weft.errors import Diverged, RunFailed, WeftError
from weft.training.run.divergence import check_weights
from weft.training.run.loop import Loop
from weft.utils.checksums import SEAL
from weft.utils.processes import Processes

pytestmark = pytest.mark.usefixtures("token_cache")

HEAD = "heads.classify-3.weight"  # of task same
NO_EVALUATION = "train.evaluate_every=0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("diverging")).parent


class Overflow(weft.Component):
    """In the place of an update that overflows: after `at` steps some weights are no numbers."""

    name = "overflow"

    def __init__(self, at, change=None):
        self.at, self.change = at, change or (lambda model: spoil(model, HEAD, slot=0))

    def after_step(self, done):
        if done.step.number == self.at - 1:
            self.change(self.run.model)


def huge_head(model):
    """Finite weights, with which logits overflow."""
    with torch.no_grad():
        model.get_parameter(HEAD).fill_(3e38)


def fail(folder, out, at, overrides=(), match="", **settings):
    """A run that diverges after `at` steps; returns the error."""
    overflow = Overflow(at, settings.pop("change", None))
    with pytest.raises(Diverged, match=match) as caught:
        go(folder, out, overrides, components=[overflow], **settings)
    assert not (out / "metrics.json").exists()
    return str(caught.value)


def bundle_weights(out):
    return load_file(out / "bundle" / "tasks" / "same.safetensors")[HEAD]


def best_file(out):
    (file,) = (f for f in (out / "checkpoints").glob("best-*.safetensors") if ".copy." not in f.name)
    return load_file(file)


def lines(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_the_last_update_of_a_run_overflows(folder, tmp_path, capsys):
    """Without any help: a rate so large that the only update is infinite. Its loss was finite."""
    arguments = [
        "train.steps=1",
        "train.lr=1e39",
        NO_EVALUATION,
        "train.warmup=0",
        "--out",
        str(tmp_path / "o"),
    ]
    assert cli.run(["train", str(folder / "run.yaml"), *arguments]) == 1
    told = capsys.readouterr().err
    assert "after step 0: weights of task '" in told
    assert "are NaN or infinite (" in told
    assert "no good weights are left" in told
    assert "Traceback" not in told
    assert not (tmp_path / "o" / "bundle").exists()
    assert not (tmp_path / "o" / "metrics.json").exists()


@pytest.mark.parametrize("at", [20, 12])
def test_the_best_weights_are_kept_as_a_bundle(folder, tmp_path, capsys, at):
    """At the end of the run, and between two evaluations, where a checkpoint is due first."""
    out = tmp_path / "out"
    message = fail(
        folder, out, at, match=rf"after step \d+: weights of task 'same' are NaN or infinite \({HEAD}\)"
    )
    best = next(line for line in reversed(lines(out)) if line["event"] == "diverged")
    assert best["step"] >= at
    assert torch.equal(bundle_weights(out), best_file(out)[HEAD][0])
    assert f"are in {out / 'bundle'}; evaluate them with: weft.evaluate({str(out)!r})" in message
    assert "its best weights, after " in message
    assert "Training(lr=…) below 0.01" in message
    scores = weft.evaluate(out, progress=False)
    assert np.isfinite(scores["average"])
    code = cli.run(["evaluate", str(out), "--json"])
    assert (code, json.loads(capsys.readouterr().out)["average"]) == (0, scores["average"])


def test_the_model_in_memory_has_the_good_weights_too(folder, tmp_path):
    run = weft.load_run(folder / "run.yaml")
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    with pytest.raises(RunFailed):
        weft.train(
            model,
            run.training,
            tmp_path / "o",
            resolved=run.resolved,
            progress=False,
            components=[Overflow(9)],
        )
    assert torch.equal(model.get_parameter(HEAD).data, best_file(tmp_path / "o")[HEAD])


def test_without_evaluations_the_last_checkpoint_is_kept(folder, tmp_path):
    out = tmp_path / "out"
    message = fail(folder, out, 8, [NO_EVALUATION])
    checkpoint = max((out / "checkpoints").glob("step-*"))
    assert checkpoint.name == "step-00000006"  # that of step 9 would have held the bad weights
    assert "the weights of its last checkpoint, after 6 steps, are in" in message
    assert torch.equal(bundle_weights(out), load_file(checkpoint / "weights.safetensors")[HEAD][0])


def test_a_run_goes_on_from_its_last_good_checkpoint(folder, tmp_path):
    """The bad weights have left no trace: without what made them, the run ends as if it never had them."""
    fail(folder, tmp_path / "a", 13)
    model, run = go(folder, tmp_path / "a", resume=True, components=[Overflow(99)])
    other, expected = go(folder, tmp_path / "b", components=[Overflow(99)])
    assert run.metrics == expected.metrics
    assert [e["event"] for e in log_of(run)].count("diverged") == 0
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


def test_outputs_that_overflow_end_the_run_too(folder, tmp_path):
    """The weights are finite. During training, and in the last evaluation, which has other rows."""
    pattern = r"evaluation after 10 steps: task 'same': the model's outputs for 8 of 8 examples are NaN or"
    message = fail(folder, tmp_path / "a", 10, match=pattern, change=huge_head)
    assert "its best weights, after 5 steps" in message
    pattern = "evaluation after 20 steps: task 'same': the model's outputs for 12 of 12 examples"
    fail(folder, tmp_path / "b", 20, [NO_EVALUATION], match=pattern, change=huge_head)


def test_the_weights_that_failed_are_not_kept_as_good_ones(folder, tmp_path, monkeypatch):
    """The best weights pass on the rows of the evaluations, and fail on others, at the end."""
    finish = Loop.finish

    def finish_badly(self, *args, **kwargs):
        finish(self, *args, **kwargs)
        huge_head(self.model)

    monkeypatch.setattr(Loop, "finish", finish_badly)
    out = tmp_path / "out"
    with pytest.raises(Diverged, match="outputs for 12 of 12") as caught:
        go(folder, out)
    assert "the weights of its last checkpoint, after 18 steps" in str(caught.value)
    assert bundle_weights(out).abs().max() < 1e3


@pytest.mark.parametrize(
    ("method", "whose"),
    [
        ("method=full", r"after step 6, whose examples were of task '\w+': weights of the encoder are"),
        (
            "method={use: lora, rank: 2, share: all}",
            r"after step 6, whose examples were of task '\w+': weights that all tasks share are",
        ),
        ("method=separate", "after step 6: weights of task 'cat' are"),
    ],
)
def test_weights_that_tasks_share_name_the_tasks_of_the_step(folder, tmp_path, method, whose):
    def first_trained(model):
        parts = ("encoder.", "adapters.")
        named = model.named_parameters()
        spoil(model, next(n for n, p in named if p.requires_grad and n.startswith(parts)))

    # a checkpoint after every step: the loss of step 8 would be NaN before that
    fail(folder, tmp_path / "out", 7, [method, "train.checkpoint_every=1"], whose, change=first_trained)


def test_a_loss_that_is_no_number_keeps_the_best_weights(folder, tmp_path):
    out = tmp_path / "out"
    overrides = ["train.checkpoint_every=0"]
    message = fail(folder, out, 7, overrides, r"step \d+: the loss of task 'same' is nan; the run diverged")
    assert "its best weights, after 5 steps" in message
    assert torch.equal(bundle_weights(out), best_file(out)[HEAD][0])


def test_a_captured_run_keeps_its_weights(folder, tmp_path, monkeypatch):
    """Losses stay on the device until a line of the log: the run goes on for a while with bad weights."""
    as_graph(monkeypatch)
    out = tmp_path / "out"
    message = fail(folder, out, 6, ["train.log_every=50", "train.checkpoint_every=0"])
    assert "its best weights, after 5 steps" in message
    assert torch.equal(bundle_weights(out), best_file(out)[HEAD][0])


def test_each_task_keeps_its_own_best_weights(folder, tmp_path):
    out = tmp_path / "out"
    fail(folder, out, 18, ["train.best=per_task"])
    assert bundle_weights(out).isfinite().all()
    assert len(list((out / "checkpoints").glob("best-task*.safetensors"))) >= 3
    assert weft.load(out)


def test_a_moving_average_is_kept_as_the_run_would_have_saved_it(folder, tmp_path):
    out = tmp_path / "out"
    fail(folder, out, 8, [NO_EVALUATION, "train.ema=0.5"])
    checkpoint = max((out / "checkpoints").glob("step-*"))
    averages = load_file(checkpoint / "more.safetensors")
    assert torch.equal(bundle_weights(out), averages[f"ema/{HEAD}"][0])
    assert not torch.equal(bundle_weights(out), load_file(checkpoint / "weights.safetensors")[HEAD][0])


def test_undecided_gates_make_no_bundle(folder, tmp_path):
    overrides = ["method={use: lora, rank: 2, l0: {steps: 8}}", "train.steps=4"]
    message = fail(folder, tmp_path / "a", 7, overrides)
    assert "no good weights are left" in message
    assert not (tmp_path / "a" / "bundle").exists()
    # in the second phase, but with a checkpoint of the first one only
    fail(folder, tmp_path / "b", 9, [*overrides, NO_EVALUATION, "train.checkpoint_every=7"])
    assert not (tmp_path / "b" / "bundle").exists()


def test_a_checkpoint_with_such_weights_is_not_resumed(folder, tmp_path):
    """Earlier versions wrote them."""
    out = tmp_path / "out"
    fail(folder, out, 8, [NO_EVALUATION])
    older, checkpoint = sorted((out / "checkpoints").glob("step-*"))
    shutil.rmtree(older)
    file = checkpoint / "weights.safetensors"
    weights = load_file(file)
    weights[HEAD][0, 0, 0] = float("nan")
    save_file(weights, file)
    state = json.loads((checkpoint / "state.json").read_text())
    for key in (SEAL, "files", "best"):  # they wrote no checksums
        del state[key]
    (checkpoint / "state.json").write_text(json.dumps(state))
    with pytest.raises(WeftError, match=rf"{file}: weights are NaN or infinite \({HEAD}\)"):
        go(folder, out, [NO_EVALUATION], resume=True, components=[Overflow(99)])


def test_a_bundle_that_grows_is_unchanged(folder, tmp_path):
    """`weft task add` trains in a folder of its own, and writes the bundle last."""
    _, run = go(folder, tmp_path / "run", ["train.steps=2"])
    before = contents(run.folder / "bundle")
    task = next(task for task in weft.load_run(folder / "run.yaml").tasks if task.name == "cat")
    new = weft.Task("new", labels=("no", "yes"), files=task.files)
    training = weft.Training(steps=1, lr=1e39, warmup=0, max_length=24)
    for out in (tmp_path / "new", run.folder / "bundle"):
        with pytest.raises(RunFailed, match="after step 0: weights of task 'new' are NaN or infinite"):
            weft.add_task(run.folder, new, out, training=training, progress=False)
    assert contents(run.folder / "bundle") == before
    assert not (tmp_path / "new").exists()


def test_the_files_of_a_run_are_json_whatever_a_metric_returns(folder, tmp_path, monkeypatch):
    """A user's metric may have no value; the logits are finite, and the run does not fail."""
    monkeypatch.setattr("weft.metrics.numbers._finite", lambda value: float("nan"))
    run = weft.load_run(folder / "run.yaml")
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    done = weft.train(model, run.training, tmp_path / "out", resolved=run.resolved, progress=False)

    def refuse(name):
        pytest.fail(f"{name} is no JSON")

    metrics = json.loads((done.folder / "metrics.json").read_text(), parse_constant=refuse)
    assert metrics["tasks"]["count"]["pearson"] is None
    assert metrics["average"] is None
    for line in (done.folder / "log.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


class Second(Processes):
    """The first of two processes, of which the other has found something."""

    def __init__(self, other):
        super().__init__(0, 2)
        self.other = other

    def sum_array(self, values):
        return values + len(self.other)

    def gathered(self, value):
        return [value, self.other]


def test_all_processes_end_together(folder):
    """A shard is in one process only; the others must not go on and wait for it."""
    run = weft.load_run(folder / "run.yaml")
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    check_weights(model, 3, ["cat"], run.training, Second([]))
    with pytest.raises(Diverged, match=rf"\({HEAD}\)") as caught:
        check_weights(model, 3, ["cat"], run.training, Second([HEAD]))
    assert caught.value.everywhere
