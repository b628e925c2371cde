"""The report of every kind of task: its fields, its counts and its examples."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from tests.support.every_kind import NAMES, perfect_logits, task_of_kind, tokens_of
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.evaluation.errors import ANALYSES
from weft.evaluation.errors.evaluated import EvaluatedSet
from weft.evaluation.errors.report import LONGEST, WORST, SetErrors
from weft.evaluation.evaluate import evaluate, judged
from weft.metrics import ANSWER_TYPES

ROWS = 30


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of every kind of task, with random weights."""
    tasks = [task_of_kind(name, validation=ROWS) for name in NAMES]
    return scramble(weft.Model(save_encoder(tmp_path_factory.mktemp("encoder")), tasks, "bitfit"), 1)


@pytest.fixture(scope="module")
def sets(model) -> dict[str, SetErrors]:
    """The errors of each task."""
    found: dict[str, SetErrors] = {}
    tokens = {t.name: tokens_of(t, model.tokenizer, split="validation") for t in model.tasks}
    evaluate(model, tokens, watch=lambda one: found.__setitem__(one.name, SetErrors(one)))
    return found


def test_every_answer_type_has_an_analysis():
    assert set(ANALYSES) == set(ANSWER_TYPES)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_answers(sets, name):
    errors = sets[name]
    entry = json.loads(json.dumps(errors.entry(), allow_nan=False))
    assert (entry["task"], entry["set"], entry["rows"], entry["of"]) == (name, None, ROWS, ROWS)
    assert entry["tables"]
    for table in entry["tables"]:
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        assert {column["form"] for column in table["columns"]} <= {"text", "count", "share", "number"}
        for row in table["rows"]:
            for cell, column in zip(row, table["columns"], strict=True):
                assert column["form"] != "share" or cell is None or 0 <= cell <= 1
    for matrix in entry["matrices"]:
        assert np.shape(matrix["counts"]) == (len(matrix["gold"]), len(matrix["predicted"]))
    examples = entry["examples"]
    order = [example["error"] for example in examples]
    assert order == sorted(order, reverse=True)
    if entry["wrong"] is None:
        assert len(examples) == ROWS
        assert entry["kinds"] == []
    else:
        assert 0 < entry["wrong"] == len(examples) <= ROWS  # random weights are wrong somewhere
        assert sum(x["count"] for x in entry["kinds"]) >= entry["wrong"]
        assert all(example["kinds"] for example in examples)
    for example in examples:
        assert example["probability"] is None or 0 <= example["probability"] <= 1
        assert example["input"]


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_model_has_no_errors(model, name):
    task = model.tasks[model.task_id(name)]
    tokens = tokens_of(task, model.tokenizer, max_length=64, split="validation")
    found: list[SetErrors] = []
    logits = perfect_logits(tokens)
    judged(
        task, logits, tokens, range(len(tokens)), name=name, watch=lambda one: found.append(SetErrors(one))
    )
    entry = found[0].entry()
    if entry["wrong"] is None:
        assert entry["examples"][0]["error"] == pytest.approx(0, abs=1e-5)
    else:
        assert entry["wrong"] == 0
        assert entry["examples"] == []
    # of several right choices each has a part of the probability
    if entry["calibration"] is not None and name != "put_in":
        assert entry["calibration"]["ece"] < 0.01


def test_tasks_with_probabilities_have_a_calibration(sets):
    units = {name: errors.entry()["calibration"] for name, errors in sets.items()}
    assert {name: facts["unit"] for name, facts in units.items() if facts} == {
        **dict.fromkeys(["classify", "apart", "marked", "choose", "put_in"], "example"),
        "multilabel": "label",
        "tag": "word",
    }
    assert units["multilabel"]["count"] == 3 * ROWS
    with_probability = [n for n, e in sets.items() if e.prediction(0)["probability"] is not None]
    assert set(with_probability) == {name for name, facts in units.items() if facts} | {"span"}


@pytest.mark.parametrize("name", NAMES)
def test_predictions_have_one_row_per_example(sets, name):
    errors = sets[name]
    rows = [errors.prediction(n) for n in range(len(errors))]
    entry = errors.entry()
    assert [row["row"] for row in rows] == list(range(1, ROWS + 1))
    assert sum(row["right"] is False for row in rows) == (entry["wrong"] or 0)
    by_row = {row["row"]: row for row in rows}
    for example in entry["examples"]:
        assert {k: example[k] for k in ("gold", "predicted", "probability")} == {
            k: by_row[example["row"]][k] for k in ("gold", "predicted", "probability")
        }
    json.dumps(rows, allow_nan=False)


def test_the_probability_of_a_span_is_a_softmax_over_all_spans(model):
    from weft.tasks.kinds import KINDS
    from weft.tasks.kinds.span import best_span

    task = model.tasks[model.task_id("span")]
    tokens = tokens_of(task, model.tokenizer, split="validation")
    kind, draw = KINDS["span"](), np.random.default_rng(1)
    for i in range(len(tokens)):
        example = tokens.example(i)
        starts = np.concatenate(example.channel("starts"))
        logits = draw.normal(size=(len(starts), 2)).astype(np.float32)
        total, first = 0.0, 0
        for row in example.channel("starts"):
            inside = [first + t for t in np.flatnonzero(row >= 0)]
            total += sum(
                np.exp(float(logits[a, 0] + logits[b, 1])) for a in inside for b in inside if 0 <= b - a < 30
            )
            first += len(row)
        expected = np.exp(best_span(logits, example).score) / total
        assert kind.probability([logits], task, [example])[0] == pytest.approx(expected, rel=1e-5)


def test_long_texts_are_cut_and_examples_are_few(model):
    rows = [{"text": "cat " * 400 + str(n), "label": "yes"} for n in range(WORST + 5)]
    task = task_of_kind("classify", files={"train": rows, "validation": rows}, class_weights=())
    tokens = tokens_of(task, model.tokenizer, split="validation")
    logits = [np.array([1.0 + n, 0.0], np.float32) for n in range(len(rows))]  # "no", more and more certain
    gold = [1] * len(rows)
    errors = SetErrors(
        EvaluatedSet(
            "classify", task, tokens, range(len(rows)), logits, gold, [0] * len(rows), {"accuracy": 0.0}
        )
    )
    entry = errors.entry()
    assert len(entry["examples"]) == WORST
    assert entry["wrong"] == WORST + 5
    text = entry["examples"][0]["input"]["text"]
    assert len(text) == LONGEST + 1
    assert text.endswith("…")
    assert len(errors.prediction(0)["input"]["text"]) > LONGEST  # predictions are whole
    assert {example["row"] for example in entry["examples"]} == set(range(6, WORST + 6))
