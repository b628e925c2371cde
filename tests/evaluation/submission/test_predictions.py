"""Test sets and a model's answers for them, without a model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import weft
from weft.data.tokens import tokens
from weft.errors import WeftError
from weft.evaluation import evaluate
from weft.evaluation.submission.glue import GLUE
from weft.evaluation.submission.predictions import find_test_sets, label_order, predictions_of
from weft.evaluation.submission.superglue import SUPERGLUE

NLI = ("entailment", "neutral", "contradiction")
PAIR = {"texts": ("a", "b")}
FORMS = {form.key: form for form in (*SUPERGLUE.forms, *GLUE.forms)}


def pairs(count, word):
    return [{"a": f"{word} {n}", "b": "so", "idx": n} for n in range(count)]


def task(name="mnli", labels=NLI, **settings):
    return weft.Task(name, labels=labels, id=("idx",), **PAIR, **settings)


@pytest.fixture
def stand_in(monkeypatch):
    """A model whose answers are told by the number in an example's first text."""

    def decoded(model, name, given):
        size = next(task.size for task in model.tasks if task.name == name)
        return [int(texts[0].split()[-1]) % size for texts in given.texts]

    monkeypatch.setattr(tokens, "tokenize", lambda split, tokenizer, length: split)
    monkeypatch.setattr(evaluate, "decoded", decoded, raising=False)

    def build(*tasks):
        names = [task.name for task in tasks]
        return SimpleNamespace(tasks=tasks, task_id=names.index, tokenizer=None, max_length=8)

    return build


def test_sets_that_there_are_and_reasons_for_the_others():
    mnli = task(
        files={"train": pairs(3, "t")},
        also={"ax": {"test": pairs(1104, "x")}, "mm": {"validation": pairs(2, "v")}},
    )
    rte = task("rte", ("entailment", "not_entailment"), files={"test": pairs(3000, "r")})
    found = find_test_sets(GLUE, {"mnli": mnli, "rte": rte}, ["cola"])
    assert {key: split.texts[0] for key, split in found.splits.items()} == {
        "ax": ("x 0", "so"),
        "rte": ("r 0", "so"),
    }
    assert found.splits["ax"].ids == [(n,) for n in range(1104)]
    assert found.why == {
        "cola": "requested by --fill",
        "mnli": "task 'mnli' has no test file",
        "mnli_mm": "task 'mnli' has no test file under also: mm",
        **{key: f"there is no task {key!r}" for key in ("sst2", "mrpc", "stsb", "qqp", "qnli", "wnli")},
    }
    with pytest.raises(WeftError, match="--fill mnli-mm: GLUE has no such answers; did you mean 'mnli_mm'"):
        find_test_sets(GLUE, {}, ["mnli-mm"])


def test_the_test_file_is_taken_whole_though_the_task_is_halved():
    labelled = [{**row, "label": 0} for row in pairs(4, "v")]
    files = {"validation": labelled, "test": pairs(3000, "r")}
    halved = task("rte", ("entailment", "not_entailment"), files=files, halves=True)
    found = find_test_sets(GLUE, {"rte": halved})
    assert [texts[0] for texts in found.splits["rte"].texts] == [f"r {n}" for n in range(3000)]


def test_answers_in_the_benchmarks_order_of_labels(stand_in):
    turned = task(labels=("contradiction", "entailment", "neutral"), files={"test": pairs(9796, "m")})
    model = stand_in(turned)
    answers, why = predictions_of(model, GLUE, find_test_sets(GLUE, {"mnli": turned}))
    assert list(answers) == ["mnli"]
    assert answers["mnli"].answers[:6] == [2, 0, 1, 2, 0, 1]
    assert answers["mnli"].ids == [(n,) for n in range(9796)]
    assert why["mnli_mm"] == "task 'mnli' has no test file under also: mm"


def test_a_task_that_the_model_has_not(stand_in):
    rte = task("rte", ("entailment", "not_entailment"), files={"test": pairs(3000, "r")})
    answers, why = predictions_of(stand_in(task()), GLUE, find_test_sets(GLUE, {"rte": rte}))
    assert answers == {}
    assert why["rte"] == "the model has no task 'rte'"


def test_a_task_that_two_suites_have(stand_in):
    """A run with `twins: true` has GLUE's rte and SuperGLUE's, which is named superglue_rte."""
    labels = ("entailment", "not_entailment")
    tasks = {
        "rte": task("rte", labels, files={"test": pairs(3000, "glue")}),
        "superglue_rte": task("superglue_rte", labels, files={"test": pairs(3000, "superglue")}),
    }
    assert find_test_sets(GLUE, tasks).splits["rte"].texts[0] == ("glue 0", "so")
    sets = find_test_sets(SUPERGLUE, tasks)
    assert sets.splits["rte"].texts[0] == ("superglue 0", "so")
    answers, _ = predictions_of(stand_in(*tasks.values()), SUPERGLUE, sets)
    assert list(answers) == ["rte"]


def test_a_file_that_is_not_the_official_test_set():
    rte = task("rte", ("entailment", "not_entailment"), files={"test": pairs(5, "r")})
    with pytest.raises(WeftError, match=r"'rte': found 5 examples in rows of task .* RTE.tsv takes 3,000"):
        find_test_sets(GLUE, {"rte": rte})
    assert find_test_sets(GLUE, {"rte": rte}, ["rte"]).splits == {}


def test_another_task_of_the_same_name(stand_in):
    rte = task("rte", ("entailment", "not_entailment"), files={"test": pairs(3000, "r")})
    other = task("rte", ("yes", "no"))
    with pytest.raises(
        WeftError, match="task 'rte' of the data does not match the model: kind, labels or size differ"
    ):
        predictions_of(stand_in(other), GLUE, find_test_sets(GLUE, {"rte": rte}))


def test_the_order_of_labels():
    assert label_order(FORMS["boolq"], task("boolq", ("True", "False"))) == [1, 0]
    assert label_order(FORMS["boolq"], task("boolq", ("no", "yes"))) == [0, 1]
    assert label_order(FORMS["cola"], task("cola", ("0", "1"))) == [0, 1]
    assert label_order(FORMS["stsb"], weft.Task("stsb", "regress")) is None
    for labels in (("good", "bad"), ("acceptable", "1"), ("acceptable", "unacceptable", "unsure")):
        with pytest.raises(WeftError, match=r"CoLA.tsv takes unacceptable, acceptable, .*--fill cola"):
            label_order(FORMS["cola"], task("cola", labels))
