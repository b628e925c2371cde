from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.support.more import examples
from tests.support.tiny import batch, build, labels, no_dropout, scramble
from weft.adapters import attention
from weft.errors import WeftError
from weft.kernels import dispatch as kernels
from weft.kernels.dispatch import Mix, choose, low_rank, stacked_linear
from weft.kernels.grouped import add_product, grouped

WIDTHS = st.sampled_from([1, 3, 8, 12])
CLOSE = {"rtol": 1e-6, "atol": 1e-6}
STRATEGIES = ("reference", "side", "segments", "grouped")


@st.composite
def mixes(draw):
    """Sorted rows of some of the slots, and a generator."""
    slots, rows = draw(st.integers(2, 5)), draw(st.integers(1, 7))
    slot = torch.tensor(sorted(draw(st.lists(st.integers(0, slots - 1), min_size=rows, max_size=rows))))
    counts = torch.bincount(slot, minlength=slots)
    random = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return Mix(slot, counts.cumsum(0), tuple(counts.tolist())), slots, random


def with_gradients(strategy, tensors, run):
    """What a strategy gives, and the gradients of a number made from it."""
    own = [x.clone().requires_grad_() for x in tensors]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_chosen", lambda x, weight, mix: strategy)
        y = run(*own)
    y.sin().sum().backward()
    return [y.detach(), *(x.grad for x in own)]


@settings(deadline=None, max_examples=examples(40))
@given(mixes(), WIDTHS, WIDTHS, st.integers(1, 3))
def test_every_way_of_mapping_gives_the_same(made, out_width, in_width, length):
    mix, slots, random = made
    shapes = [(len(mix.slot), length, in_width), (slots, out_width, in_width), (slots, out_width)]
    tensors = [torch.randn(shape, generator=random) / in_width**0.5 for shape in shapes]
    found = {s: with_gradients(s, tensors, lambda x, w, b: stacked_linear(x, w, mix, b)) for s in STRATEGIES}
    x, weight, bias = tensors
    expected = torch.stack([F.linear(x[r], weight[s], bias[s]) for r, s in enumerate(mix.slot.tolist())])
    torch.testing.assert_close(found["reference"][0], expected, **CLOSE)
    for strategy in STRATEGIES[1:]:
        torch.testing.assert_close(found[strategy], found["reference"], **CLOSE)


@settings(deadline=None, max_examples=examples(40))
@given(mixes(), WIDTHS, WIDTHS, st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_every_way_of_a_low_rank_pair_gives_the_same(made, rank, width, length, gated, shared, shifted):
    mix, slots, random = made
    maps = 1 if shared else slots
    shapes = [(len(mix.slot), length, 6), (maps, rank, 6), (maps, width, rank), (slots, rank)]
    shapes += [(len(mix.slot), length, width), (maps, rank)]
    tensors = [torch.randn(shape, generator=random) / shape[-1] ** 0.5 for shape in shapes]

    def low_rank_of(x, down, up, factor, onto, shift):
        return low_rank(x, down, up, mix, factor if gated else None, 0.5, onto, shift if shifted else None)

    def run(*tensors):
        return low_rank_of(*tensors) + 0 * (tensors[3].sum() + tensors[5].sum())

    found = {s: with_gradients(s, tensors, run) for s in STRATEGIES}
    x, down, up, factor, onto, shift = tensors
    expected = []
    for row, slot in enumerate(mix.slot.tolist()):
        own = 0 if shared else slot
        low = x[row] @ down[own].T + (shift[own] if shifted else 0.0)
        low = low * (factor[slot] if gated else 1.0)
        expected.append(onto[row] + 0.5 * low @ up[own].T)
    torch.testing.assert_close(found["reference"][0], torch.stack(expected), **CLOSE)
    for strategy in STRATEGIES[1:]:
        torch.testing.assert_close(found[strategy], found["reference"], **CLOSE)
    with torch.no_grad():  # what it is added to may be overwritten, and the sum is the same
        changed = onto.clone()
        result = low_rank_of(x, down, up, factor, changed, shift)
    torch.testing.assert_close(result, found["reference"][0], **CLOSE)
    assert result.data_ptr() == changed.data_ptr()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_in_bf16_a_float32_vector_does_not_lift_the_stream(strategy, monkeypatch):
    monkeypatch.setattr(kernels, "_chosen", lambda x, weight, mix: strategy)
    slot = torch.tensor([0, 0, 2])
    mix = Mix(slot, torch.tensor([2, 2, 3]), (2, 0, 1))
    x, weight, bias = torch.randn(3, 4, 8), torch.randn(3, 5, 8) / 3, torch.randn(3, 5)
    down, up, factor = torch.randn(3, 2, 8) / 3, torch.randn(3, 5, 2), torch.randn(3, 2)
    with torch.autocast("cpu", torch.bfloat16):
        y = stacked_linear(x, weight, mix, bias)
        z = low_rank(x, down, up, mix, factor, 2.0, y)
    assert y.dtype == z.dtype == torch.bfloat16
    exact = torch.stack([F.linear(x[r], weight[s], bias[s]) for r, s in enumerate(slot.tolist())])
    torch.testing.assert_close(y.float(), exact, rtol=0.05, atol=0.05)


def test_a_grouped_product_takes_any_gradient_and_gives_absent_slots_none():
    x, weight = torch.randn(3, 2, 5, requires_grad=True), torch.randn(4, 8, 5, requires_grad=True)
    ends = torch.tensor([0, 2, 2, 3])
    grouped(x, weight, ends, torch.float32).sum().backward()  # a broadcast gradient
    assert weight.grad[[0, 2]].abs().sum() == 0
    torch.testing.assert_close(weight.grad[1], x.detach()[:2].sum((0, 1)).expand(8, 5))


def test_the_choice_follows_sizes_and_never_needs_an_order_that_is_not_there():
    gpu = {"device": "cuda", "half": True, "trains": False}
    assert choose(9, 8, 768, **gpu, ordered=True) == "side"
    assert choose(64, 8, 768, **gpu, ordered=True) == "reference"  # too narrow for a grouped product
    assert choose(9, 204, 768, **gpu, ordered=True) == "grouped"
    cpu = {"device": "cpu", "half": False}
    assert choose(9, 8, 384, **cpu, trains=False, ordered=True) == "reference"
    assert choose(9, 204, 384, **cpu, trains=True, ordered=True) == "segments"
    for slots in (2, 9, 64):
        for width in (8, 64, 768):
            for given_ in (gpu, {**cpu, "trains": True}, {**cpu, "trains": False}):
                assert choose(slots, width, 768, **given_, ordered=False) in ("reference", "side")


@pytest.mark.parametrize("method", ["lora", "pals", "ca_mtl", "top_layer"])
def test_a_model_gives_the_same_under_either_setting(method):
    """At widths from which rows are sorted: layers, attentions, losses and gradients come back in order."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "WIDE_CPU", 1)
        patch.setattr(kernels, "WIDE_TRAINING_CPU", 1)
        patch.setattr(kernels, "ROWS_PER_SEGMENT", 1)
        for setting in ("reference", "auto"):
            model = no_dropout(scramble(build("bert", method, kernels=setting, head_dropout=0.0)))
            inputs = batch(model)
            output = model.run(**inputs, layers=True, attention=True)
            loss = model.loss(output, labels(model, inputs["task"]))
            loss.backward()
            gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
            with torch.no_grad():
                alone = model.run(**inputs)
            found.append(
                (
                    *(output.hidden, output.pooled, output.layers, output.logits, output.attention),
                    *(loss, gradients, alone.hidden, alone.logits),
                )
            )
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_the_reference_stays_the_same_to_the_last_bit_when_tasks_are_added():
    import weft

    few, many = (tuple(weft.Task(f"t{i}", size=2) for i in range(n)) for n in (3, 7))
    small, large = (scramble(build("bert", "pals", tasks, kernels="reference")) for tasks in (few, many))
    with torch.no_grad():
        for (name, one), other in zip(
            small.adapters.named_parameters(), large.adapters.parameters(), strict=True
        ):
            assert len(other) == 7, name
            other[:3] = one
    inputs = batch(small)
    with torch.no_grad():
        assert torch.equal(small.run(**inputs).hidden, large.run(**inputs).hidden)


def test_heads_filled_up_with_zeros_attend_alike(monkeypatch):
    model = scramble(build("bert", {"use": "pals", "d_s": 12, "heads": 4}))
    inputs = batch(model)
    with torch.no_grad():
        expected = model.run(**inputs, attention=True)
        monkeypatch.setattr(attention, "head_padding", lambda width, x: -width % 8)
        found = model.run(**inputs, attention=True)
    torch.testing.assert_close(found.hidden, expected.hidden, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.attention, expected.attention, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_compiled_sum_onto_what_is_there_is_the_same(rows):
    y, a, b = torch.randn(3, 2, 8), torch.randn(3, 2, 4), torch.randn(rows, 4, 8)
    expected = y + a @ b

    def onto(y, a, b):
        y = y * 1.0
        torch.ops.weft.add_product_(y, a, b)
        return y

    torch.testing.assert_close(torch.compile(onto, backend="aot_eager", fullgraph=True)(y, a, b), expected)
    torch.testing.assert_close(add_product(y, a, b, overwrite=False), expected)


def test_an_unknown_setting_says_what_there_is():
    with pytest.raises(WeftError, match=r"kernels: 'fast'.*auto"):
        build("bert", "lora", kernels="fast")
