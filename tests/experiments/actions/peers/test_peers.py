"""Peers: the same tasks by PEFT, by Hugging Face's Trainer and by scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.tiny_run import write_run
from weft.config.run_file import load_run
from weft.data.splits.task_rows import rows_of_task
from weft.errors import WeftError
from weft.experiments.actions.peers import PEERS, make_peer, peer
from weft.experiments.job import Job

QUIET = SimpleNamespace(step=lambda *a: None, say=lambda text: None)


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    return load_run(write_run(tmp_path_factory.mktemp("peers"), steps=12), ["train.lr=0.003"])


def job_of(run_file, settings):
    raw = {**run_file.resolved}
    return Job("a", "1" * 64, "k", "grid.yaml", "/", raw, {"peer": settings}, out="/none", device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"use": "trainer", "lora": 2}, {"use": "trainer", "lr": 1e-3}, "sklearn"]
)
def test_every_task_is_trained_and_judged(run_file, settings):
    outcome = peer(job_of(run_file, settings), QUIET)
    assert list(outcome.metrics) == ["cat", "same", "count"]
    assert outcome.rows == {"cat": 12, "same": 12, "count": 12}
    assert list(outcome.metrics["count"]) == ["pearson", "spearman"]
    assert outcome.statistics
    assert outcome.settings["peer"] == settings
    lora = isinstance(settings, dict) and "lora" in settings
    full = isinstance(settings, dict) and not lora
    encoder = outcome.parameters["encoder"]
    assert outcome.parameters["trained"] == (3 * encoder if full else outcome.parameters["trained"])
    if lora:
        assert 0 < outcome.parameters["trained"] < encoder
    assert outcome.steps == (0 if settings == "sklearn" else 12)


def test_a_peer_has_the_rate_of_its_cell_if_that_is_set(run_file):
    assert make_peer({"use": "trainer", "lora": 2}, run_file, "cpu")._lr == 1e-3
    assert make_peer("trainer", run_file, "cpu")._lr == 3e-5
    assert make_peer("trainer", run_file, "cpu", 5e-4)._lr == 5e-4
    assert make_peer({"use": "trainer", "lr": 2e-4}, run_file, "cpu", 5e-4)._lr == 2e-4
    assert make_peer("sklearn", run_file, "cpu", 5e-4).steps == 0  # it has none, and is not in the way


def test_values_are_chosen_by_the_half_that_is_not_reported(tmp_path, monkeypatch):
    """Both halves are predicted, by models of the cell's rate; statistics are those of the reported one."""
    halves = [f"tasks.{name}.halves=true" for name in ("cat", "same", "count")]
    halved = load_run(write_run(tmp_path, steps=12), halves)
    rates = []

    class Constant:
        trained = encoder = steps = 0
        has_rate = True

        def __init__(self, run_file, device, lr):
            rates.append(lr)

        def logits(self, task, train, tests):
            size = 1 if task.kind == "regress" else len(task.labels)
            return [[np.arange(size, dtype=np.float32) + i for i in range(len(split))] for split in tests]

    monkeypatch.setitem(PEERS._entries, "constant", Constant)
    raw = {**halved.resolved, "train": {**halved.resolved["train"], "lr": 7e-4}}
    job = Job(
        "a", "1" * 64, "k", "g.yaml", "/", raw, {"peer": "constant"}, "test", True, "/none", device="cpu"
    )
    outcome = peer(job, QUIET)
    assert rates == [7e-4]
    assert set(outcome.chosen_by) == set(outcome.metrics) == {"cat", "same", "count"}
    assert all(outcome.chosen_by[task].keys() == outcome.metrics[task].keys() for task in outcome.metrics)
    assert outcome.rows == {"cat": 6, "same": 6, "count": 6}
    last = [
        np.mean([label == len(task.labels) - 1 for label in split.labels])
        for task in halved.tasks[:2]
        for name in ("validation", "test")
        for split in [rows_of_task(task, (name,)).splits[task.name, name]]
    ]
    chosen, reported = (
        [o[task]["accuracy"] for task in ("cat", "same")] for o in (outcome.chosen_by, outcome.metrics)
    )
    assert [chosen[0], reported[0], chosen[1], reported[1]] == pytest.approx(last)
    alone = peer(replace(job, chosen_by=False), QUIET)
    assert alone.chosen_by is None
    assert (alone.metrics, alone.statistics) == (outcome.metrics, outcome.statistics)


def test_scikit_learn_learns(run_file):
    """Rows whose label is a word of the text, predicted by an independent fit on the same features."""
    from sklearn.linear_model import LogisticRegression

    made = make_peer("sklearn", run_file, "cpu")
    task = run_file.tasks[0]
    train = rows_of_task(task, ("train",)).splits["cat", "train"]
    (logits,) = made.logits(task, train, [train])
    features = made._features(train.texts)
    plain = LogisticRegression(max_iter=1000).fit(features, train.labels)
    assert np.mean(np.argmax(logits, 1) == train.labels) >= plain.score(features, train.labels) - 0.2
    assert np.exp(logits).sum(1) == pytest.approx(1, abs=1e-4)


def test_the_trainer_starts_from_the_encoder(run_file):
    import torch

    from weft.encoder.load import load_encoder

    made = make_peer({"use": "trainer", "lora": 2}, run_file, "cpu")
    model = made._model(run_file.tasks[0])
    expected = load_encoder(run_file.encoder).model.state_dict()
    inner = model.get_base_model().bert.state_dict()
    same = [name for name in expected if name in inner and torch.equal(expected[name], inner[name])]
    assert "embeddings.word_embeddings.weight" in same
    plain = made._examples(
        rows_of_task(run_file.tasks[2], ("train",)).splits["count", "train"], run_file.tasks[2]
    )
    assert {"input_ids", "labels"} <= set(plain[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("sklaern", "'sklaern' does not exist; did you mean 'sklearn'"),
        ({"lora": 2}, "use: None does not exist"),
        ({"use": "trainer", "lora": 0}, "lora: expected a number above 0"),
        ({"use": "sklearn", "rows": "all"}, "rows: expected a number"),
    ],
)
def test_mistakes(run_file, settings, message):
    with pytest.raises(WeftError, match=message):
        make_peer(settings, run_file, "cpu")


def test_a_kind_that_peers_cannot_train(run_file):
    tagging = SimpleNamespace(**{**run_file.__dict__, "tasks": [SimpleNamespace(name="a", kind="tag")]})
    with pytest.raises(WeftError, match="trains tasks of the kinds classify, regress; 'a' is tag"):
        make_peer("sklearn", tagging, "cpu")
