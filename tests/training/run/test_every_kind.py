"""A run with a task of every kind: from files to a bundle that answers, broken off and resumed."""

from __future__ import annotations

import json
import math

import pytest
import torch

import weft
from tests.support.every_kind import NAMES, SETTINGS, write_every_kind
from tests.support.tiny_run import breaking_off
from weft.config import load_run

pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run file of all kinds."""
    path = tmp_path_factory.mktemp("run")
    train = {"steps": 8, "batch_size": 14, "max_length": 24, "lr": 0.005, "mixed": True, "seed": 3}
    train |= {"checkpoint_every": 2, "evaluate_every": 3, "evaluate_rows": 3, "log_every": 1, "accumulate": 2}
    write_every_kind(path, train)
    return path


def go(folder, out, overrides=(), resume=False):
    run = load_run(folder / "run.yaml", overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, pool="cls", seed=run.training.seed)
    done = weft.train(model, run.training, out, resume=resume, resolved=run.resolved, progress=False)
    return model, done


@pytest.fixture(scope="module")
def straight(folder, tmp_path_factory, token_cache):
    return go(folder, tmp_path_factory.mktemp("out") / "straight")


def test_the_run_file_means_the_tasks_themselves(folder):
    for task, name in zip(load_run(folder / "run.yaml").tasks, NAMES, strict=True):
        assert task == weft.Task(name, **SETTINGS[name])


def test_every_kind_is_trained_and_judged(straight, folder):
    model, run = straight
    assert list(run.metrics["tasks"]) == list(NAMES)
    for name, task in zip(NAMES, model.tasks, strict=True):
        assert list(run.metrics["tasks"][name]) == list(task.metrics)
        assert all(math.isfinite(value) for value in run.metrics["tasks"][name].values())
        assert run.metrics["rows"][name] == 5
    log = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    losses = {name for event in log if event["event"] == "step" for name in event["loss"]}
    assert losses == set(NAMES)
    # a bundle that finds the run's numbers again
    from weft.data.splits.task_rows import rows_of_task
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation.evaluate import evaluate

    loaded = weft.load(run.folder)
    splits = {}
    for task in load_run(folder / "run.yaml").tasks:
        splits |= rows_of_task(task, ["validation"]).splits
    data = {name: tokenize(rows, loaded.tokenizer, 24) for (name, _), rows in splits.items()}
    assert evaluate(loaded, data) == run.metrics


def test_broken_off_and_resumed_it_ends_with_the_same_weights(straight, folder, tmp_path):
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        go(folder, tmp_path / "broken")
    resumed, run = go(folder, tmp_path / "broken", resume=True)
    for (name, one), (_, other) in zip(
        straight[0].named_parameters(), resumed.named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name
    assert run.metrics == straight[1].metrics


def test_one_task_a_batch_trains_too(folder, tmp_path):
    overrides = ["train.mixed=false", "train.sampler=round_robin", f"train.steps={len(NAMES)}"]
    _, run = go(folder, tmp_path / "out", [*overrides, "train.evaluate_every=0", "train.checkpoint_every=0"])
    log = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert [list(event["loss"]) for event in log if event["event"] == "step"] == [[name] for name in NAMES]


WORDS = ["the", "cat", "sees"] * 9
CHOICES = ["a dog", "a cat", "now"]
MARKED = {"a": "the cat", "b": "a dog", "s1": 4, "e1": 7, "w2": 1, "p2": "dog"}
REQUESTS = {
    "classify": ["the cat", {"text": "the cat"}, {"text": "the cat", "label": "no", "more": 1}],
    "apart": [("the cat", "a dog"), ["the cat", "a dog"], {"a": "the cat", "b": "a dog"}],
    "regress": [("the cat", "a dog"), {"a": "the cat", "b": "a dog"}],
    "two": ["the cat", {"text": "the cat"}],
    "multilabel": ["the cat", {"text": "the cat"}],
    "cosine": [("the cat", "a dog"), {"a": "the cat", "b": "a dog"}],
    "similar": [("the cat", "a dog"), {"a": "the cat", "b": "a dog"}],
    "marked": [MARKED],
    "span": [("who sees", "the old cat sees " * 9), {"q": "who sees", "c": "the old cat sees " * 9}],
    "tag": [
        ["the", "cat", "sees"] * 9,
        " ".join(["the", "cat", "sees"] * 9),
        {"words": ["the", "cat", "sees"] * 9},
    ],
    "choose": [
        ("the cat", ["a dog", "a cat", "now"]),
        {"text": "the cat", "choices": ["a dog", "a cat", "now"]},
    ],
    "put_in": [
        ("the cat", "a @placeholder sees", ["dog", "cat"]),
        {"p": "the cat", "q": "a @placeholder sees", "e": ("dog", "cat")},
    ],
    "rank": [("the cat", ["a dog"]), {"text": "the cat", "found": ["a dog"]}],
    "pairwise": [("the cat", ("a dog", "now")), {"text": "the cat", "found": ["a dog", "now"]}],
}
KEYS = {
    "classify": {"label", "probabilities"},
    "apart": {"label", "probabilities"},
    "regress": {"value"},
    "two": {"value"},
    "multilabel": {"labels", "probabilities"},
    "cosine": {"value"},
    "similar": {"value"},
    "marked": {"label", "probabilities"},
    "span": {"answer", "start", "end", "score"},
    "tag": {"tags", "entities"},
    "choose": {"choice", "text", "probabilities"},
    "put_in": {"choice", "text", "probabilities"},
    "rank": {"order", "scores"},
    "pairwise": {"order", "scores"},
}


def near(one, other):
    """Answers that are the same but for rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    return one == pytest.approx(other, abs=1e-5) if isinstance(one, float) else one == other


def test_requests_in_every_form(straight):
    """All in one call: every form of a request gives one answer, JSON-able, and as the request alone has."""
    model = weft.load(straight[1].folder)
    requests = [(name, given) for name in NAMES for given in REQUESTS[name]]
    assert set(REQUESTS) == set(NAMES)
    mixed = model.predict(list(reversed(requests)), batch_size=7)[::-1]
    for (name, given), answer in zip(requests, mixed, strict=True):
        assert answer.keys() - {"task"} == KEYS[name]
        assert answer["task"] == name
        json.dumps(answer)
        assert near(answer, model.predict([(name, given)])[0]), name
        assert near(answer, mixed[[n for n, _ in requests].index(name)]), name
    found = {answer["task"]: answer for answer in mixed}
    context = REQUESTS["span"][0][1]
    assert context[found["span"]["start"] : found["span"]["end"]] == found["span"]["answer"]
    assert len(found["tag"]["tags"]) == 27
    assert found["choose"]["text"] == CHOICES[found["choose"]["choice"]]
    assert sorted(found["pairwise"]["order"]) == [0, 1]
    assert len(found["two"]["value"]) == 2
    assert 0 <= found["cosine"]["value"] <= 5


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("marked", ("the cat", "a dog")), "takes a dict with a, b, s1, e1, w2, p2"),
        (("marked", {k: v for k, v in MARKED.items() if k != "p2"}), "'p2' is missing"),
        (
            ("marked", {"a": "the cat", "b": "a dog", "s1": 4, "e1": 9, "w2": 1, "p2": "dog"}),
            "two positions in the text",
        ),
        (("choose", "the cat"), r"takes \(one text, a list of choices\)"),
        (("choose", ("the cat", ["a dog"])), "expected a list of two choices or more"),
        (("choose", ("the cat", "a dog")), "expected a list of two choices or more"),
        (("put_in", ("the cat", ["a", "b"])), r"takes \(a pair of texts, a list of choices\)"),
        (("tag", 4), "takes a list of words, or a text that is split at white space"),
        (("tag", []), "expected a list of words, one or more"),
        (("tag", ["the", 4]), "word 2 is 4"),
        (("span", "who?"), "takes a pair of texts"),
        (("span", ("who?", "")), "takes a pair of texts; c is ''"),
        (("rank", {"text": "q"}), "'found' is missing"),
    ],
)
def test_wrong_requests(straight, request_, message):
    with pytest.raises(weft.WeftError, match="request 1: .*" + message):
        straight[0].predict([request_])
