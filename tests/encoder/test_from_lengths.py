"""Tables of relative positions: computed once for each length where they are kept, and always the same."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from tests.support.tiny import CONFIGS, batch, build, scramble
from weft.encoder import from_lengths
from weft.encoder.anatomy import anatomy_of
from weft.encoder.from_lengths import FromLengths
from weft.encoder.weave import unweave

FAMILIES = [family for family in CONFIGS if anatomy_of(build(family, "frozen").encoder).from_lengths]


def kept(model):
    return [v for m in model.encoder.modules() for v in vars(m).values() if isinstance(v, FromLengths)]


@pytest.fixture
def keeping(monkeypatch):
    monkeypatch.setattr(from_lengths, "KEPT_ON", ("cpu",))


def test_families_with_relative_positions_have_them():
    assert {"mpnet", "deberta-v2", "deberta-v3"} <= set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["lora", "full"])
def test_it_runs_once_for_each_length(family, method, monkeypatch):
    model = scramble(build(family, method)).eval()
    batches = [batch(model, length=length, seed=seed) for seed, length in enumerate((12, 9, 12, 12, 9))]
    with torch.no_grad():
        expected = [model(**own).hidden for own in batches]
    (own,) = kept(model)
    calls = []
    monkeypatch.setattr(from_lengths, "KEPT_ON", ("cpu",))
    inner = own.inner
    own.inner = lambda first, *args, **kwargs: calls.append(first.size(-2)) or inner(first, *args, **kwargs)
    with torch.no_grad():
        for inputs, right in zip(batches, expected, strict=True):
            assert torch.equal(model(**inputs).hidden, right)
    assert calls == [12, 9]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_follow_from_lengths_is_not_kept(family, keeping):
    (own,) = kept(build(family, "frozen"))
    seen = []
    own.inner = lambda first, *args, **kwargs: seen.append(args) or first
    states = torch.zeros(2, 5, 8)
    assert own(states, None, torch.ones(1, 5, 5)) is states  # positions of the caller's own
    positions = torch.zeros(2, 5, 5, dtype=torch.long)
    assert own(positions) is positions  # one table for each row
    assert len(seen) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_copies_keep_their_own_and_unwoven_encoders_none(family, keeping):
    model = scramble(build(family, "lora")).eval()
    inputs = batch(model)
    with torch.no_grad():
        expected = model(**inputs).hidden
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert kept(other)[0].module is not kept(model)[0].module
            assert torch.equal(other(**inputs).hidden, expected)
    unweave(model.encoder)
    assert not kept(model)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_can_train_after_inference_mode(family, keeping):
    model = scramble(build(family, "full")).eval()
    own = batch(model, length=12)
    with torch.inference_mode():
        model(**own)
    model.train()(**own).hidden.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.encoder.parameters())
