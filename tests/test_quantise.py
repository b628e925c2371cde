from __future__ import annotations

import pytest
import torch

from tests.conformance.table import METHODS
from tests.tiny import FAMILIES, batch, build, scramble
from weft.errors import WeftError
from weft.quantise import quantise


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_near_the_model_and_leaves_it_alone(family):
    model = scramble(build(family, METHODS["lora"]))
    inputs = batch(model)
    with torch.no_grad():
        plain = model.run(**inputs).hidden
        smaller = quantise(model)
        found = smaller.run(**inputs).hidden
        assert torch.equal(model.run(**inputs).hidden, plain)
    off = ((found - plain).norm() / plain.norm()).item()
    assert 0 < off < 0.08
    assert {n: p.shape for n, p in smaller.named_parameters()} == {
        n: p.shape for n, p in model.named_parameters()
    }


def test_adapters_still_act():
    model = quantise(scramble(build("bert", METHODS["lora-everywhere"])))
    inputs = batch(model)
    with torch.no_grad():
        plain = model.run(**inputs).hidden
        other = model.run(**{**inputs, "task": (inputs["task"] + 1) % 4}).hidden
        with model.adapters_off():
            bare = model.run(**inputs).hidden
    assert not torch.allclose(plain, other, atol=1e-3)
    assert not torch.allclose(plain, bare, atol=1e-3)


def test_bodies_of_their_own_are_all_taken():
    model = scramble(build("bert", "separate"))
    inputs = batch(model)
    smaller = quantise(model)
    with torch.no_grad():
        apart = (smaller.run(**inputs).hidden - model.run(**inputs).hidden).abs().amax((1, 2))
    assert (apart > 0).all()


def test_a_model_elsewhere_is_refused():
    with pytest.raises(WeftError, match="the model is on meta; expected the CPU"):
        quantise(build("bert", "frozen").to("meta"))
