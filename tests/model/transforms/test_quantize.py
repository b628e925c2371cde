from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import weft
from tests.conformance.table import METHODS
from tests.support.near import assert_near
from tests.support.tiny import CORE_FAMILIES, FAMILIES, batch, build, scramble
from weft.errors import WeftError
from weft.model.transforms.quantize import Int8Map, _sums_in_32_bits, quantize


@pytest.mark.parametrize("family", [*FAMILIES, *CORE_FAMILIES])
def test_it_is_near_the_model_and_leaves_it_alone(family):
    model = scramble(build(family, METHODS["lora"]))
    inputs = batch(model)
    with torch.no_grad():
        plain = model.run(**inputs).hidden
        smaller = quantize(model)
        found = smaller.run(**inputs).hidden
        assert torch.equal(model.run(**inputs).hidden, plain)
    off = ((found - plain).norm() / plain.norm()).item()
    assert 0 < off < (0.08 if _sums_in_32_bits() else 0.16)  # with 8 bits, or with 7
    assert {n: p.shape for n, p in smaller.named_parameters()} == {
        n: p.shape for n, p in model.named_parameters()
    }


@pytest.mark.parametrize("method", ["lora-everywhere", "ia3+road+lora"])
def test_adapters_still_act(method):
    model = quantize(scramble(build("bert", METHODS[method])))
    inputs = batch(model)
    with torch.no_grad():
        plain = model.run(**inputs).hidden
        other = model.run(**{**inputs, "task": (inputs["task"] + 1) % 4}).hidden
        with model.adapters_off():
            bare = model.run(**inputs).hidden
    assert not torch.allclose(plain, other, atol=1e-3)
    assert not torch.allclose(plain, bare, atol=1e-3)


def test_what_scales_the_input_of_a_map_acts_as_before():
    """Around the map in int8, and with the map's own adapters between them."""
    spec = [{"use": "ia3", "sites": "ffn_hidden"}, {"use": "lora", "sites": "ffn_out"}]
    for method in (spec[:1], spec):
        model = scramble(build("bert", method))
        inputs = batch(model)
        with torch.no_grad():
            plain, found = model.run(**inputs).hidden, quantize(model).run(**inputs).hidden
            with model.adapters_off():
                bare = model.run(**inputs).hidden
        assert (found - plain).norm() < 0.5 * (plain - bare).norm()


@pytest.mark.parametrize("family", ["xlm-roberta-xl", "albert"])
@pytest.mark.parametrize("method", [["houlsby"], ["lora-everywhere", "houlsby"]])
def test_adapters_at_a_map_and_at_its_value_still_act(method, family):
    """`ffn_out` and `ffn_delta` are one module where no dropout follows the map."""
    model = quantize(scramble(build(family, [METHODS[name] for name in method])))
    inputs = batch(model)
    paths = [site.path for site, _ in model.placements if site.kind in ("ffn_out", "ffn_delta")]
    assert len(set(paths)) < len(paths) or len(method) == 1
    for kind in ("ffn_out", "ffn_delta") if len(method) > 1 else ("ffn_delta",):
        with torch.no_grad():
            before = model.run(**inputs).hidden
            for site, adapter in model.placements:
                if site.kind == kind:
                    for parameter in adapter.parameters():
                        parameter.add_(0.1)
            assert not torch.allclose(model.run(**inputs).hidden, before, atol=1e-3)


def test_bodies_of_their_own_are_all_taken():
    model = scramble(build("bert", "separate"))
    inputs = batch(model)
    smaller = quantize(model)
    with torch.no_grad():
        apart = (smaller.run(**inputs).hidden - model.run(**inputs).hidden).abs().amax((1, 2))
    assert (apart > 0).all()


def test_a_model_elsewhere_is_refused():
    with pytest.raises(WeftError, match="the model is on meta; expected the CPU"):
        quantize(build("bert", "frozen").to("meta"))


def test_a_row_that_is_not_finite_spoils_no_other():
    torch.manual_seed(0)
    mapped = Int8Map(torch.nn.Linear(8, 5))
    x = torch.randn(3, 2, 8)
    sound = x.clone()
    sound[1, 0] = 0
    for bad in (torch.nan, torch.inf, -torch.inf):
        x[1, 0, 3] = bad
        found = mapped(x)
        assert found[1, 0].isnan().all()
        others = torch.arange(6) != 2
        assert torch.equal(found.flatten(0, 1)[others], mapped(sound).flatten(0, 1)[others])
    large = torch.full((2, 8), 3e38)  # finite, though its sum is not
    assert not mapped(large).isnan().any()


def test_halves_are_taken_and_given_back():
    torch.manual_seed(0)
    mapped = Int8Map(torch.nn.Linear(8, 5))
    x = torch.randn(3, 8).bfloat16()
    found = mapped(x)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, mapped(x.float()).bfloat16())
    model = quantize(scramble(build("bert", METHODS["lora"])))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert model.run(**batch(model)).hidden.isfinite().all()


@given(
    x=arrays(np.float32, (3, 8), elements=st.floats(-100, 100, width=32)),
    other=arrays(np.float32, (2, 8), elements=st.floats(-1e6, 1e6, width=32)),
)
def test_a_row_does_not_depend_on_its_company(x, other):
    torch.manual_seed(0)
    mapped = Int8Map(torch.nn.Linear(8, 5))
    x, other = torch.from_numpy(x), torch.from_numpy(other)
    assert torch.equal(mapped(torch.cat([other, x]))[2:], mapped(x))
    for row in range(3):
        assert torch.equal(mapped(x[row : row + 1])[0], mapped(x)[row])


@given(x=arrays(np.float32, (4, 8), elements=st.floats(-100, 100, width=32)), bias=st.booleans())
def test_a_map_is_near_the_one_of_floats(x, bias):
    torch.manual_seed(0)
    linear = torch.nn.Linear(8, 5, bias=bias)
    x = torch.from_numpy(x)
    with torch.no_grad():
        exact = linear(x)
    # half a step of the row's scale in x, and half a step of each output's scale in W
    most, weight = x.abs().amax(-1, keepdim=True), linear.weight.detach().abs()
    steps = 127 if _sums_in_32_bits() else 63
    near = most / steps / 2 * weight.sum(1) + 8 * most * weight.amax(1) / 127 / 2 * 1.02
    assert ((Int8Map(linear)(x) - exact).abs() <= near + 1e-5).all()


def test_answers_do_not_depend_on_other_texts():
    task = weft.Task("x", labels=("no", "yes"))
    model = quantize(scramble(weft.Model("random:bert-tiny@minilm", [task], "lora", max_length=64)))
    texts = ["the cat sees", "a very long text with many words " * 4, "now", "a dog and a bird and a cat"]
    alone = [model.predict("x", text) for text in texts]
    assert_near(model.predict("x", texts), alone, 1e-4)
