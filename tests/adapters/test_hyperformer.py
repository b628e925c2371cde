"""HyperFormer++ beside its equations, one task, layer, place and token after the other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.tiny import TASKS, batch, build, scramble
from weft.adapters.derived import derive, whole
from weft.adapters.hyperformer import HyperAdapter, HyperNetwork, Sizes, _norm_before_up, folded_norm
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.errors import WeftError
from weft.kernels.dispatch import Mix
from weft.training.optim.owners import OwnerOptimizers

NAMES = ("a", "b", "c")
SIZES = Sizes(width=8, bottleneck=3, embedding=4, hidden=6, mixed=5)
LAYERS = 2
SMALL = {"use": "hyperformer", "size": 4, "embedding": 5, "hidden": 6, "mixed": 7}


def network_of(zero_init=False):
    return HyperNetwork(SIZES, LAYERS, Slots.one(NAMES), Slots.per_task(NAMES), 0, zero_init)


def scrambled(network, by=0.3):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
    return network


def adapters_of(network):
    kinds = ("attention_delta", "ffn_delta")
    sites = [Site(kind, layer, 8, 8, "") for layer in range(LAYERS) for kind in kinds]
    return [HyperAdapter(site, network, site.layer, "gelu") for site in sites]


def normed(x, eps):
    """(x − mean)/√(var + ε) of one vector."""
    mean = x.sum() / len(x)
    variance = ((x - mean) ** 2).sum() / len(x)
    return (x - mean) / (variance + eps).sqrt()


def linear(module, x):
    return module.weight[0] @ x + module.bias[0]


def by_loops(network, task, layer, place, token):
    """v + γ∘norm(U·gelu(D·v + b_D) + b_U) + β, everything generated for (task, layer, place)."""
    where = torch.cat(
        [network.embedding.z[task], network.places.layer[0, layer], network.places.place[0, place]]
    )
    mixed = linear(network.second, linear(network.first, where).clamp(min=0))
    mixed = normed(mixed, 1e-6) * network.norm.weight[0] + network.norm.bias[0]
    down = linear(network.down, mixed).view(SIZES.bottleneck, SIZES.width)
    up = linear(network.up, mixed).view(SIZES.width, SIZES.bottleneck)
    low = down @ token + linear(network.down_bias, mixed)
    low = 0.5 * low * (1 + torch.erf(low / 2**0.5))
    wide = up @ low + linear(network.up_bias, mixed)
    return token + linear(network.scale, mixed) * normed(wide, 1e-5) + linear(network.shift, mixed)


def test_it_is_its_equation():
    """Outputs, and the gradients of every parameter, at both places of both layers, tasks mixed."""
    network = scrambled(network_of())
    generator = torch.Generator().manual_seed(2)
    task = torch.tensor([0, 2, 1, 0, 2])
    values = torch.randn(4, 5, 3, 8, generator=generator)
    weight = torch.randn(4, 5, 3, 8, generator=generator)
    ours, expected = [], []
    for adapter, x in zip(adapters_of(network), values, strict=True):
        ours.append(adapter(x, Route(task)))
        rows = [
            torch.stack([by_loops(network, int(t), *adapter.place, token) for token in row])
            for t, row in zip(task, x, strict=True)
        ]
        expected.append(torch.stack(rows))
    torch.testing.assert_close(torch.stack(ours), torch.stack(expected), rtol=1e-4, atol=1e-4)
    names = [name for name, _ in network.named_parameters()]
    both = [
        torch.autograd.grad((torch.stack(values) * weight).sum(), list(network.parameters()))
        for values in (ours, expected)
    ]
    for name, found, reference in zip(names, *both, strict=True):
        assert reference.any(), name
        torch.testing.assert_close(found, reference, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_layers_places_and_tasks_have_adapters_of_their_own():
    network = scrambled(network_of())
    with torch.no_grad():
        tables = network.generate(network.embedding.z, [(0, 0), (0, 1), (1, 0), (1, 1)])
    maps = [tables[0][task, number] for task in range(3) for number in range(4)]
    for one in range(len(maps)):
        for other in range(one):
            assert not torch.allclose(maps[one], maps[other], atol=1e-3)


def test_the_two_starts():
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    route = Route(torch.tensor([0, 1]))
    with torch.no_grad():
        zero, random = (adapters_of(network_of(zero_init))[0](x, route) for zero_init in (True, False))
    assert torch.equal(zero, x)
    assert 1e-4 < (random - x).abs().max() < 1


def test_a_start_at_the_base_trains_everything_after_a_few_steps():
    """The generated scale is zero at first, so that the maps behind it have no gradient yet."""
    model = build("bert", {**SMALL, "zero_init": True})
    optimizers = OwnerOptimizers(model, lr=1e-2)
    inputs = batch(model)
    before = {name: p.detach().clone() for name, p in model.adapters.named_parameters()}
    for _ in range(3):
        optimizers.zero_grad()
        model.run(**inputs).hidden.square().mean().backward()
        optimizers.step([0, 1, 2, 3])
    still = [name for name, p in model.adapters.named_parameters() if torch.equal(p, before[name])]
    assert still == []


def test_a_task_owns_its_embedding_alone_and_the_count_is_the_papers():
    """Shared: embeddings of layers and places, the network that mixes them, and (m + 1) numbers for each of
    the 2·s·d + s + d weights of an adapter and the 2·d of its norm, once for all layers and tasks."""
    model = weft.Model("random:bert-base", TASKS, "hyperformer", device="meta")
    e, h, m, d = 64, 128, 64, 768
    s = d // 32
    mixing = (3 * e * h + h) + (h * m + m) + 2 * m
    generating = (m + 1) * (2 * s * d + s + d + 2 * d)
    assert model.ledger()["shared"] == 12 * e + 2 * e + mixing + generating == 2_581_464
    assert set(model.ledger()["per_task"].values()) == {e}
    trained = {n for n, p in model.encoder.named_parameters() if p.requires_grad}
    assert all("LayerNorm" in name for name in trained)
    assert trained


def test_only_selected_layers_have_embeddings():
    model = build("bert", {**SMALL, "layers": "1"})
    assert set(model.adapters) == {"1/attention_delta", "1/ffn_delta"}
    network = model.placements[0][1].network
    assert network.places.layer.shape == (1, 1, 5)
    assert all(adapter.network is network for _, adapter in model.placements)


def test_it_says_why_it_cannot_be_merged():
    with pytest.raises(WeftError, match=r"at '0/attention_delta' cannot be merged: it is a network with"):
        scramble(build("bert", SMALL)).merge("a")


@pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])
def test_inference_in_half_precision_is_near_float32(stream):
    network = scrambled(network_of())
    x = torch.randn(6, 5, 8, generator=torch.Generator().manual_seed(2))
    route = Route(torch.tensor([0, 1, 2, 2, 1, 0]))
    for adapter in adapters_of(network):
        exact = adapter(x, route)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            half = adapter(x.to(stream), route)
        assert half.dtype == stream
        torch.testing.assert_close(half.float(), exact, rtol=0.03, atol=0.03)


def test_a_float32_stream_is_not_rounded_in_half_precision():
    adapter = adapters_of(network_of(zero_init=True))[0]
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(adapter(x, Route(torch.tensor([0, 1]))), x)


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 9),
    spread=st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    mixed=st.booleans(),
)
def test_the_norm_folded_into_the_map_is_the_norm_of_its_output(seed, size, spread, mixed):
    """γ∘norm(U·h + b_U) + β, for any scale of the weights, by rows of several slots or of one."""
    generator = torch.Generator().manual_seed(seed)
    slots, width = (3 if mixed else 1), 11

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    low, up, up_bias = draw(5, 4, size), draw(slots, width, size) * spread, draw(slots, width) * spread
    scale, shift = draw(slots, width), draw(slots, width)
    slot = torch.randint(slots, (5,), generator=generator)
    columns, gram = folded_norm(up, up_bias, scale, shift)
    assert columns.size(-1) % 8 == 0
    assert gram.shape == (slots, (size + 1) ** 2)
    folded = _norm_before_up(low, columns, gram, Mix(slot) if mixed else None)
    wide = torch.einsum("rls,rds->rld", low, up[slot]) + up_bias[slot][:, None]
    expected = torch.layer_norm(wide, (width,)) * scale[slot][:, None] + shift[slot][:, None]
    torch.testing.assert_close(folded, expected, rtol=1e-3, atol=1e-3)


def test_passes_in_half_precision_with_fixed_weights_fold_the_norm():
    """Folded, an output is about as close to float32's as bf16 rounds the plain one; float32 never folds."""
    adapter = adapters_of(scrambled(network_of()))[1]
    x = torch.randn(6, 5, 8, generator=torch.Generator().manual_seed(2))
    route = Route(torch.tensor([0, 1, 2, 2, 1, 0]))
    with torch.no_grad():
        exact = adapter(x, route)
        tables = derive([adapter], whole)[0]
        assert adapter.fixed(tables) is tables
        with torch.autocast("cpu", torch.bfloat16):
            rounded = adapter(x, route)
            adapter.tables = adapter.fixed(tables)
            folded = adapter(x, route)
        assert len(adapter.tables) == len(tables) + 2
        assert not torch.equal(folded, rounded)
        assert (folded - exact).abs().max() <= 2 * (rounded - exact).abs().max() + 1e-3
        torch.testing.assert_close(adapter(x, route), exact, rtol=1e-5, atol=1e-5)
