"""LoRA that is written down differently, unified; and what is not finite, refused."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.apart import BOTH, LORA, A, B, C, assert_same, close, said
from tests.support.not_finite import save_anyway, spoil
from tests.support.tiny import scramble
from weft.adapters.bias import BiasAdapter
from weft.bundle.assemble import assemble
from weft.bundle.assemble_morris import assemble_morris
from weft.errors import WeftError


@pytest.mark.parametrize("turned", [False, True])
def test_lora_with_biases_and_without(make, tmp_path, turned):
    bundles = [make("one", [A], {**LORA, "rank": 3}), make("two", [B, C], {**BOTH, "alpha": 5.0})]
    bundles = bundles[::-1] if turned else bundles
    done = assemble(bundles, tmp_path / "out")
    whole = assert_same(bundles, tmp_path / "out", close(1e-6))
    assert (whole.method.name, whole.method.biases, whole.method.rank) == ("lora_bitfit", "dense", 3)
    number = whole.task_id("a")
    biases = [
        adapter.slot("v", number) for _, adapter in whole.placements if isinstance(adapter, BiasAdapter)
    ]
    assert len(biases) == 12
    assert not any(bias.any() for bias in biases)
    (note,) = done.notes
    assert "biases are " in note
    assert f"none in {tmp_path / 'one' / 'bundle.json'}" in note


def test_other_sites_layers_and_biases(make, tmp_path):
    bundles = [
        make("one", [A], {**LORA, "sites": "query", "layers": [0]}),
        make("two", [B], {**BOTH, "sites": "key, pooler", "layers": [1], "biases": "all", "rank": 3}),
        make("three", [C], {**BOTH, "layers": "top half"}),
    ]
    done = assemble(bundles, tmp_path / "out")
    whole = assert_same(bundles, tmp_path / "out", close(1e-6))
    assert (whole.method.sites, whole.method.layers) == (("query", "key", "value", "pooler"), "all")
    ranks = {"0/query": 2, "0/key": 0, "0/value": 0, "1/query": 2, "1/value": 2}
    assert (whole.method.rank, whole.method.rank_pattern) == (3, ranks)
    assert whole.method.biases == "all"
    assert [note.split(" are ")[0] for note in done.notes] == ["sites", "layers", "biases"]


@pytest.mark.parametrize(
    "place", ["adapters.0/query.0.B", "adapters.1/ffn_in.0.v", "heads.classify-3.weight"]
)
def test_what_is_not_finite_is_refused(make, encoder, tmp_path, capsys, place):
    model = spoil(scramble(weft.Model(encoder, [B], BOTH)), place)
    bundles = [make("one", [A], BOTH), save_anyway(model, tmp_path / "two")]
    file = tmp_path / "two" / "tasks" / "b.safetensors"
    expected = rf"{file}: 1 of the {model.get_parameter(place).numel()} numbers of '{place}' are NaN or"
    code, answer = said(capsys, "assemble", *bundles, "--as", "morris", "--out", tmp_path / "out")
    assert code == 2
    assert expected in answer.err
    other = make("three", [A], LORA)
    with pytest.raises(WeftError, match=expected):
        assemble([other, bundles[1]], tmp_path / "out")
    with pytest.raises(WeftError, match=expected):
        assemble(bundles, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@torch.no_grad()
def test_products_that_are_not_finite_are_refused(encoder, tmp_path):
    model = weft.Model(encoder, [B], LORA)
    for _, adapter in model.placements:
        adapter.get_parameter("A").fill_(1e38)
        adapter.get_parameter("B").fill_(1e38)
    model.save(tmp_path / "two")
    with pytest.raises(WeftError, match=r"0/query.* not finite numbers; the model did not train well"):
        assemble_morris([tmp_path / "two"], tmp_path / "out", rank=4)
    assert not (tmp_path / "out").exists()
