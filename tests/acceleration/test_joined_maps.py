"""Maps with their adapters' terms in one product, biases looked up together, a cheaper GELU and attention."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import weft
from tests.support.more import some_of
from tests.support.patching import inputs_of
from tests.support.tiny import CONFIGS, TASKS, build, labels, no_dropout, scramble
from weft.acceleration.attention import AttentionByLength
from weft.acceleration.bias_tables import BiasTables
from weft.acceleration.compiled import Compiled
from weft.acceleration.fused_qkv import FusedMaps, groups_of
from weft.acceleration.gelu import CheapGelu, gelu
from weft.acceleration.joined_maps import JoinedMaps
from weft.encoder.sites import BLOCK_LINEAR
from weft.errors import WeftError
from weft.inference.captured import CapturedModel
from weft.kernels import joined as kernels_joined

METHODS = {
    "lora": "lora",
    "one lora for all": {"use": "lora", "share": "all"},
    "lora at every map": {"use": "lora", "sites": list(BLOCK_LINEAR)},
    "morris": "morris",
    "bitfit": "bitfit",
    "lora_bitfit_mtl": "lora_bitfit_mtl",
}
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


@pytest.fixture(autouse=True)
def side_by_side(monkeypatch):
    """On a CPU other ways are cheaper; here it is about what is computed."""
    monkeypatch.setattr(kernels_joined, "choose", lambda *args, **kwargs: "side")


def found(model):
    """The loss of a batch of all tasks, and every gradient."""
    batch = inputs_of(8)
    batch["task"] = torch.arange(8) % len(TASKS)
    model.zero_grad(set_to_none=True)
    loss = model.loss(model(**batch), labels(model, batch["task"]))
    loss.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    with torch.no_grad():
        return loss.detach(), model.loss(model(**batch), labels(model, batch["task"])), grads


def agree(a, b):
    torch.testing.assert_close(a[0], b[0], **CLOSE)
    torch.testing.assert_close(a[1], b[1], **CLOSE)
    assert a[2].keys() == b[2].keys()
    for name, grad in a[2].items():
        torch.testing.assert_close(grad, b[2][name], **CLOSE, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", CONFIGS)
def test_joined_maps_and_looked_up_biases_give_the_same(family, method):
    model = no_dropout(scramble(build(family, METHODS[method])))
    expected = found(model)
    joined = JoinedMaps(groups_of(model.encoder))
    tables = BiasTables(model, but=joined.adapters)

    assert family.startswith("deberta") or joined.adapters
    agree(found(model), expected)
    fused = FusedMaps(model.encoder, but=joined.modules)
    agree(found(model), expected)
    for patch in (fused, tables, joined):
        patch.undo()
    again = found(model)
    assert torch.equal(again[0], expected[0])
    assert all(torch.equal(again[2][n], g) for n, g in expected[2].items())


def test_gates_are_part_of_the_components():
    model = scramble(build("bert", {"use": "morris", "l0": {}}))
    expected = found(model)
    joined = JoinedMaps(groups_of(model.encoder))
    tables = BiasTables(model, but=joined.adapters)
    assert joined.adapters
    assert not any(a.gate is None for a in joined.adapters)
    assert tables not in model.preparing  # a bias under gates is its site's
    agree(found(model), expected)


def test_what_cannot_be_joined_is_left_alone():
    assert not JoinedMaps(groups_of(build("bert", "full").encoder)).modules
    assert not JoinedMaps(groups_of(build("bert", {"use": "lora", "dropout": 0.1}).encoder)).modules
    assert not JoinedMaps(groups_of(build("bert", "pals").encoder)).modules
    alone = JoinedMaps(groups_of(build("bert", "bitfit").encoder))
    assert len(alone.modules) == 2 * 3  # query, key and value; a bias at a map alone is a sum


def test_without_adapters_joined_maps_are_the_encoders():
    model = scramble(build("bert", "lora"))
    batch = inputs_of()
    with model.adapters_off(), torch.no_grad():
        expected = model(**batch).hidden
        JoinedMaps(groups_of(model.encoder))
        torch.testing.assert_close(model(**batch).hidden, expected)


def test_looked_up_biases_are_those_of_the_pass():
    """Another batch, another order of tasks: nothing is left of the last."""
    model = scramble(build("bert", "bitfit"))
    BiasTables(model)
    first = inputs_of()
    second = {**first, "task": first["task"].flip(0)}
    with torch.no_grad():
        expected = model(**second).hidden
        model(**first)
        assert torch.equal(model(**second).hidden, expected)
        assert not torch.equal(model(**first).hidden, expected)


@pytest.mark.parametrize("tokens", [6, 64])
@pytest.mark.parametrize("wide", [8, 40])
def test_a_tall_product_is_a_product(tokens, wide, monkeypatch):
    a, b = torch.randn(tokens, 12), torch.randn(tokens, wide)
    torch.testing.assert_close(torch.ops.weft.tall_product(a, b), a.t() @ b)
    found = kernels_joined.in_parts(a, b, 2)
    torch.testing.assert_close(found, a.t() @ b, rtol=1e-5, atol=1e-5)


def test_the_cheap_gelu_is_the_gelu():
    x = torch.linspace(-12, 12, 20_001, dtype=torch.float64, requires_grad=True)
    F.gelu(x).sum().backward()
    own = x.detach().float().requires_grad_()
    y = gelu(own)
    y.sum().backward()
    wrong = (y.detach() - F.gelu(x.detach())).abs() / x.detach().abs().clamp_min(1e-3)
    assert wrong.max() < 3e-7
    assert (own.grad - x.grad).abs().max() < 5e-7
    assert gelu(x.detach().bfloat16()).dtype == torch.bfloat16
    assert gelu(torch.tensor([float("nan"), float("inf")])).isnan().tolist() == [True, False]


@pytest.mark.parametrize("family", CONFIGS)
def test_gelu_and_attention_are_exchanged_and_put_back(family):
    model = no_dropout(scramble(build(family, "lora")))
    expected = found(model)
    before = {name: dict(module.__dict__) for name, module in model.encoder.named_modules()}
    patches = [CheapGelu(model.encoder), AttentionByLength(model.encoder)]
    agree(found(model), expected)
    for patch in patches:
        patch.undo()
    assert torch.equal(found(model)[0], expected[0])
    after = {name: dict(module.__dict__) for name, module in model.encoder.named_modules()}
    assert all(set(after[name]) == set(own) for name, own in before.items())


def test_long_and_short_rows_have_the_same_attention():
    model = scramble(weft.Model("random:minilm", TASKS, "lora").eval())
    for length in (64, 65):
        batch = inputs_of(length=length)
        with torch.no_grad():
            expected = model(**batch).hidden
            by_length = AttentionByLength(model.encoder)
            torch.testing.assert_close(model(**batch).hidden, expected, rtol=1e-4, atol=1e-5)
        by_length.undo()


def test_a_model_runs_under_one_engine_at_a_time():
    model = build("bert", "lora").train()
    compiled = Compiled(model)
    for another in (Compiled, lambda own: CapturedModel(own, "bf16")):
        with pytest.raises(WeftError, match="another engine"):
            another(model)
    compiled.undo()
    assert model.training
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert any(p.requires_grad for p in model.parameters())
    Compiled(model).undo()


@pytest.mark.slow
@pytest.mark.parametrize("method", some_of(["bitfit", "morris", "lora"], 1))
def test_numbers_of_rows_and_lengths_are_left_open(method, monkeypatch):
    """In inference, what is looked up for the rows of a pass must not compile a block for each number."""
    plain = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda run, dynamic, options: plain(run, backend="eager", dynamic=dynamic)
    )
    model = scramble(build("bert", method))
    torch._dynamo.reset()
    compiled = Compiled(model, fused=False)
    tables = BiasTables(model)
    counted = torch._dynamo.utils.counters["stats"]

    def run(rows, length):
        batch = {**inputs_of(rows, length), "task": torch.arange(rows) % len(TASKS)}
        with torch.no_grad():
            model.loss(model(**batch), labels(model, batch["task"]))
        return counted["unique_graphs"]

    known = run(8, 8)  # as many rows as tokens, by chance
    shapes = ((9, 10), (10, 9), (11, 12), (12, 14), (7, 16))
    assert [run(rows, length) for rows, length in shapes] == [known] * 5
    tables.undo()
    compiled.undo()
    torch._dynamo.reset()


def test_a_dressed_model_is_copied_merged_and_checkpointed():
    model = scramble(build("bert", "morris"))
    BiasTables(model)
    AttentionByLength(model.encoder)
    found(model)
    copied = copy.deepcopy(model)
    assert all(adapter.rows is None for _, adapter in copied.placements if hasattr(adapter, "rows"))
    assert model.merge("a").config._attn_implementation == "sdpa"


def test_an_activation_of_another_kind_is_left_alone():
    encoder = nn.Sequential(nn.GELU("tanh"), nn.ReLU())
    CheapGelu(encoder)
    assert not any("forward" in module.__dict__ for module in encoder)
