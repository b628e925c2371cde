"""`weft show plan` and `weft policy`, in this process."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from tests.support.tiny_run import assert_refused, write_run
from weft.analysis.plots.plan_chart import LEVELS, binned, chart
from weft.cli import run
from weft.sampling.plan.plan import Plan
from weft.sampling.samplers.counterfactual import read_policy

TASKS = ["cat", "same", "count"]
SIZES = [40, 25, 9]


@pytest.fixture(scope="module")
def file(tmp_path_factory, token_cache):
    """A run file with three tasks."""
    return write_run(tmp_path_factory.mktemp("plan"), steps=50)


def said(capsys, *arguments):
    capsys.readouterr()
    code = run([str(one) for one in arguments])
    return code, capsys.readouterr()


def test_plan_draws_the_shares_over_time(file, capsys):
    code, told = said(capsys, "show", "plan", file, "train.sampler=annealed")
    assert code == 0
    lines = told.out.splitlines()
    assert "50 steps, batch size 8, sampler annealed, one task per batch" in lines[0]
    assert [line.split()[:2] for line in lines[2:5]] == [["cat", "40"], ["same", "25"], ["count", "9"]]
    assert any(line.startswith("one epoch of cat: about") for line in lines)
    assert any(line.startswith("padding: ") for line in lines)
    first = lines.index("expected share of the draws") + 2
    for line, task, size in zip(lines[first : first + 3], TASKS, SIZES, strict=True):
        name, start, course, end = line.split()
        assert name == task
        assert start == f"{100 * size / sum(SIZES):.1f}%"
        assert end == f"{100 * size**0.2 / sum(n**0.2 for n in SIZES):.1f}%"
        assert len(course) == 50  # a letter a step
        assert set(course) <= set(LEVELS)
    assert "\x1b" not in told.out
    assert max(map(len, lines[first - 1 :])) <= 80


def test_plan_in_json(file, capsys):
    code, told = said(capsys, "show", "plan", file, "train.sampler=annealed", "--json")
    found = json.loads(told.out)
    assert code == 0
    assert {"tasks", "drawn", "padding", "epoch", "fingerprint", "shares"} <= set(found)
    assert found["shares_of"] == "draws"
    plan = Plan(SIZES, "annealed", 1, 50, 8, names=TASKS)
    assert [(one["first"], one["stop"]) for one in found["shares"]] == [
        (one.first, one.stop) for one in plan.shares()
    ]
    for one in found["shares"]:
        assert list(one["share"]) == TASKS
        assert np.allclose(list(one["share"].values()), plan.share_at(one["first"]))
    code, told = said(capsys, "show", "plan", file, "--json")
    assert [(one["first"], one["stop"]) for one in json.loads(told.out)["shares"]] == [(0, 50)]


def test_plan_of_shares_that_stay(file, capsys):
    policy = "train.sampler={use: counterfactual, policy: {cat: 0.5, same: 0.5, count: 0}}"
    code, told = said(capsys, "show", "plan", file, policy)
    assert code == 0
    lines = told.out.splitlines()
    first = lines.index("expected share of the draws, the same at every step") + 1
    assert [line.split()[:2] for line in lines[first:]] == [
        ["cat", "50.0%"],
        ["same", "50.0%"],
        ["count", "0.0%"],
    ]
    assert lines[first].split()[2] == lines[first + 1].split()[2]
    assert len(lines[first + 2].split()) == 2  # no bar


def test_plan_of_candidates_says_so(file, capsys):
    code, told = said(capsys, "show", "plan", file, "train.sampler=mt_uncertainty")
    assert code == 0
    assert "expected share of the candidates, the same at every step" in told.out
    assert "the model chooses among the candidates while it trains" in told.out
    assert "candidates seen" in told.out
    found = json.loads(said(capsys, "show", "plan", file, "train.sampler=mt_uncertainty", "--json")[1].out)
    assert found["shares_of"] == "candidates"


def test_plan_draws_a_picture(file, capsys, tmp_path):
    picture = tmp_path / "plan.svg"
    code, told = said(capsys, "show", "plan", file, "train.sampler=annealed", "--plot", picture)
    assert code == 0
    assert f"written: {picture}" in told.out
    texts = [e.text for e in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert [text.split()[0] for text in texts if "→" in text] == TASKS[::-1]
    assert "50 steps, batch size 8, sampler annealed, one task per batch" in texts
    before = picture.read_bytes()
    code, told = said(capsys, "show", "plan", file, "train.sampler=annealed", "--plot", picture, "--json")
    assert f"written: {picture}" in told.err
    json.loads(told.out)
    assert picture.read_bytes() == before
    picture = tmp_path / "plan.png"
    assert said(capsys, "show", "plan", file, "--plot", picture)[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, told = said(capsys, "show", "plan", file, "--plot", tmp_path / "plan.gif")
    assert_refused(code, told, ["plan.gif", "ends in .svg or .png"])


@pytest.mark.parametrize("plain", [False, True])
def test_64_tasks_have_a_row_each_in_80_columns(plain):
    names = [f"a_long_name_of_a_task_{i}" for i in range(64)]
    plan = Plan(
        [10**6 >> (i // 4) for i in range(64)], "annealed", 1, 6000, 32, names=names, stops=[(3000, 5)]
    )
    lines = chart(plan.shares(), names, plain=plain)
    assert len(lines) == 64 + 3
    assert max(map(len, lines)) <= 80
    assert all(line.isascii() for line in lines) == plain
    assert lines[1 + 5].endswith("   0.0%")
    course = lines[1 + 5][28:-7]
    assert course[0] != " " == course[-1]  # drawn at first, and not after its stop


def test_columns_are_the_mean_of_their_steps():
    plan = Plan([1, 9, 90], {"use": "annealed", "epochs": 7}, 1, 100, 4, stops=[(61, 1)])
    each = np.stack([plan.share_at(step) for step in range(100)])
    assert np.allclose(binned(plan.shares(), 100), each)
    assert np.allclose(binned(plan.shares(), 20), each.reshape(20, 5, 3).mean(1))
    odd = binned(plan.shares(), 7)
    assert np.allclose(odd.sum(1), 1)
    assert np.allclose(odd.mean(0), each.mean(0))


def make_run(folder, sampler="uniform", best=None, windows=40, tasks=("a", "b", "c"), seed=0, **changes):
    """A run's folder as far as a policy is learned from it; a step is of one task, 4 examples each."""
    draw = np.random.default_rng(seed)
    folder.mkdir()
    train = {"sampler": {"use": sampler}, "batch_size": 4, "mixed": False, **changes}
    (folder / "run.yaml").write_text(yaml.safe_dump({"train": train}), encoding="utf-8")
    score, lines = 0.3, [{"event": "step", "step": 1, "loss": {}}]
    share = dict.fromkeys(tasks, 1 / len(tasks))
    for number in range(windows + 1):
        counts = dict(zip(tasks, draw.multinomial(20, list(share.values())).tolist(), strict=True))
        score += 0.001 * draw.normal() + (0.002 * counts[best] if best else 0.0)
        window = {"steps": 20, "examples": {k: 4 * v for k, v in counts.items()}, "share": share}
        scores = {task: {"mse": 1 - score} for task in tasks}
        event = {"event": "evaluation", "step": 20 * (number + 1), "average": score, "tasks": scores}
        lines.append({**event, "window": window})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "log.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_policy_learns_from_runs(tmp_path, capsys):
    runs = [make_run(tmp_path / f"run{seed}", best="b", seed=seed) for seed in range(3)]
    out = tmp_path / "policy.yaml"
    code, told = said(capsys, "policy", *runs, "--out", out)
    assert code == 0
    assert "120 windows (from one evaluation to the next) of 3 runs" in told.out
    table = {line.split()[0]: line.split()[1:] for line in told.out.splitlines()[2:5]}
    assert list(table) == ["a", "b", "c"]
    assert {row[0] for row in table.values()} == {"33.3%"}
    for label in ("observed", "estimated", "gain:", "gain, on held-out", "effective sample size"):
        assert label in told.out
    assert "do not show" not in told.err
    assert f"policy: {out}}}'" in told.out
    policy = read_policy(out)
    assert sum(policy.values()) == pytest.approx(1, abs=1e-9)
    assert max(policy, key=policy.get) == "b"
    code, told = said(capsys, "policy", *runs, "--out", tmp_path / "policy.json", "--json")
    found = json.loads(told.out)
    assert code == 0
    assert found["policy"] == policy == read_policy(tmp_path / "policy.json")
    assert found["runs"] == {str(folder): 40 for folder in runs}
    assert found["values"]["b"] == pytest.approx(0.002, abs=4 * found["errors"]["b"])
    assert found["estimated"]["value"] > found["observed"]["value"] + 2 * found["gain"]["error"]
    assert 0 < found["effective"] < 120
    # a task's own score is a reward too: here, by its error, the same
    other = json.loads(said(capsys, "policy", *runs, "--reward", "a", "--json")[1].out)
    assert other["values"] == pytest.approx(found["values"])


def test_policy_tells_when_the_logs_tell_nothing(tmp_path, capsys):
    folder = make_run(tmp_path / "run", windows=5)
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"event": "evaluation", "st')  # a run that was stopped
    code, told = said(capsys, "policy", folder, "--skip", 1, "--floor", 0.2)
    assert code == 0
    assert "4 windows (from one evaluation to the next) of 1 run;" in told.out
    assert "note: the logs do not show that the learned policy is better" in told.err


def change_events(folder, change):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for line in lines:
        if line["event"] == "evaluation":
            change(line)
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_windows_that_cannot_be_used_are_left_out(tmp_path, capsys):
    folder = make_run(tmp_path / "run", windows=9)

    def change(event):
        if event["step"] >= 160:
            event["window"]["share"] = {"a": 0.5, "b": 0.5, "c": 0.0}  # a task that has stopped
        if event["step"] == 100:
            event["average"] = float("nan")

    change_events(folder, change)
    code, told = said(capsys, "policy", folder, "--json")
    assert code == 0
    assert json.loads(told.out)["windows"] == 9 - 3 - 2
    assert "before step 160 is left out: c could not be sampled in it" in told.err
    assert "before step 100 is left out: a score before or after it is not a number" in told.err


def test_draws_are_examples_of_mixed_batches_and_are_believed_where_counted(tmp_path, capsys):
    folder = make_run(tmp_path / "run", best="b", windows=9)
    mixed = make_run(tmp_path / "mixed", best="b", windows=9, mixed=True)
    found = [json.loads(said(capsys, "policy", one, "--json")[1].out)["values"] for one in (folder, mixed)]
    assert found[0] != found[1]

    # short batches: fewer examples, as many draws
    def cut_short(event):
        examples = event["window"]["examples"]
        event["window"]["draws"] = {task: count // 4 for task, count in examples.items()}
        event["window"]["examples"] = {"a": 1, "b": 0, "c": 0}

    change_events(folder, cut_short)
    assert json.loads(said(capsys, "policy", folder, "--json")[1].out)["values"] == found[0]
    change_events(folder, lambda event: event["window"].pop("draws"))
    code, told = said(capsys, "policy", folder)
    assert_refused(code, told, ["had 1 examples of 80", "train.mixed=true"])


def refusals():
    def without_windows(folder):
        change_events(make_run(folder), lambda event: event.pop("window"))

    def without_evaluations(folder):
        make_run(folder)
        (folder / "log.jsonl").write_text('{"event": "step", "step": 1}\n')

    def broken(folder):
        make_run(folder)
        (folder / "log.jsonl").write_text('{"event"\n{"event": "step"}\n')

    def without_log(folder):
        make_run(folder)
        (folder / "log.jsonl").unlink()

    def without_shares(folder):
        change_events(make_run(folder, "mt_uncertainty"), lambda event: event["window"].pop("share"))

    again = "train.sampler=uniform train.evaluate_every=100"
    return {
        "windows": (without_windows, [], ["after step 20 has no window", "an earlier version", again]),
        "evaluations": (without_evaluations, [], ["has no evaluation", again]),
        "one": (lambda folder: make_run(folder, windows=1), [], ["1 window with a reward", again]),
        "turns": (
            lambda folder: make_run(folder, "round_robin"),
            [],
            ["round_robin", "tasks take turns", "its choice is not random", again],
        ),
        "weights": (
            without_shares,
            [],
            ["mt_uncertainty", "chooses by the model's weights", again],
        ),
        "nothing": (lambda folder: None, [], ["holds no run: run.yaml is missing", "weft train RUN.yaml"]),
        "log": (without_log, [], ["log.jsonl is missing", again]),
        "broken": (broken, [], ["line 1: this is not JSON"]),
        "reward": (make_run, ["--reward", "aa"], ["--reward 'aa': did you mean 'a'?", "average"]),
        "floor": (make_run, ["--floor", "0.5"], ["a floor from 0 to 1/T = 0.3333"]),
        "out": (make_run, ["--out", "policy.txt"], ["ends in .yaml, .yml, .json"]),
    }


@pytest.mark.parametrize("case", refusals())
def test_policy_refuses(tmp_path, capsys, case):
    make, options, messages = refusals()[case]
    folder = tmp_path / "run"
    make(folder)
    code, told = said(capsys, "policy", folder, *options)
    assert_refused(code, told, messages)


def test_policy_refuses_runs_that_do_not_go_together(tmp_path, capsys):
    one = make_run(tmp_path / "one")
    other = make_run(tmp_path / "other", tasks=("a", "b", "d"))
    code, told = said(capsys, "policy", one, other)
    assert_refused(code, told, ["do not have the same tasks: c, d", f"weft policy {one}"])
    assert_refused(*said(capsys, "policy", one, one), ["listed twice"])


def test_a_run_without_steps_has_no_plan(file, capsys):
    code, printed = said(capsys, "show", "plan", file, "train.steps=0")
    assert code == 2
    assert "train.steps=1000" in printed.err
