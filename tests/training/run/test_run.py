"""Whole runs of a tiny model, in this process."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
import torch
import yaml

import weft
from tests.support.tiny import TASKS, build
from tests.support.tiny_run import rows_of, save_encoder, write_run
from tests.support.whole_runs import go, log_of
from weft import cli
from weft.config import load_run
from weft.data import load_split
from weft.data.tokens.tokens import in_memory
from weft.errors import RunFailed, WeftError
from weft.evaluation.evaluate import fixed_rows
from weft.training.optim.schedule import lr_factor
from weft.training.run.log import NoLog
from weft.training.run.loop import Loop
from weft.training.run.plan import unused_rates
from weft.training.run.progress import Quiet
from weft.training.step.driver import Driver
from weft.training.step.gradients import step_seed

pytestmark = pytest.mark.usefixtures("token_cache")
SPLITS = ("train", "validation")


def test_a_run_leaves_its_folder(folder, tmp_path):
    model, run = go(folder, tmp_path / "out")
    assert {p.name for p in run.folder.iterdir()} == {
        "run.yaml",
        "log.jsonl",
        "metrics.json",
        "checkpoints",
        "bundle",
    }
    events = [e["event"] for e in log_of(run)]
    assert events[0] == "start"
    assert events[-1] == "end"
    assert events.count("evaluation") == 4
    assert events.count("checkpoint") == 6
    steps = sorted(path.name for path in (run.folder / "checkpoints").glob("step-*"))
    assert steps == ["step-00000015", "step-00000018"]
    said = json.loads((run.folder / "metrics.json").read_text())
    assert said["tasks"] == run.metrics["tasks"]
    last = log_of(run)[-1]
    assert 0 < said["seconds"] == last["seconds"]
    assert said["examples_per_second"] == last["examples_per_second"]
    # steps of one task of 8 rows at most; evaluations do not count
    assert said["examples_per_second"] >= sum(last_window(run)) / said["seconds"] * 0.99
    assert said["rows"] == {"cat": 12, "same": 12, "count": 12}  # whole splits at the end
    assert [e["rows"]["cat"] for e in log_of(run) if e["event"] == "evaluation"] == [8] * 4
    yaml.safe_load((run.folder / "run.yaml").read_text())
    # the loaded bundle gives the metrics of the run to the last digit
    assert evaluate(weft.load(run.folder), folder) == run.metrics
    assert evaluate(model, folder) == run.metrics


@pytest.mark.parametrize(
    "settings",
    [
        ["train.log_every=1", "train.evaluate_every=0"],
        ["train.log_every=100", "train.evaluate_every=4"],
        ["train.log_every=5", "train.evaluate_every=9", "train.checkpoint_every=2"],
    ],
)
def test_the_speed_of_a_run_counts_the_time_that_a_device_is_waited_for(
    folder, tmp_path, monkeypatch, settings
):
    """A GPU works on after a step was started: whoever reads the losses waits for it."""
    losses, calls = Driver.losses, []

    def late(driver):
        calls.append(time.sleep(0.05))
        return losses(driver)

    monkeypatch.setattr(Driver, "losses", late)
    _, run = go(folder, tmp_path / "out", settings)
    said = json.loads((run.folder / "metrics.json").read_text())
    waited = 0.05 * len(calls)
    assert said["seconds"] >= waited - 0.01
    assert said["examples_per_second"] * waited <= 8 * 18  # 8 rows in each of 18 steps at most


def test_the_seconds_of_a_run_begin_when_it_runs(tmp_path):
    """Set-up before `run` is no training; an evaluation of the initial weights, as after a head probe, is."""
    run = load_run(write_run(tmp_path, steps=2))
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    splits = {s: [in_memory(load_split(t, s), model.tokenizer, 24) for t in run.tasks] for s in SPLITS}
    validation = {task.name: rows for task, rows in zip(run.tasks, splits["validation"], strict=True)}
    loop = Loop(model, run.training, splits["train"], validation, tmp_path, evaluate_start=True)
    time.sleep(0.5)
    began = time.monotonic()
    loop.run(NoLog(), Quiet())
    assert 0 < loop.state.step_seconds <= loop.state.seconds <= time.monotonic() - began


def last_window(run):
    """The number of examples that each evaluation's window trained on."""
    return [sum(e["window"]["examples"].values()) for e in log_of(run) if e["event"] == "evaluation"]


def evaluate(model, folder):
    from weft.data import load_split, tokenize
    from weft.evaluation.evaluate import evaluate as run_evaluation

    tasks = load_run(folder / "run.yaml").tasks
    data = {t.name: tokenize(load_split(t, "validation"), model.tokenizer, 24) for t in tasks}
    return run_evaluation(model, data)


def test_it_learns(folder, tmp_path):
    _, run = go(
        folder, tmp_path / "out", ["method=full", "train.steps=150", "train.lr=0.003", "train.mixed=true"]
    )
    losses = [e["loss"] for e in log_of(run) if e["event"] == "step"]
    assert losses[-1]["count"] < 0.25 * losses[0]["count"]


def test_the_best_model_is_kept(folder, tmp_path):
    for best in ("average", "count"):
        _, run = go(folder, tmp_path / best, [f"train.best={best}", "train.lr=0.05", "train.steps=25"])
        seen = {}
        for e in log_of(run):
            if e["event"] == "evaluation":
                seen[e["step"]] = e["average"] if best == "average" else e["tasks"]["count"]["pearson"]
        end = log_of(run)[-1]
        assert end["best_step"] == max(seen, key=lambda step: (seen[step], -step))


def test_one_seed_gives_one_run_and_another_another(folder, tmp_path):
    runs = {}
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        model, _ = go(folder, tmp_path / name, [f"train.seed={seed}"])
        runs[name] = [p.clone() for p in model.parameters() if p.requires_grad]
    assert all(torch.equal(a, b) for a, b in zip(runs["one"], runs["two"], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(runs["one"], runs["three"], strict=True))


def test_accumulation_changes_nothing_but_rounding(folder, tmp_path):
    """With dropout off, parts of a step add up to the step."""
    config = json.loads((folder / "encoder" / "config.json").read_text())
    quiet = {**config, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "encoder" / "config.json").write_text(json.dumps(quiet))
    try:
        found = []
        for accumulate in (1, 3):
            run = load_run(
                folder / "run.yaml", [f"train.accumulate={accumulate}", "train.mixed=true", "train.steps=6"]
            )
            model = weft.Model(run.encoder, run.tasks, run.method, head_dropout=0.0)
            weft.train(model, run.training, tmp_path / str(accumulate), resolved=run.resolved, progress=False)
            found.append([p for p in model.parameters() if p.requires_grad])
    finally:
        (folder / "encoder" / "config.json").write_text(json.dumps(config))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3)


def test_absent_tasks_stay_still_or_drift(folder, tmp_path):
    """Under round robin the third step has task 2 alone; task 0 has momentum by then."""
    heads = {}
    for absent in ("still", "drift"):
        for steps in (1, 3):
            overrides = [f"train.absent={absent}", "train.sampler=round_robin", f"train.steps={steps}"]
            overrides += ["train.schedule=constant", "train.warmup=0", "train.evaluate_every=0"]
            model, _ = go(folder, tmp_path / f"{absent}{steps}", overrides)
            heads[absent, steps] = model.heads["classify-2"].weight.detach().clone()
    assert torch.equal(heads["still", 1], heads["still", 3])
    assert not torch.equal(heads["drift", 1], heads["drift", 3])


def test_every_method_sees_the_same_order(folder, tmp_path):
    plans = set()
    for method in ("lora", "full", "frozen"):
        _, run = go(folder, tmp_path / method, [f"method={method}", "train.steps=2"])
        plans.add(log_of(run)[0]["plan"])
    assert len(plans) == 1


def test_a_run_that_diverges_fails(folder, tmp_path):
    for overrides in (["train.lr=1e30", "train.clip=null", "method=full"],):
        with pytest.raises(RunFailed, match=r"step \d+: the loss of task '\w+' is .*; the run diverged"):
            go(folder, tmp_path / "out", overrides)


def test_settings_that_this_model_cannot_keep(folder, tmp_path):
    with pytest.raises(WeftError, match=r"max_length: 65; encoder .* accepts rows of at most 64 tokens"):
        go(folder, tmp_path / "out", ["train.max_length=65"])
    model = weft.Model(folder / "encoder", TASKS)
    with pytest.raises(WeftError, match="best: 'nope'"):
        weft.train(model, weft.Training(best="nope"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_learning_rates_of_single_tasks(folder, tmp_path, capsys):
    """A task's rate changes its own adapters and head alone."""
    # without clipping, whose norm is of all tasks together
    plain = ["train", str(folder / "run.yaml"), "train.steps=4", "train.evaluate_every=0", "train.mixed=true"]
    plain += ["train.clip=null", "heads.start=zero"]
    rated = [*plain, "train.lr_of={tasks: {same: 0.05}}"]
    assert cli.run([*plain, "--out", str(tmp_path / "plain")]) == 0
    assert cli.run([*rated, "--out", str(tmp_path / "rated")]) == 0
    changed = {
        task
        for task in ("cat", "same", "count")
        if len({(run / "bundle/tasks" / f"{task}.safetensors").read_bytes() for run in tmp_path.iterdir()})
        > 1
    }
    assert changed == {"same"}
    capsys.readouterr()
    assert cli.run([*plain, "train.lr_of={tasks: {sme: 1}}", "--out", str(tmp_path / "wrong")]) == 2
    assert "train.lr_of: 'sme' is not a task of this run; did you mean 'same'" in capsys.readouterr().err


def test_learning_rates_that_nothing_uses_are_reported():
    cosine = weft.Task("near", "similarity", texts=("a", "b"), range=(0, 5))
    training = weft.Training(lr_of={"shared": 0.1, "task": 0.1, "tasks": {"near": 0.2, "a": 0.3}})
    run = SimpleNamespace(training=training, model=build("bert", "full", [*TASKS, cosine]))
    assert unused_rates(run) == [
        "train.lr_of.shared: no parameter of that role trains here",
        "train.lr_of.tasks.near: no parameter that trains belongs to near alone",
    ]


def test_rows_in_memory_and_no_run_file(tmp_path):
    tasks = [
        weft.Task(
            "cat",
            labels=("no", "yes"),
            files={"train": rows_of("cat", 30, 1), "validation": rows_of("cat", 10, 2)},
        ),
        weft.Task(
            "count",
            "regress",
            files={"train": rows_of("count", 20, 1), "validation": rows_of("count", 10, 2)},
        ),
    ]
    model = weft.Model(save_encoder(tmp_path / "encoder"), tasks, "bitfit")
    run = weft.train(model, weft.Training(steps=3, max_length=16), tmp_path / "out", progress=False)
    assert set(run.metrics["tasks"]) == {"cat", "count"}
    assert weft.load(run.folder).predict([("cat", "the cat")])[0]["label"] in ("no", "yes")


def test_missing_data_is_told_before_training(tmp_path):
    model = weft.Model(save_encoder(tmp_path / "encoder"), TASKS, "bitfit")
    with pytest.raises(WeftError, match="task 'a'"):
        weft.train(model, weft.Training(steps=3, max_length=16), tmp_path / "out", progress=False)


def test_tensorboard(folder, tmp_path):
    pytest.importorskip("tensorboard")
    _, run = go(folder, tmp_path / "out", ["train.tensorboard=true", "train.steps=4"])
    assert list((run.folder / "tensorboard").glob("events*"))


def test_the_learning_rate():
    factors = [lr_factor(s, 100, 0.1, "linear") for s in range(100)]
    assert factors[0] == 0.1
    assert factors[9] == factors[10] == max(factors) == 1.0
    assert factors[99] == pytest.approx(1 / 90)
    assert lr_factor(99, 100, 0.1, "constant") == 1.0
    assert lr_factor(0, 1, 0.0, "linear") == 1.0


def test_seeds_of_steps_differ():
    seeds = {step_seed(s, k, r, p) for s in (1, 2) for k in range(50) for r in (0, 1) for p in ("a", "b")}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_watched_rows_are_always_the_same_ones():
    assert fixed_rows(10, None, 1, "a") == fixed_rows(10, 20, 1, "a") == list(range(10))
    some = fixed_rows(1000, 50, 1, "a")
    assert some == fixed_rows(1000, 50, 1, "a") == sorted(set(some))
    assert len(some) == 50
    assert some != fixed_rows(1000, 50, 2, "a")
