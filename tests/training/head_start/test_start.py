"""Heads that start from a probe: scikit-learn's scores without a step, and never less after some."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import weft
from tests.support.engines import undropped
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.more import some_of
from tests.support.tiny_run import breaking_off, metrics_of, rows_of, save_encoder
from weft.data import load_split
from weft.data.tokens.tokens import tokenize
from weft.errors import WeftError
from weft.training.head_start.features import head_features
from weft.training.head_start.start import MOST, apply_probes, probe_heads, rows_per_task
from weft.training.settings import Training

pytestmark = pytest.mark.usefixtures("token_cache")

SETTINGS = {"batch_size": 8, "max_length": 24, "evaluate_rows": 30, "lr": 0.01, "log_every": 4}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def tasks(count=80):
    def files(name):
        return {"train": rows_of(name, count, 1), "validation": rows_of(name, 40, 2)}

    return [
        weft.Task("cat", labels=("no", "yes"), files=files("cat")),
        weft.Task("same", texts=("a", "b"), labels=("x", "y", "z"), files=files("same")),
        weft.Task("count", "regress", files=files("count")),
    ]


def model_of(encoder, method="frozen", start="probe", own=None, **more):
    return weft.Model(encoder, own or tasks(), method, seed=1, head_start=start, **more)


def go(model, out, resume=False, **settings):
    return weft.train(model, Training(**{**SETTINGS, **settings}), out, resume=resume, progress=False)


def log_of(out, event):
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_no_step_is_scikit_learn_on_the_same_rows(encoder, tmp_path):
    model = model_of(encoder)
    run = go(model, tmp_path / "run", steps=0)
    assert run.metrics["rows"]["cat"] == 40
    (line,) = log_of(tmp_path / "run", "head_start")
    assert line["tasks"]["cat"]["rows"] == 80
    fresh = model_of(encoder)
    for name in ("cat", "same"):
        task = fresh.tasks[fresh.task_id(name)]
        splits = [tokenize(load_split(task, split), fresh.tokenizer, 24) for split in ("train", "validation")]
        (x, y), (held, gold) = (
            (head_features(fresh, name, rows, range(len(rows))), np.array(rows.labels)) for rows in splits
        )
        strength = line["tasks"][name]["strength"]
        twin = LogisticRegression(C=strength / x.var(0).mean(), tol=1e-8, max_iter=20000)
        expected = (twin.fit(x - x.mean(0), y).predict(held - x.mean(0)) == gold).mean()
        assert run.metrics["tasks"][name]["accuracy"] == pytest.approx(expected, abs=1e-9)
    loaded = weft.load(tmp_path / "run")
    assert all(torch.equal(value, weights(loaded)[name]) for name, value in weights(model).items())


@pytest.mark.parametrize("every", some_of([0, 3], [3]))
@pytest.mark.parametrize("method", some_of(["full", "frozen", {"use": "lora", "rank": 2}], 1))
def test_a_run_never_ends_below_the_probe(every, method, encoder, tmp_path):
    """With a learning rate that destroys everything: the initial weights are the best ones."""
    model = model_of(encoder, method)
    expected = model_of(encoder, method)
    settings = {"steps": 7, "batch_size": 200, "evaluate_every": every, "last_evaluation": "subset"}
    run = go(model, tmp_path / "run", **settings, lr=30.0)
    first = log_of(tmp_path / "run", "evaluation")[0]
    assert first["step"] == 0
    assert run.metrics["average"] >= first["average"]
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["step"] == 0
    train = {t.name: tokenize(load_split(t, "train"), model.tokenizer, 24) for t in model.tasks}
    training = Training(**{**SETTINGS, **settings})
    apply_probes(expected, probe_heads(expected, training, list(train), train))
    assert all(torch.equal(value, weights(expected)[name]) for name, value in weights(model).items())


def test_training_goes_on_from_the_probe(encoder, tmp_path):
    """The first losses are those of the probe: lower than those of random heads, for every task."""
    losses = {}
    for start in ("random", "probe"):
        settings = {"steps": 12, "batch_size": 60, "mixed": True, "log_every": 12, "lr": 1e-7}
        go(undropped(model_of(encoder, "full", start), 0.0), tmp_path / start, **settings)
        (losses[start],) = (line["loss"] for line in log_of(tmp_path / start, "step"))
    assert all(losses["probe"][name] < losses["random"][name] for name in ("cat", "same", "count"))


@pytest.mark.parametrize("stop", some_of([0, 4, 9], [4]))
def test_a_resumed_run_is_bit_exact(stop, encoder, tmp_path):
    settings = {"steps": 12, "batch_size": 40, "evaluate_every": 5, "checkpoint_every": 3}
    straight = model_of(encoder, {"use": "lora", "rank": 2})
    go(straight, tmp_path / "straight", **settings)
    with breaking_off(stop), pytest.raises(KeyboardInterrupt):
        go(model_of(encoder, {"use": "lora", "rank": 2}), tmp_path / "broken", **settings)
    resumed = model_of(encoder, {"use": "lora", "rank": 2})
    go(resumed, tmp_path / "broken", resume=True, **settings)
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(straight).items())
    assert metrics_of(tmp_path / "broken") == metrics_of(tmp_path / "straight")


def test_a_probe_leaves_no_trace_but_the_heads(encoder):
    model = model_of(encoder, {"use": "lora", "rank": 2})
    before, random = deepcopy(weights(model)), torch.get_rng_state()
    train = {t.name: tokenize(load_split(t, "train"), model.tokenizer, 24) for t in model.tasks}
    start = probe_heads(model, Training(steps=0), list(train), train)
    assert all(torch.equal(value, before[name]) for name, value in weights(model).items())
    apply_probes(model, start)
    changed = {name for name, value in weights(model).items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if name.startswith("heads.")}
    assert torch.equal(torch.get_rng_state(), random)
    again = probe_heads(model_of(encoder, {"use": "lora", "rank": 2}), Training(steps=0), list(train), train)
    assert all((again.fits[name].weight == found.weight).all() for name, found in start.fits.items())


def test_a_trained_head_is_kept(encoder, tmp_path):
    """Training a model twice, or a bundle further, must not throw away what its heads have learnt."""
    model = model_of(encoder)
    train = {t.name: tokenize(load_split(t, "train"), model.tokenizer, 24) for t in model.tasks}
    go(model, tmp_path / "first", steps=0)
    second = probe_heads(model, Training(steps=0), list(train), train)
    assert not second.fits
    assert second.kept == dict.fromkeys(train, "already trained")
    assert "already trained" in second.line()


@pytest.mark.parametrize("start", ["random", "zero", "probe"])
def test_untrained_heads_are_known_as_such(start, encoder):
    model = model_of(encoder, start=start)
    for number, task in enumerate(model.tasks):
        head = model.heads[task.head]
        assert head.is_untrained(number)
        assert bool(head.get_parameter("weight").any()) == (start != "zero")
        with torch.no_grad():
            head.get_parameter("bias")[head.stacks["bias"].slots.of_task[number], 0] = 1e-6
        assert not head.is_untrained(number)


def test_every_kind_starts_or_says_why(encoder):
    own = [task_of_kind(name, train=30) for name in NAMES]
    model = model_of(encoder, own=own)
    train = {task.name: tokens_of(task, model.tokenizer) for task in own}
    start = probe_heads(model, Training(steps=0, max_length=24), list(train), train)
    assert set(start.fits) == {"classify", "regress", "two", "similar", "marked"}
    assert start.kept["apart"] == "3 layers"
    assert start.kept["multilabel"] == "2 layers"
    assert {start.kept[name] for name in ("span", "tag", "choose", "rank", "cosine")} == {
        *("kind span", "kind tag", "kind choose", "kind rank", "kind similarity"),
    }
    apply_probes(model, start)
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_few_rows_keep_their_heads(encoder, tmp_path):
    own = tasks(20)
    go(model_of(encoder, own=own), tmp_path / "run", steps=2)
    (line,) = log_of(tmp_path / "run", "head_start")
    assert line["kept"] == dict.fromkeys(("cat", "same", "count"), "the run is too short for 24 rows")
    assert [step["step"] for step in log_of(tmp_path / "run", "evaluation")] == []


@given(st.integers(0, 10**5), st.integers(1, 512), st.integers(1, 60))
def test_probes_cost_at_most_a_tenth_of_the_run(steps, batch, count):
    rows = rows_per_task(Training(steps=steps, batch_size=batch), count)
    assert 0 <= rows <= MOST
    if steps:
        assert rows * count <= 0.1 * 3 * steps * batch
    else:
        assert rows == MOST


def test_an_unknown_start_is_refused(encoder):
    with pytest.raises(WeftError, match="probe"):
        model_of(encoder, start="best")
