"""What is loaded is in eval mode throughout, however its bundle was made."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.conformance.table import METHODS
from tests.support.apart import LORA, A, B
from tests.support.new_task import CAT, FAST, add
from tests.support.tiny import TASKS, batch, scramble
from weft.model.transforms.quantize import quantize

GATES = {"use": "lora", "rank": 2, "l0": {"steps": 1}}


def in_training(module):
    return [name for name, part in module.named_modules() if part.training]


@pytest.mark.parametrize("method", METHODS)
def test_every_part_of_a_loaded_model(encoder, tmp_path, method):
    model = scramble(weft.Model(encoder, TASKS, METHODS[method], head_dropout=0.5)).train()
    model.save(tmp_path / "bundle")
    loaded = weft.load(tmp_path / "bundle")
    assert in_training(loaded) == []
    with torch.no_grad():  # no dropout: twice the same
        one, two = (loaded.run(**batch(loaded)).logits for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_other_ways_to_load_and_change_a_bundle(encoder, tmp_path):
    model = scramble(weft.Model(encoder, [A], LORA, max_length=FAST.max_length)).train()
    model.save(tmp_path / "a", with_encoder=True)
    assert in_training(weft.Model.from_pretrained(tmp_path / "a")) == []
    assert in_training(weft.load(tmp_path / "a", device="cpu")) == []
    add(tmp_path / "a", tmp_path / "added")
    assert in_training(weft.load(tmp_path / "added")) == []
    weft.copy_task(tmp_path / "added", CAT.name, tmp_path / "a", out=tmp_path / "copied")
    assert in_training(weft.load(tmp_path / "copied")) == []
    other = scramble(weft.Model(encoder, [B], LORA)).save(tmp_path / "b")
    weft.assemble([tmp_path / "a", other], tmp_path / "assembled")
    assert in_training(weft.load(tmp_path / "assembled")) == []


def test_models_made_of_a_loaded_one(encoder, tmp_path):
    scramble(weft.Model(encoder, [A, B], GATES)).save(tmp_path / "gates")
    loaded = weft.load(tmp_path / "gates")
    assert in_training(loaded.compact()) == []
    assert in_training(quantize(loaded)) == []
    scramble(weft.Model(encoder, [A, B], LORA)).save(tmp_path / "lora")
    assert in_training(weft.load(tmp_path / "lora").merge("a")) == []


def test_training_turns_dropout_on_and_leaves_eval_mode(encoder, tmp_path):
    """A model that was loaded trains as before: each step puts it into training mode."""
    weft.Model(encoder, [CAT], LORA, max_length=FAST.max_length).save(tmp_path / "bundle")
    seen = []

    class Watch(weft.Component):
        name = "watch"

        def after_step(self, done):
            seen.append(len(in_training(self.run.model)))

    loaded = weft.load(tmp_path / "bundle")
    loaded.tasks = (CAT,)
    weft.train(loaded, FAST, tmp_path / "run", progress=False, components=[Watch()])
    assert seen == [len(list(loaded.modules()))] * FAST.steps
    assert in_training(loaded) == []
