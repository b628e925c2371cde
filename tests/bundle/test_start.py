"""Beginning a run from another's weights, with another method."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError
from weft.model.ownership import owned

TASKS = [weft.Task("a", size=2), weft.Task("b", size=3)]


@pytest.fixture
def encoder(tmp_path):
    return save_encoder(tmp_path / "encoder")


@pytest.fixture
def trained(encoder, tmp_path):
    """A bundle of `full`, every weight of which has moved."""
    model = weft.Model(encoder, TASKS, "full", seed=1)
    with torch.no_grad():
        for item in owned(model):
            item.data.add_(0.25)
    model.save(tmp_path / "full")
    return model


def rows():
    return {"input_ids": torch.tensor([[2, 6, 7, 3], [2, 8, 9, 3]]), "task": torch.tensor([0, 1])}


def test_tasks_trained_together_then_each_by_itself(encoder, trained, tmp_path):
    model = weft.Model(encoder, TASKS, "separate", seed=5)
    (note,) = weft.start_from(model, tmp_path / "full")
    assert "has method 'full', this run has 'separate'" in note
    assert "the heads of 2 tasks" in note
    expected, found = trained.eval()(**rows()), model.eval()(**rows())
    for shape, logits in expected.by_shape.items():
        torch.testing.assert_close(found.by_shape[shape], logits)
    alone = weft.Model(encoder, TASKS[1:], "full", seed=5)
    assert weft.start_from(alone, tmp_path / "full") == []
    torch.testing.assert_close(
        alone.eval()(**{**rows(), "task": torch.tensor([0, 0])}).hidden, expected.hidden
    )


def test_adapters_on_a_trained_encoder_start_anew(encoder, trained, tmp_path):
    method = {"use": "pals", "d_s": 12, "heads": 2, "zero_init": True}
    model = weft.Model(encoder, [*TASKS, weft.Task("c", size=2)], method, seed=5)
    notes = weft.start_from(model, tmp_path / "full")
    assert [("has no task 'c'" in note, "'pals'" in note) for note in notes] == [(True, False), (False, True)]
    torch.testing.assert_close(model.eval()(**rows()).hidden, trained.eval()(**rows()).hidden)


def test_a_bundle_could_not_hold_what_is_frozen(encoder, trained, tmp_path):
    model = weft.Model(encoder, TASKS, {"use": "lora", "rank": 2})
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(
        WeftError, match=r"method 'lora' keeps the weights(.|\n)*\.merge\('a'\)\.save_pretrained"
    ):
        weft.start_from(model, tmp_path / "full")
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    # what the message says to type
    weft.load(tmp_path / "full").merge("a").save_pretrained(tmp_path / "trained")
    begun = weft.Model(tmp_path / "trained", TASKS, {"use": "lora", "rank": 2})
    torch.testing.assert_close(begun.eval()(**rows()).hidden, trained.eval()(**rows()).hidden)


def test_there_must_be_something_to_begin_from(encoder, tmp_path):
    weft.Model(encoder, TASKS, {"use": "lora", "rank": 2}).save(tmp_path / "lora")
    with pytest.raises(WeftError, match="there is nothing to start from"):
        weft.start_from(weft.Model(encoder, TASKS, "full"), tmp_path / "lora")
