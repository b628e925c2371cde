"""Packed maps give the numbers of PyTorch's own, in every family and method, and can be undone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import weft
from tests.conformance.table import METHODS
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, save_every_kind
from tests.support.tiny import CORE_FAMILIES, FAMILIES, batch, build, scramble
from weft.acceleration.packed_maps import PackedMap, PackedMaps, pack_if_faster

SIZES = st.integers(1, 70)


@given(sizes=st.tuples(SIZES, SIZES), rows=st.integers(1, 40), bias=st.booleans(), seed=st.integers(0, 99))
def test_a_packed_map_is_the_same_map(sizes, rows, bias, seed):
    torch.manual_seed(seed)
    linear = nn.Linear(*sizes, bias=bias)
    packed = PackedMap(linear)
    for x in (torch.randn(rows, sizes[0]), torch.randn(2, rows, sizes[0])):
        torch.testing.assert_close(packed(x), linear(x), rtol=1e-5, atol=1e-5)


def test_inputs_that_are_no_full_rows_take_pytorchs_way():
    linear = nn.Linear(8, 4)
    packed = PackedMap(linear)
    assert packed(torch.zeros(0, 8)).shape == (0, 4)
    strided = torch.randn(8, 6).T
    torch.testing.assert_close(packed(strided), linear(strided), rtol=1e-5, atol=1e-5)
    half = torch.randn(3, 8, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError):  # as PyTorch does
        packed(half)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("packed"))


def test_a_packed_model_answers_alike_and_can_be_restored(folder):
    model = weft.load(folder)
    right = model.predict(REQUESTS)
    packed = PackedMaps(model)
    maps = [m for m in model.encoder.modules() if isinstance(m, nn.Linear) and "forward" in m.__dict__]
    assert maps
    assert_near(model.predict(REQUESTS), right, 1e-5)
    packed.undo()
    assert model.predict(REQUESTS) == right


def same_when_packed(model):
    """The hidden states and the logits of a mixed batch, before and after."""
    inputs = batch(model)
    with torch.no_grad():
        plain = model.run(**inputs)
        packed = PackedMaps(model)
        found = model.run(**inputs)
        torch.testing.assert_close(found.hidden, plain.hidden, rtol=1e-4, atol=1e-5)
        for shape, logits in plain.by_shape.items():
            torch.testing.assert_close(found.by_shape[shape], logits, rtol=1e-4, atol=1e-5)
        packed.undo()
        assert torch.equal(model.run(**inputs).hidden, plain.hidden)


@pytest.mark.parametrize("family", [*FAMILIES, *CORE_FAMILIES])
def test_every_family_computes_the_same(family):
    same_when_packed(scramble(build(family, METHODS["lora"])))


@pytest.mark.parametrize("method", [name for name in METHODS if "separate" not in name])
def test_every_method_computes_the_same(method):
    same_when_packed(scramble(build("bert", METHODS[method])))


def test_a_model_is_packed_only_if_that_is_faster(folder, monkeypatch):
    model = weft.load(folder)
    seconds = iter([1.0, 0.99, 1.0, 0.5])
    monkeypatch.setattr("weft.acceleration.packed_maps._seconds", lambda model: next(seconds))
    right = model.predict(REQUESTS)
    assert pack_if_faster(model) is None
    packed = pack_if_faster(model)
    assert isinstance(packed, PackedMaps)
    packed.undo()
    assert model.predict(REQUESTS) == right
    assert pack_if_faster(weft.load(folder).double()) is None


def test_a_release_without_the_operator_leaves_the_model_as_it_is(folder, monkeypatch):
    model = weft.load(folder)
    right = model.predict(REQUESTS)

    def missing(*_):
        raise NotImplementedError("no such operator")

    monkeypatch.setattr("weft.acceleration.packed_maps._reorder", missing)
    assert pack_if_faster(model) is None
    assert model.predict(REQUESTS) == right


def test_an_operator_with_other_numbers_is_not_used(monkeypatch):
    monkeypatch.setattr(
        "weft.acceleration.packed_maps._product", lambda x, packed, bias: F.linear(x, packed.to_dense()) + 1
    )
    with pytest.raises(RuntimeError, match="differs"):
        PackedMap(nn.Linear(8, 4))
