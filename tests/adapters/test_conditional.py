"""The conditional adapters: the authors' numbers (golden), and the equations done naively."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from tests.support.golden import golden
from tests.support.more import examples
from weft.adapters.alignment import FilmAlignment, MatrixAlignment, TaskAlignment
from weft.adapters.conditional_attention import ConditionalAttention, block_size
from weft.adapters.conditional_bottleneck import FilmBottleneck, ModulatedBottleneck
from weft.adapters.conditional_norm import ConditionalNorm, OwnConditionalNorm
from weft.adapters.film import Film
from weft.adapters.stacked import StackedLinear
from weft.adapters.task_embedding import TaskEmbedding, TransformedEmbedding
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.errors import WeftError

NEAR = {"rtol": 0, "atol": 1e-5}
D = 48
NAMES = [f"t{i}" for i in range(5)]
ONE, OWN = Slots.one(NAMES), Slots.per_task(NAMES)
ROUTE = Route(torch.arange(5))


class Given(nn.Module):
    """A condition that is just these vectors, one a row."""

    def __init__(self, z):
        super().__init__()
        self.z = z

    def forward(self, route):
        return self.z


def site(kind, width=D):
    return Site(kind, None if kind in ("embeddings", "top") else 0, width, width, "")


def linear(width, out_width):
    return StackedLinear(width, out_width, ONE, 0, "x")


def read(name):
    return load_file(golden("ca_mtl") / f"{name}.safetensors")


def fill(module, tensors, names):
    """Copy a fixture's parameters into a module's only slot."""
    with torch.no_grad():
        for ours, theirs in names.items():
            module.get_parameter(ours)[0].copy_(tensors[f"param.{theirs}"])
    return module


def film_names(ours="film.generate", theirs="gb_weights"):
    return {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}


@torch.no_grad()
def scrambled(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module


def test_golden_film_and_alignment():
    tensors = read("film")
    film = Film(D, D, ONE, 0, "x")
    fill(film, tensors, film_names("generate"))
    x, z = tensors["in.x_to_film"], tensors["in.x_cond"]
    torch.testing.assert_close(film(x, z, ROUTE), tensors["out"], **NEAR)
    aligned = FilmAlignment(site("embeddings"), Given(z), film)
    torch.testing.assert_close(aligned(x, ROUTE), tensors["out"], **NEAR)


def test_golden_block_diagonal_matrix():
    tensors = read("cbda_d48_L16")
    z, a = tensors["in.x_cond"], tensors["in.random_weight_matrix"]
    attention = ConditionalAttention(
        site("scores"), Given(z), Film(D, 6, ONE, 0, "x"), ONE, 16, block_size(16, 3), 0
    )
    fill(attention, tensors, film_names())
    attention.get_parameter("a").data[0] = a
    route = Route(torch.arange(3))
    torch.testing.assert_close(attention.matrix(z, route, 16), tensors["out"], **NEAR)
    torch.testing.assert_close(attention.matrix(z, route, 11), tensors["out"][:, :11, :11], **NEAR)


def test_golden_conditional_norm():
    tensors = read("cond_layer_norm")
    x, z = tensors["in.hidden"], tensors["in.condition"]
    names = film_names(theirs="ln_weight_modulation.gb_weights")
    own = OwnConditionalNorm(D, Given(z), Film(D, D, ONE, 0, "x"), ONE, eps=1e-12)
    fill(own, tensors, {**names, "weight": "weight", "bias": "bias"})
    torch.testing.assert_close(own(x, ROUTE), tensors["out"], **NEAR)
    norm = nn.LayerNorm(D, eps=1e-12)
    norm.load_state_dict({k: tensors[f"param.{k}"] for k in ("weight", "bias")})
    term = ConditionalNorm(site("norm_1"), Given(z), Film(D, D, ONE, 0, "x"))
    fill(term, tensors, names)
    term.bind_norm(norm)
    assert list(dict(term.named_parameters())) == ["film.generate.weight", "film.generate.bias"]
    hat = F.layer_norm(x, (D,), eps=1e-12)
    torch.testing.assert_close(norm(x) + term(hat, ROUTE), tensors["out"], **NEAR)


def test_golden_bottleneck():
    tensors = read("cond_bottleneck")
    x, z = tensors["in.hidden"], tensors["in.x_cond"]
    size = D // 3
    bottleneck = FilmBottleneck(
        Given(z), linear(D, D), Film(D, D, ONE, 0, "x"), linear(D, size), linear(size, D)
    )
    names = film_names(theirs="hidden_modulation.gb_weights")
    for ours, theirs in (("transform", "emb_transf"), ("down", "down_proj_layer"), ("up", "up_proj_layer")):
        names |= film_names(ours, theirs)
    fill(bottleneck, tensors, names)
    torch.testing.assert_close(bottleneck(x, ROUTE), tensors["out"], **NEAR)


@settings(max_examples=examples(40), deadline=None)
@given(length=st.integers(1, 20), blocks=st.integers(1, 20), cut=st.integers(0, 19), full=st.booleans())
def test_the_matrix_is_a_direct_sum(length, blocks, cut, full):
    """M(z) = ⊕ A'_n for any L and N, by torch.block_diag; shorter rows see its upper left corner."""
    blocks, short = min(blocks, length), max(1, length - cut)
    b = block_size(length, blocks)
    film = Film(4, b * b if full else b, ONE, 0, "x")
    attention = scrambled(
        ConditionalAttention(site("scores", 4), Given(torch.zeros(0)), film, ONE, length, b, 0)
    )
    z = torch.randn(3, 4, generator=torch.Generator().manual_seed(length))
    found = attention.matrix(z, Route(torch.zeros(3, dtype=torch.long)), short)
    a = attention.get_parameter("a").detach()[0]
    for row, vector in zip(found, z, strict=True):
        gamma, beta = film.scale_and_shift(vector[None], ROUTE)
        pieces = []
        for piece in a.split(b):
            g, e = (x[0].view(b, b)[: len(piece)] if full and b > 1 else x[0] for x in (gamma, beta))
            pieces.append((1 + g) * piece + e)
        expected = torch.block_diag(*pieces)[:, :length]
        torch.testing.assert_close(row, expected[:short, :short])
        assert len(pieces) == math.ceil(length / b) <= blocks


def test_a_row_too_long_is_told():
    attention = ConditionalAttention(
        site("scores", 4), Given(torch.zeros(1, 4)), Film(4, 3, ONE, 0, "x"), ONE, 6, 3, 0
    )
    with pytest.raises(WeftError, match=r"rows of 7 tokens; .* at most 6"):
        attention(torch.zeros(1, 7, 4), ROUTE)


def test_starts_of_the_matrix():
    """Zeros in the code, random in the paper, and then the same for a place and seed."""

    def a(random, seed=0):
        made = ConditionalAttention(
            site("scores"), Given(None), Film(D, 6, ONE, 0, "x"), ONE, 16, 6, seed, random
        )
        return made.get_parameter("a")

    assert not a(False).any()
    assert torch.equal(a(True), a(True))
    assert not torch.equal(a(True), a(True, seed=1))


def test_one_matrix_modulated():
    """v·R̂, R̂ = R·diag(1 + γ) + 1·βᵀ, by building R̂ for each row."""
    z, x = torch.randn(5, D), torch.randn(5, 7, D)
    adapter = scrambled(MatrixAlignment(site("embeddings"), Given(z), Film(D, D, ONE, 0, "x"), ONE))
    gamma, beta = adapter.film.scale_and_shift(z, ROUTE)
    r = torch.eye(D) + adapter.get_parameter("delta")[0]
    for row in range(5):
        whole = r * (1 + gamma[row]) + beta[row].expand(D, D)
        torch.testing.assert_close(adapter(x, ROUTE)[row], x[row] @ whole, rtol=1e-4, atol=1e-4)


def test_a_matrix_for_each_task():
    x = torch.randn(5, 7, D)
    adapter = TaskAlignment(site("embeddings"), OWN)
    assert torch.equal(adapter(x, ROUTE), x)
    scrambled(adapter)
    for row in range(5):
        whole = torch.eye(D) + adapter.get_parameter("delta")[row]
        torch.testing.assert_close(adapter(x, ROUTE)[row], x[row] @ whole, rtol=1e-4, atol=1e-4)


def test_the_printed_layer_norm():
    """Eq. 3.3 to the letter: weight γ'·γ(z) + β', bias β(z), γ = 1 + what is generated."""
    z, x = torch.randn(5, D), torch.randn(5, 7, D)
    norm = scrambled(nn.LayerNorm(D))
    term = scrambled(ConditionalNorm(site("norm_2"), Given(z), Film(D, D, ONE, 0, "x"), "paper"))
    term.bind_norm(norm)
    own = OwnConditionalNorm(D, Given(z), term.film, ONE, norm.eps, "paper")
    with torch.no_grad():
        own.get_parameter("weight")[0], own.get_parameter("bias")[0] = norm.weight, norm.bias
    gamma, beta = term.film.scale_and_shift(z, ROUTE)
    hat = F.layer_norm(x, (D,), eps=norm.eps)
    expected = hat * (norm.weight * (1 + gamma) + norm.bias)[:, None] + beta[:, None]
    torch.testing.assert_close(norm(x) + term(hat, ROUTE), expected, **NEAR)
    torch.testing.assert_close(own(x, ROUTE), expected, **NEAR)


def test_a_norm_without_bias():
    """ModernBERT's: nothing to move, and the printed form gives it one."""
    z, x = torch.randn(5, D), torch.randn(5, 7, D)
    norm = nn.LayerNorm(D, bias=False)
    for form in ("code", "paper"):
        term = scrambled(ConditionalNorm(site("norm_2"), Given(z), Film(D, D, ONE, 0, "x"), form))
        term.bind_norm(norm)
        gamma, beta = (v[:, None] for v in term.film.scale_and_shift(z, ROUTE))
        expected = x * (gamma + beta) if form == "code" else x * gamma + beta
        torch.testing.assert_close(term(x, ROUTE), expected, **NEAR)


def test_the_printed_bottleneck():
    """Both maps made as R̂ is: Ŵ = diag(1 + γ)·W + β·1ᵀ."""
    z, x = torch.randn(5, D), torch.randn(5, 7, D)
    films = Film(D, 11, ONE, 0, "x"), Film(D, D, ONE, 0, "y")
    bottleneck = scrambled(ModulatedBottleneck(Given(z), linear(D, 11), films[0], linear(11, D), films[1]))
    found = bottleneck(x, ROUTE)
    for row in range(5):
        y = x[row]
        for one, film in ((bottleneck.down, films[0]), (bottleneck.up, films[1])):
            gamma, beta = film.scale_and_shift(z[row : row + 1], ROUTE)
            w = one.get_parameter("weight")[0]
            y = F.linear(y, (1 + gamma[0])[:, None] * w + beta[0][:, None], one.get_parameter("bias")[0])
        torch.testing.assert_close(found[row], y, rtol=1e-4, atol=1e-3)


def test_a_tasks_vector():
    """Rows of one task take one vector; the start is N(0, 0.02²) and does not depend on the company."""
    embedding = TaskEmbedding(D, OWN, 3, "p")
    z = embedding.get_parameter("z")
    assert 0.015 < float(z.detach().std()) < 0.025
    few = TaskEmbedding(D, Slots.per_task(NAMES[2:3]), 3, "p")
    assert torch.equal(few.get_parameter("z")[0], z[2])
    assert embedding(Route(torch.full((4,), 2), single=2)).shape == (1, D)
    transformed = TransformedEmbedding(embedding, D, ONE, 3, "q")
    mixed = transformed(Route(torch.tensor([2, 0])))
    torch.testing.assert_close(mixed[:1], transformed(Route(torch.full((4,), 2), single=2)))
