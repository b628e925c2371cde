"""`start: auto`, rigged so that the best beginning is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import weft
from tests.support.new_task import CAT, FAST, add
from weft.bundle.load import load_changed
from weft.data import tokenize
from weft.evaluation.evaluate import evaluate
from weft.growing.heads import head_of, mapped_head, random_head, set_head
from weft.growing.rows import task_rows
from weft.growing.settings import GrowSettings
from weft.growing.start import StartValues
from weft.growing.zero_shot import zero_shot

pytestmark = pytest.mark.usefixtures("token_cache")

LORA = {"use": "lora", "rank": 3}
CA_MTL = {"use": "ca_mtl", "length": 24, "blocks": 3}


def scored(model, **settings):
    grow = GrowSettings(**settings)
    rows = task_rows(CAT, grow, 1)
    tokens = tokenize(rows.validation, model.tokenizer, 16)
    return zero_shot(StartValues(model, "cat"), grow, rows.train, rows.validation, tokens, 1), tokens


@pytest.mark.parametrize("pool", ["pooler", "cls", "mean"])
def test_scores_are_those_of_the_model_itself(pool, make):
    """Of a mapped head: the model that begins there has exactly that score."""
    model = load_changed(make(LORA, pool=pool), added=[CAT])
    maps = {"b": {"no": "z", "yes": "x"}, "a": "same"}
    found, tokens = scored(model, label_map=maps)
    for start in maps:
        StartValues(model, "cat").take(start)
        set_head(model, "cat", mapped_head(model, start, "cat", maps[start]))
        (one,) = [c for c in found.candidates if c.start == start]
        assert one.head == f"{start}'s, by label map"
        assert one.score == evaluate(model, {"cat": tokens})["tasks"]["cat"]["accuracy"]


def test_the_best_is_taken_and_its_head_begins_there(make, tmp_path):
    """A head of the right answer for most rows, another of the wrong one: the first must win."""
    bundle = make(CA_MTL)
    model = weft.load(bundle)
    with torch.no_grad():
        for name, row, sign in (("a", 0, 9.0), ("b", 1, 9.0)):
            head = head_of(model, name)
            head["weight"].zero_()
            head["bias"].zero_()[row] = sign
    model.save(bundle)
    maps = {"a": "same", "b": {"no": "x", "yes": "y"}}
    rows = {**CAT.files, "validation": [row for row in CAT.files["validation"] if row["label"] == "no"]}
    # auto is the default of a method that embeds
    grown = add(bundle, tmp_path / "out", replace(CAT, files=rows), label_map=maps)
    scores = {c.start: c for c in grown.zero_shot.candidates}
    assert list(scores) == ["a", "b", "c", "average", "random", "xavier"]
    assert (scores["a"].score, scores["b"].score) == (1.0, 0.0)
    assert scores["c"].head == "random, mean of 5 seeds"
    assert grown.zero_shot.majority == 1.0
    assert grown.zero_shot.rows == len(rows["validation"])
    assert grown.start == grown.zero_shot.best == "a"  # the first of equal ones
    assert grown.head == "a's, by label map"
    now = head_of(weft.load(tmp_path / "out"), "cat")["bias"]
    assert float(now[0] - now[1]) > 8  # two steps away from 9


def test_random_heads_are_five_and_the_majority_is_of_the_training_rows(make):
    """The score without a label map is the mean of five heads' scores, each drawn from its number."""
    model = load_changed(make(LORA), added=[CAT])
    found, tokens = scored(model)
    StartValues(model, "cat").take("b")
    each = []
    for number in range(5):
        set_head(model, "cat", random_head(model, "cat", number))
        each.append(evaluate(model, {"cat": tokens})["tasks"]["cat"]["accuracy"])
    assert len(set(each)) > 1, "heads that all score the same would not tell"
    (one,) = [c for c in found.candidates if c.start == "b"]
    assert one.score == pytest.approx(sum(each) / 5)
    rows = task_rows(CAT, GrowSettings(), 1)
    most = max(set(rows.train.labels), key=rows.train.labels.count)
    assert found.majority == rows.validation.labels.count(most) / len(rows.validation)
    flipped = replace(rows.train, labels=[1 - label for label in rows.train.labels])
    other = zero_shot(StartValues(model, "cat"), GrowSettings(), flipped, rows.validation, tokens, 1)
    assert other.majority == pytest.approx(1 - found.majority)


def test_few_rows_always_the_same(make):
    model = load_changed(make(LORA), added=[CAT])
    one, _ = scored(model, zero_shot_rows=5)
    two, _ = scored(model, zero_shot_rows=5)
    assert one == two
    assert one.rows == 5


def test_numbers_are_scored_too(make, tmp_path):
    rows = [{"text": "a cat", "label": 0.5}, {"text": "the old dog", "label": 2}, {"text": "now", "label": 1}]
    task = weft.Task("n", "regress", metrics=("mse",), files={"train": rows, "validation": rows})
    grown = add(make(LORA), tmp_path / "out", task, start="auto", label_map={"c": "same"})
    assert grown.zero_shot.metric == "mse"
    scores = {c.start: c.score for c in grown.zero_shot.candidates}
    assert grown.start == min(scores, key=scores.get)


def test_the_encoder_runs_once_a_beginning(make, tmp_path, monkeypatch):
    counted = []
    forward = weft.Model.forward

    def counting(self, *given, **more):
        if not self.training:
            counted.append(1)
        return forward(self, *given, **more)

    bundle = make(LORA)
    monkeypatch.setattr(weft.Model, "forward", counting)
    weft.add_task(bundle, CAT, tmp_path / "out", training=FAST, grow={"start": "auto"}, progress=False)
    assert len(counted) == 5 + 1  # a batch a beginning, and one at the end
