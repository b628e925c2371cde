"""Row statistics made beside an evaluation, from the same answers."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.tiny import build, scramble
from tests.support.tiny_run import write_run
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.errors import WeftError
from weft.evaluation import evaluate as module
from weft.evaluation.evaluate import evaluate
from weft.evaluation.rows import RunRows, pack, unpack
from weft.metrics import METRICS, metric

TOKENIZER = tiny_tokenizer("words")


@pytest.fixture(scope="module")
def model():
    return scramble(build("bert", "lora", [task_of_kind(name, 6) for name in NAMES]))


@pytest.fixture(scope="module")
def data(model):
    return {task.name: tokens_of(task, TOKENIZER) for task in model.tasks}


def recomputed(rows, weights=None):
    """The metrics of a set from its row statistics."""
    weights = np.ones((1, rows.units.count)) if weights is None else weights
    return {
        name: METRICS[name].rows.evaluator([arrays], rows.units)(weights)[0, 0]
        for name, arrays in rows.arrays.items()
    }


def test_the_metrics_of_every_kind_follow_from_its_rows(model, data):
    collect = {}
    scores = evaluate(model, data, collect=collect)
    assert list(collect) == list(data)
    run = unpack(pack(RunRows(collect)))
    assert run.metrics() == scores["tasks"]
    for name, rows in run.sets.items():
        assert rows.rows == scores["rows"][name]
        assert recomputed(rows) == pytest.approx(scores["tasks"][name])


def test_rows_cost_no_pass_and_nothing_if_nobody_wants_them(model, data, monkeypatch):
    passes, made = [], []
    answers, collect_rows = module.answers, module.collect_rows
    monkeypatch.setattr(module, "answers", lambda *a, **k: passes.append(1) or answers(*a, **k))
    monkeypatch.setattr(module, "collect_rows", lambda *a: made.append(1) or collect_rows(*a))
    without = evaluate(model, data)
    assert (len(passes), len(made)) == (1, 0)
    assert evaluate(model, data, collect={}) == without
    assert (len(passes), len(made)) == (2, len(data))


def test_chosen_rows_and_further_sets(model, data):
    """A further set has its own entry; a part of a set has another fingerprint than the whole."""
    whole, part, again = {}, {}, {}
    name = NAMES[0]
    sets = {name: data[name], f"{name}:mm": data[name]}
    scores = evaluate(model, sets, collect=whole)
    evaluate(model, sets, rows={name: [0, 1], f"{name}:mm": range(6)}, collect=part)
    evaluate(scramble(build("bert", "frozen", [task_of_kind(name, 6)])), sets, collect=again)
    assert RunRows(whole).metrics() == scores["tasks"]
    assert whole[name].gold == whole[f"{name}:mm"].gold == again[name].gold != part[name].gold
    assert (part[name].rows, part[f"{name}:mm"].rows) == (2, 6)


def test_groups_are_units():
    task = task_of_kind("classify", 6)
    tokens = tokens_of(task, TOKENIZER)
    object.__setattr__(tokens.split, "groups", [("q1",), ("q1",), ("q2",), ("q3",), ("q3",), ("q3",)])
    collect = {}
    evaluate(build("bert", "frozen", [task]), {task.name: tokens}, collect=collect)
    units = collect[task.name].units
    assert units.count == 3
    assert units.of.tolist() == [0, 0, 1, 2, 2, 2]


def test_a_metric_without_row_statistics_keeps_its_score(monkeypatch):
    @metric("labels")
    def constant(gold, predictions, groups=None):
        return 0.5

    monkeypatch.setitem(METRICS._entries, "constant", constant)
    task = task_of_kind("classify", 6, metrics=("accuracy", "constant"))
    collect = {}
    evaluate(build("bert", "frozen", [task]), {task.name: tokens_of(task, TOKENIZER)}, collect=collect)
    rows = unpack(pack(RunRows(collect))).sets[task.name]
    assert rows.scores["constant"] == 0.5
    assert list(rows.arrays) == ["accuracy"]


def test_runs_of_single_tasks_are_merged(model, data):
    parts = []
    for name in NAMES[:2]:
        collect = {}
        evaluate(model, {name: data[name]}, collect=collect)
        parts.append(RunRows(collect))
    assert list(parts[0].merged(parts[1]).sets) == list(NAMES[:2])
    assert list(parts[0].merged(parts[1]).only({NAMES[1]}).sets) == [NAMES[1]]
    with pytest.raises(WeftError, match=f"{NAMES[0]}: two runs of one variant and seed"):
        parts[0].merged(parts[0])


def test_the_public_function_collects_too(tmp_path):
    run_file = weft.load_run(write_run(tmp_path))
    model = weft.Model(run_file.encoder, run_file.tasks, "frozen")
    collect = {}
    scores = weft.evaluate(model, collect=collect, progress=False)
    assert RunRows(collect).metrics() == scores["tasks"]
