"""Similarities of tasks: the golden numbers, properties over all adapters, averages."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from tests.support.golden import golden
from tests.support.more import examples
from tests.support.similarities import assert_same, by_numpy
from weft.adapters.bias import BiasAdapter
from weft.adapters.cp import CpAdapter
from weft.adapters.lora import LoraAdapter
from weft.adapters.low_rank_bias import LowRankBiasAdapter
from weft.adapters.tucker import TuckerAdapter
from weft.analysis.similarity import Similarity, SiteSimilarity, cosines
from weft.core.gate_settings import L0
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.errors import WeftError

NAMES = ("a", "b", "c", "d")
SITE = Site("query", 0, 7, 5, "query")
GATED = ("cp", "tucker", "lora", "low_rank_bias")
CASES = [("bias", False), *((kind, gates) for kind in GATED for gates in (False, True))]
OWN = {"cp": "B", "tucker": "B", "lora": "B", "low_rank_bias": "E", "bias": "v"}
# (parameter, its dimension of components, what the inverse goes into, its dimension)
RESCALED = [
    ("cp", "A", 2, "C", 2),
    ("cp", "A", 2, "B", 1),
    ("cp", "C", 2, "B", 1),
    ("tucker", "A", 2, "G", 2),
    ("tucker", "C", 2, "G", 3),
    ("tucker", "B", 1, "G", 1),
    ("lora", "B", 2, "A", 1),
    ("low_rank_bias", "D", 2, "E", 1),
]
seeds = st.integers(0, 10**6)
few = settings(max_examples=examples(15), deadline=None)


@torch.no_grad()
def adapter_of(kind, gates=False, seed=0, names=NAMES):
    """An adapter in float64 far from its start; of its gates some are shut, some half open."""
    shared, own = Slots.one(names), Slots.per_task(names)
    l0 = L0() if gates else None
    made = {
        "cp": lambda: CpAdapter(SITE, shared, own, 3, 0, l0),
        "tucker": lambda: TuckerAdapter(SITE, shared, own, 3, 2, 0, l0),
        "lora": lambda: LoraAdapter(SITE, own, 3, 0.5, 0.1, 0, l0),
        "low_rank_bias": lambda: LowRankBiasAdapter(SITE, shared, own, 3, 0, l0),
        "bias": lambda: BiasAdapter(SITE, own),
    }[kind]().double()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in made.named_parameters():
        scale = 2.0 if name == "gate.alpha" else 1.0
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale)
    return made


@torch.no_grad()
def cosines_of(adapter):
    return cosines(next(found for found in adapter.inner_products() if found is not None))


@torch.no_grad()
def updates_of(adapter):
    """The updates themselves, [T, …] in numpy."""
    both = [adapter.weight_delta(task) for task in range(len(NAMES))]
    return np.stack([next(u for u in pair if u is not None).flatten().numpy() for pair in both])


def test_the_golden_similarities():
    tensors = load_file(golden("derived") / "morris.safetensors")
    names = ("a", "b", "c")
    shared, own = Slots.one(names), Slots.per_task(names)
    site = Site("query", 0, 6, 6, "query")
    weights = CpAdapter(site, shared, own, 4, 0).double()
    biases = LowRankBiasAdapter(site, shared, own, 2, 0).double()
    values = {"A": tensors["A"][None], "B": tensors["B"], "C": tensors["C"][None]}
    weights.load_state_dict(values)
    biases.load_state_dict({"D": tensors["D"][None], "E": tensors["E"].T})
    assert_same(cosines_of(weights), tensors["S_weight"].numpy())
    assert_same(cosines_of(biases), tensors["S_bias"].numpy())


@pytest.mark.parametrize(("kind", "gates"), CASES)
@few
@given(seed=seeds)
def test_cosines_are_those_of_the_updates(kind, gates, seed):
    adapter = adapter_of(kind, gates, seed)
    found = cosines_of(adapter)
    assert_same(found, by_numpy(updates_of(adapter)))
    defined = ~np.isnan(found)
    assert np.array_equal(defined, defined.T)
    assert np.array_equal(found[defined], found.T[defined])
    assert (np.abs(found[defined]) <= 1).all()
    diagonal = np.diagonal(found)
    assert (diagonal[~np.isnan(diagonal)] == 1).all()


@pytest.mark.parametrize("gates", [False, True])
@pytest.mark.parametrize(("kind", "first", "dim", "second", "other"), RESCALED)
@few
@given(seed=seeds, factor=st.floats(0.05, 20), negative=st.booleans(), component=st.integers(0, 1))
def test_components_may_be_rescaled(
    kind, first, dim, second, other, gates, seed, factor, negative, component
):
    adapter = adapter_of(kind, gates, seed)
    before = cosines_of(adapter)
    factor = -factor if negative else factor
    with torch.no_grad():
        adapter.get_parameter(first).select(dim, component).mul_(factor)
        adapter.get_parameter(second).select(other, component).div_(factor)
    assert_same(cosines_of(adapter), before)


@pytest.mark.parametrize(("kind", "gates"), CASES)
@few
@given(seed=seeds, factor=st.floats(0.05, 20), task=st.integers(0, 3))
def test_the_length_of_an_update_does_not_count_and_its_direction_does(kind, gates, seed, factor, task):
    adapter = adapter_of(kind, gates, seed)
    before = cosines_of(adapter)
    with torch.no_grad():
        adapter.get_parameter(OWN[kind])[task].mul_(factor)
    assert_same(cosines_of(adapter), before)
    with torch.no_grad():
        adapter.get_parameter(OWN[kind])[task].neg_()
    turned = np.where(np.arange(4) == task, -1.0, 1.0)
    assert_same(cosines_of(adapter), before * turned[:, None] * turned)


@pytest.mark.parametrize(("kind", "gates"), CASES)
@few
@given(seed=seeds, order=st.permutations(range(4)))
def test_permuting_tasks_permutes_the_matrix(kind, gates, seed, order):
    adapter = adapter_of(kind, gates, seed)
    before = cosines_of(adapter)
    with torch.no_grad():
        for parameter in adapter.parameters():
            if len(parameter) == 4:  # shared ones have one slot
                parameter.copy_(parameter[list(order)].clone())
    assert_same(cosines_of(adapter), before[np.ix_(order, order)])


def test_a_task_without_an_update_is_undefined():
    adapter = adapter_of("cp")
    with torch.no_grad():
        adapter.get_parameter("B")[2] = 0
    found = cosines_of(adapter)
    undefined = np.zeros((4, 4), bool)
    undefined[2, :] = undefined[:, 2] = True
    assert np.array_equal(np.isnan(found), undefined)
    assert_same(found, by_numpy(updates_of(adapter)))
    shut = adapter_of("cp", gates=True)
    with torch.no_grad():
        shut.gate.get_parameter("alpha").fill_(-10)
    assert np.isnan(cosines_of(shut)).all()


def test_updates_that_are_no_numbers_are_refused():
    with pytest.raises(WeftError, match=r"3/query, weight: .* not finite"):
        cosines(torch.full((2, 2), float("inf")), "3/query, weight")


def found_of(*entries, tasks=("a", "b")):
    """A similarity by hand: (kind, layer, weight's off-diagonal entry or None, bias's)."""

    def matrix(value):
        return None if value is None else np.array([[1.0, value], [value, 1.0]])

    sites = [
        SiteSimilarity(Site(kind, layer, 4, 4, ""), matrix(weight), matrix(bias))
        for kind, layer, weight, bias in entries
    ]
    return Similarity(tasks, tuple(sites))


def test_averages():
    found = found_of(
        ("query", 0, 0.2, None),
        ("value", 0, 0.4, 0.1),
        ("query", 1, np.nan, 0.3),
        ("value", 1, 0.9, np.nan),
        ("pooler", None, -0.5, 0.7),
    )
    assert (found.kinds, found.layers) == (["query", "value", "pooler"], [0, 1])

    def off(part, **which):
        average = found.average(part, **which)
        return None if average is None else average[0, 1]

    assert off("weight") == pytest.approx((0.2 + 0.4 + 0.9 - 0.5) / 4)
    assert off("bias") == pytest.approx((0.1 + 0.3 + 0.7) / 3)
    assert off("weight", kind="query") == pytest.approx(0.2)  # undefined in layer 1
    assert off("weight", kind="value") == pytest.approx(0.65)
    assert off("weight", layer=0) == pytest.approx(0.3)
    assert off("bias", layer=1) == pytest.approx(0.3)
    assert np.isnan(off("weight", kind="query", layer=1))
    assert off("weight", kind="key") is None
    assert off("bias", kind="query", layer=0) is None
    assert (np.diagonal(found.average("weight")) == 1).all()


def test_within():
    found = found_of(("query", 0, 0.2, None), ("value", 1, 0.4, 0.1), ("pooler", None, 0.3, 0.1))
    assert [one.site.key for one in found.within(["value", "pooler"]).sites] == ["1/value", "pooler"]
    assert [one.site.key for one in found.within(layers=[0]).sites] == ["0/query"]
    assert found.within().sites == found.sites
    with pytest.raises(WeftError, match=r"'key' is not updated by this model; .*: query, value, pooler"):
        found.within(["key"])
    with pytest.raises(WeftError, match=r"'value' is not updated by this model in layers 0; .*: query"):
        found.within(["value"], [0])
    with pytest.raises(WeftError, match=r"nothing in layers 2, 3; .*: 0/query, 1/value, pooler"):
        found.within(layers=[2, 3])
