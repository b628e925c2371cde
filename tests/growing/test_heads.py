"""Heads of several forms in a model that grows: what fits is taken, what does not is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import weft
from tests.support.every_kind import rows_of_kind, task_of_kind
from tests.support.new_task import CAT, FAST, ROWS, add
from tests.support.tiny import TASKS
from weft.bundle.one_task import hashes
from weft.errors import WeftError
from weft.growing.heads import head_of, random_head

A = replace(TASKS[0], files=ROWS)
LORA = {"use": "lora", "rank": 2}
SAME = {"no": "no", "yes": "yes"}
FORMS = {
    "layers": {"layers": 2},
    "hidden": {"layers": 2, "hidden": 9},
    "pool": {"pool": "mean"},
    "task_pooler": {"pool": "task_pooler"},
    "apart": {"texts": ("a", "b"), "apart": True},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_label_map_needs_heads_of_one_form(form, make, tmp_path):
    theirs = weft.Task("x", labels=("no", "yes"), **FORMS[form])
    bundle = make(LORA, tasks=[theirs])
    with pytest.raises(WeftError, match="expected heads that differ only in their labels"):
        add(bundle, tmp_path / "out", start="x", label_map={"x": SAME})
    assert not (tmp_path / "out").exists()


def test_a_label_map_takes_every_layer_of_a_like_head(make, tmp_path):
    theirs = weft.Task("x", labels=("yes", "maybe", "no"), layers=2, hidden=5)
    bundle = make(LORA, tasks=[theirs])
    tiny = FAST.model_copy(update={"lr": 1e-9})
    new = replace(CAT, layers=2, hidden=5)
    grow = {"start": "auto", "label_map": {"x": SAME}}
    weft.add_task(bundle, new, tmp_path / "out", training=tiny, grow=grow, progress=False)
    model = weft.load(tmp_path / "out")
    theirs_now, mine = head_of(model, "x"), head_of(model, "cat")
    assert mine.keys() == theirs_now.keys() == {"weight", "bias", "hidden_0", "hidden_bias_0"}
    for part in ("hidden_0", "hidden_bias_0"):
        torch.testing.assert_close(mine[part], theirs_now[part], atol=1e-6, rtol=0)
    torch.testing.assert_close(mine["weight"], theirs_now["weight"][[2, 0]], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("key", "value"), [("layers", 3), ("pool", "mean")])
def test_a_head_is_not_trained_again_as_another(key, value, make, tmp_path):
    bundle = make(LORA)
    with pytest.raises(
        WeftError, match=f"{key}: the bundle's head has None, the task file has {value!r}; leave it out"
    ):
        weft.retrain_task(bundle, "a", replace(A, **{key: value}), tmp_path / "out", training=FAST)


def test_class_weights_of_the_task_file_count(make, tmp_path):
    bundle = make(LORA)
    for name, weights in (("plain", ()), ("weighted", (1.0, 50.0))):
        task = replace(A, class_weights=weights)
        weft.retrain_task(bundle, "a", task, tmp_path / name, training=FAST, progress=False)
    one, other = (hashes(tmp_path / name)["tasks/a.safetensors"] for name in ("plain", "weighted"))
    assert one != other


def test_nothing_of_a_cosine_head_trains(make, tmp_path):
    cosine = task_of_kind("cosine", 8)
    cosine = replace(
        cosine, files={"train": rows_of_kind("cosine", 8), "validation": rows_of_kind("cosine", 4)}
    )
    with pytest.raises(WeftError, match="nothing trains"):
        add(make(LORA), tmp_path / "out", cosine, run=tmp_path / "run", only="head")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "run").exists()


def test_a_drawn_head_has_the_pooler_it_begins_with(make, tmp_path):
    bundle = make(LORA, tasks=[weft.Task("x", size=2, pool="task_pooler")])
    model = weft.load(bundle)
    assert torch.equal(random_head(model, "x", 3)["pooler"], head_of(model, "x")["pooler"])


def test_further_sets_of_a_new_task_are_judged(make, tmp_path):
    task = replace(CAT, also={"mm": {"validation": list(CAT.files["validation"])[:5]}})
    done = add(make(LORA), tmp_path / "out", task)
    assert set(done.scores["tasks"]["cat"]) == {"accuracy", "accuracy_mm"}
    assert done.scores["rows"]["cat:mm"] == 5
