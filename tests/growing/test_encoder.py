"""`grow.train_encoder`: what of the encoder trains with a new task, and what the new bundle holds."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.new_task import CAT, FAST, add, answers, assert_same
from tests.support.tiny import TASKS
from weft.bundle.load import load_changed
from weft.bundle.save import task_tensors
from weft.errors import WeftError
from weft.growing.prepare import try_starts

pytestmark = pytest.mark.usefixtures("token_cache")

CA_MTL = {"use": "ca_mtl", "length": 24, "blocks": 3, "train_encoder": "layers 1"}
LORA = {"use": "lora", "rank": 3}


def encoder_of(folder):
    return dict(weft.load(folder).encoder.named_parameters())


def test_nothing_is_frozen_as_in_the_paper(make, tmp_path):
    """CA-MTL, section 3.5.4: the new vector is copied, the head is new, and everything trains."""
    bundle = make(CA_MTL)
    grown = add(bundle, tmp_path / "out", only="all", start="b", train_encoder="all")
    assert "the method of the new bundle has train_encoder: 'all', before 'layers 1'" in grown.notes
    assert any("the answers of a, b, c have changed" in note for note in grown.notes)
    before, after = encoder_of(bundle), encoder_of(tmp_path / "out")
    read = [name for name in before if "pooler" not in name and "token_type" not in name]
    assert not [name for name in read if torch.equal(before[name], after[name])]
    assert json.loads((tmp_path / "out" / "bundle.json").read_text())["method"]["train_encoder"] == "all"
    # the other tasks' own tensors stay, and the bundle grows further as any other
    for name in "abc":
        one, two = (load_file(f / "tasks" / f"{name}.safetensors") for f in (bundle, tmp_path / "out"))
        assert all(torch.equal(one[key], two[key]) for key in one)
    weft.remove_task(tmp_path / "out", "cat", tmp_path / "less")
    answers(tmp_path / "less", "abc")


def test_the_start_is_the_bundle(make, tmp_path):
    """Without a step nothing but the choice of what trains differs."""
    bundle = make(CA_MTL)
    none = FAST.model_copy(update={"steps": 0})
    settings = {"only": "all", "start": "b", "train_encoder": "all"}
    weft.add_task(bundle, CAT, tmp_path / "out", training=none, grow=settings, progress=False)
    expected = load_changed(bundle, added=[CAT])
    model = weft.load(tmp_path / "out")
    for name, parameter in expected.encoder.named_parameters():
        assert torch.equal(parameter, model.encoder.get_parameter(name)), name
    assert_same(answers(bundle, "abc"), answers(tmp_path / "out", "abc"))


def test_a_method_that_shares_nothing_can_train_the_encoder_too(make, tmp_path):
    grown = add(make(LORA), tmp_path / "out", only="all", train_encoder="layers 1")
    assert any("(encoder)" in note for note in grown.notes)
    assert weft.load(tmp_path / "out").method.train_encoder == "layers 1"


def test_less_than_the_method_trains_leaves_the_method_as_it_is(make, tmp_path):
    bundle = make({**CA_MTL, "train_encoder": "all"})
    grown = add(bundle, tmp_path / "out", only="all", start="b", train_encoder="none")
    assert not any("the method of the new bundle" in note for note in grown.notes)
    before, after = encoder_of(bundle), encoder_of(tmp_path / "out")
    assert all(torch.equal(before[name], after[name]) for name in before)
    one, two = (load_file(folder / "shared.safetensors") for folder in (bundle, tmp_path / "out"))
    assert one.keys() == two.keys()
    assert not all(torch.equal(one[key], two[key]) for key in one)  # the shared adapters have moved
    assert weft.load(tmp_path / "out").method.train_encoder == "all"


def test_mistakes(make, tmp_path):
    bundle = make(CA_MTL)
    for settings, message in (
        ({"train_encoder": "all"}, "grow.only is 'task', which trains nothing that tasks share"),
        ({"only": "all", "train_encoder": "layers 0"}, "such as all, or one that they contain"),
        ({"only": "all", "train_encoder": "upper"}, "expected none, all, biases, norms"),
    ):
        with pytest.raises(WeftError, match=message):
            add(bundle, tmp_path / "out", start="b", **settings)
    with pytest.raises(WeftError, match="an encoder of its own; leave it out"):
        add(make("separate", "apart"), tmp_path / "out", only="all", train_encoder="all")
    with pytest.raises(WeftError, match="it applies to new tasks only"):
        weft.retrain_task(
            bundle, "a", TASKS[0], tmp_path / "out", training=FAST, grow={"train_encoder": "all"}
        )
    assert not (tmp_path / "out").exists()


def test_the_learning_rate_of_an_encoder_that_begins_to_train(make, tmp_path):
    """That of `full`, not that of LoRA, which is ten times as high."""
    free = FAST.model_copy(update={"lr": None})
    for name, settings, lr in (
        ("all", {"only": "all", "train_encoder": "all"}, 1e-4),
        ("task", {"only": "all"}, 1e-3),
    ):
        out, run = tmp_path / name, tmp_path / f"run-{name}"
        weft.add_task(
            make(LORA, f"b-{name}"), CAT, out, training=free, grow=settings, run=run, progress=False
        )
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        assert max(line["lr"] for line in lines if line["event"] == "step") == pytest.approx(lr / 2)


def test_the_table_of_starts_without_training(make, tmp_path):
    """It is the table that `start: auto` decides by, and leaves no trace."""
    bundle = make(CA_MTL)
    maps = {"a": "same"}
    before = sorted(tmp_path.rglob("*"))
    scores, notes = try_starts(bundle, CAT, training=FAST, grow={"label_map": maps})
    assert sorted(tmp_path.rglob("*")) == before
    assert notes == ()
    grown = add(bundle, tmp_path / "out", label_map=maps)
    assert scores == grown.zero_shot
    assert [c.start for c in scores.candidates] == ["a", "b", "c", "average", "random", "xavier"]


@pytest.mark.parametrize("head_start", ["probe", "random"])
def test_the_new_head_starts_from_a_probe_or_at_random(head_start, make, tmp_path):
    bundle = make(LORA)
    none = FAST.model_copy(update={"steps": 0})
    settings = {"head_start": head_start, "start": "random"}
    weft.add_task(bundle, CAT, tmp_path / "out", training=none, grow=settings, progress=False)
    head = load_file(tmp_path / "out" / "tasks" / "cat.safetensors")["heads.classify-2.weight"]
    initial = task_tensors(load_changed(bundle, added=[CAT]), "cat")["heads.classify-2.weight"]
    assert torch.equal(head, initial) == (head_start == "random")
