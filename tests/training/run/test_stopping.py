"""Stopping tasks, and each task's own best weights."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.whole_runs import go, stop_after
from weft.errors import WeftError
from weft.evaluation.scores import main_score
from weft.settings import SettingsError
from weft.training.run.state import State, TaskProgress
from weft.training.run.stopping import note_scores, out_of_patience
from weft.training.settings import Stop

SCORE = st.floats(0, 1) | st.just(float("nan"))
DELTA = st.sampled_from([0.0, 0.05])


@given(st.lists(st.tuples(SCORE, st.booleans()), min_size=1, max_size=12), st.integers(1, 4), DELTA)
def test_a_task_stops_when_so_many_evaluations_were_no_better(scores, patience, delta):
    """Against the rule said otherwise; evaluations before which it was not trained on do not count."""
    task = TaskProgress()
    stop = Stop(patience=patience, min_delta=delta)
    seen: list[float] = []
    for step, (score, had) in enumerate(scores, 1):
        note_scores([task], [score], [had], step, delta)
        seen.append(score if score == score else -float("inf"))
        mark, waited = seen[0], 0
        for one, (_, trained) in zip(seen[1:], scores[1:], strict=False):
            mark, waited = (one, 0) if one > mark + delta else (mark, waited + trained)
        assert out_of_patience([task], stop, step, []) == ([0] if waited >= patience else [])
        assert out_of_patience([task], stop, step, [0]) == out_of_patience([task], None, step, []) == []
        assert out_of_patience([task], Stop(patience=patience, after=step + 1), step, []) == []
        assert task.best == max(seen)
        assert seen[task.best_step - 1] == max(seen)


def test_state_survives_json():
    state = State.fresh(2)
    note_scores(state.tasks, [0.5, float("nan")], [True, True], 3, 0.0)
    state.stops.append((4, 1))
    from dataclasses import asdict

    assert State.read(json.loads(json.dumps(asdict(state))), 2) == state
    # a checkpoint from before there were these fields
    old = State.read({"step": 3, "losses": [0.0], "examples": [0.0], "stops": []}, 1)
    assert (old.tasks, old.window) == (State.fresh(1).tasks, State.fresh(1).window)


def events(run, kind):
    lines = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_a_stopped_task_is_drawn_no_more(folder, tmp_path):
    settings = ["train.stop={patience: 2}", "train.evaluate_every=2", "train.lr=0.03", "train.steps=30"]
    _, run = go(folder, tmp_path / "out", settings)
    stops = events(run, "stop")
    assert stops, "no task stopped: the test shows nothing"
    told = json.loads((run.folder / "metrics.json").read_text())["stops"]
    assert {line["task"]: line["step"] for line in stops} == told
    evaluations = events(run, "evaluation")
    for task, step in told.items():
        seen = [main_score(e["tasks"][task]) for e in evaluations if e["step"] <= step]
        assert max(seen[-2:]) <= max(seen[:-2])
        assert all(e["window"]["draws"][task] == 0 for e in evaluations if e["step"] > step)
        assert any(e["window"]["draws"][task] for e in evaluations if e["step"] <= step)
    assert events(run, "end")[0]["step"] == (max(told.values()) if len(told) == 3 else 30)


def test_a_run_whose_tasks_have_all_stopped_has_ended(folder, tmp_path):
    frozen = ["train.stop={patience: 1}", "train.evaluate_every=3", "train.lr=1e-12", "train.sampler=uniform"]
    _, run = go(folder, tmp_path / "out", frozen)
    assert events(run, "end")[0]["step"] < 20
    assert set(json.loads((run.folder / "metrics.json").read_text())["stops"]) == {"cat", "same", "count"}
    assert (run.folder / "bundle" / "bundle.json").is_file()


def test_each_task_has_its_own_best_weights(folder, tmp_path):
    """The bundle's tasks are those of their best steps, as evaluated then."""
    settings = ["train.best=per_task", "train.evaluate_every=3", "train.lr=0.05", "train.steps=24"]
    model, run = go(folder, tmp_path / "out", [*settings, "train.evaluate_rows=null"])
    best = json.loads((run.folder / "metrics.json").read_text())["step"]
    assert len(set(best.values())) > 1, "all tasks were best at one step: the test shows nothing"
    evaluations = events(run, "evaluation")
    for task, step in best.items():
        scores = {e["step"]: main_score(e["tasks"][task]) for e in evaluations}
        assert step == max(scores, key=lambda k: (scores[k], -k))
        assert main_score(run.metrics["tasks"][task]) == pytest.approx(scores[step], abs=1e-6)
    loaded = weft.load(run.folder)
    for one, other in zip(loaded.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("method", ["full", "morris", "{use: lora, rank: 2, share: all}"])
def test_shared_weights_have_one_best_step(folder, tmp_path, method):
    with pytest.raises(WeftError, match=r"best: per_task .* trains weights that tasks share \("):
        go(folder, tmp_path / "out", [f"method={method}", "train.best=per_task"])
    assert not (tmp_path / "out").exists()


MISTAKES = {
    "stop": (
        {"stop": {"patience": 2}},
        "stop: early stopping needs evaluations: set Training(evaluate_every=…)",
    ),
    "per_task": ({"best": "per_task"}, "best: per_task needs evaluations"),
    "conflict": ({"conflict": "pcgrad"}, "conflict: 'pcgrad'; a step with one task has no conflict"),
    "weights": (
        {"task_weights": {"aa": 1.0}},
        "task_weights: 'aa' is not a task of this run; did you mean 'a'",
    ),
    "cosine": ({"optimizer": "bert_adam", "schedule": "cosine"}, "schedule: 'cosine'; bert_adam computes"),
    "fsdp": (
        {"conflict": "mean", "mixed": True, "parallel": "fsdp"},
        "parallel: 'fsdp' scatters gradients before they can be merged",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_settings_that_cannot_be_meant_together(name):
    from weft.training.run.checks import check_training

    settings, message = MISTAKES[name]
    with pytest.raises(SettingsError) as told:
        check_training(weft.Training(**settings), ["a", "b"])
    assert message in str(told.value)
    check_training(weft.Training(), ["a", "b"])


def test_all_mistakes_at_once():
    from weft.training.run.checks import mistakes

    training = weft.Training(stop={"patience": 1}, conflict="pcgrad", best="x", task_weights={"b": 1.0})
    assert [key for key, _ in mistakes(training, ["a"])] == [
        "best",
        "stop",
        "conflict",
        "conflict",
        "task_weights",
    ]


def test_a_task_that_is_never_drawn_is_not_waited_for(folder, tmp_path):
    policy = "train.sampler={use: counterfactual, policy: {cat: 1, same: 0, count: 0}}"
    never = [policy, "train.stop={patience: 1}", "train.evaluate_every=1", "train.lr=1e-12"]
    _, run = go(folder, tmp_path / "out", never)
    assert json.loads((run.folder / "metrics.json").read_text())["stops"] == {"cat": 2}
    last = events(run, "step")[-1]
    assert last["step"] == 2, "the losses since the last line are lost"


def test_a_checkpoint_from_before_tasks_could_stop(folder, tmp_path):
    straight, _ = go(folder, tmp_path / "straight")
    checkpoint = stop_after(folder, tmp_path / "broken", 8)
    state = json.loads((checkpoint / "state.json").read_text())
    for key in ("parts", "tasks", "window"):
        del state["loop"][key]
    (checkpoint / "state.json").write_text(json.dumps(state))
    (checkpoint / "more.safetensors").unlink()
    resumed, _ = go(folder, tmp_path / "broken", resume=True)
    for one, other in zip(resumed.parameters(), straight.parameters(), strict=True):
        assert torch.equal(one, other)


def test_without_evaluations_the_end_tells_what_was_used(folder, tmp_path):
    seen = ["train.evaluate_every=0", "train.conflict=mean", "train.mixed=true", "method=full"]
    _, run = go(folder, tmp_path / "out", seen)
    (end,) = events(run, "end")
    assert end["window"]["steps"] == 20
    assert end["conflict"]["steps"] > 0
    assert 0 < end["usage"]["share"] == end["data_used"] <= 1
