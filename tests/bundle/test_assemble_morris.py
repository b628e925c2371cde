"""One MORRIS of tasks trained apart."""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.apart import BOTH, A, B, C, D, assert_same, close
from tests.support.tiny import TASKS, batch, labels, scramble, tiny
from weft.adapters.cp import CpAdapter
from weft.bundle.assemble_morris import assemble_morris
from weft.errors import WeftError


def trained_on(model):
    """A few steps make the loss smaller."""
    model.train()
    inputs = batch(model, rows=16)
    moved = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(15):
        loss = model.loss(model.run(**inputs), labels(model, inputs["task"]))
        moved.zero_grad()
        loss.backward()
        moved.step()
        losses.append(loss.item())
    return losses[-1] < 0.8 * losses[0]


def test_enough_rank_gives_the_very_same_answers(make, tmp_path):
    bundles = [make("one", [A, B], BOTH), make("two", [C], BOTH), make("three", [D], {**BOTH, "alpha": 3.0})]
    done = assemble_morris(bundles, tmp_path / "out", rank=8, bias_rank=4)
    whole = assert_same(bundles, tmp_path / "out", close(1e-5))
    assert whole.method.name == "morris"
    assert (whole.method.biases, whole.method.rank, whole.method.bias_rank) == ("dense", 8, 4)
    assert whole.method.rank_pattern == whole.method.bias_rank_pattern == {}
    assert len(done.errors) == 4 + 12
    assert all(site.relative < 1e-6 for site in done.errors)
    assert {site.components for site in done.errors} == {8, 4}
    assert done.relative("weight") < 1e-6
    shared = load_file(tmp_path / "out" / "shared.safetensors")
    assert any(key.endswith(".A") for key in shared)
    assert trained_on(whole)


def test_the_start_of_columns(make, tmp_path):
    """Used columns of A and C have the mean norm of the start, the others are the start, with B = 0."""
    bundles = [make("one", [A]), make("two", [B])]
    assemble_morris(bundles, tmp_path / "out", rank=7)
    whole = weft.load(tmp_path / "out")
    fresh = weft.Model(whole.encoder_source.source, whole.tasks, whole.method, pool=whole.pool)
    for (_, adapter), (_, start) in zip(whole.placements, fresh.placements, strict=True):
        assert isinstance(adapter, CpAdapter)
        for name, size in (("A", math.sqrt(32 / 21)), ("C", math.sqrt(1 / 3))):
            columns = adapter.get_parameter(name)[0]
            assert torch.allclose(columns[:, :4].norm(dim=0), torch.tensor(size))
            assert torch.equal(columns[:, 4:], start.get_parameter(name)[0][:, 4:])
        assert adapter.get_parameter("B")[:, :4].any(dim=0).all()
        assert not adapter.get_parameter("B")[:, 4:].any()
    assert whole.method.biases == "none"


def test_too_little_rank_is_told_and_more_is_better(make, tmp_path):
    bundles = [make(t.name, [t], BOTH) for t in TASKS]
    errors = []
    for rank in (1, 3, 6, 8):
        done = assemble_morris(bundles, tmp_path / "out", rank=rank, bias_rank=min(rank, 4))
        errors.append((done.relative("weight"), done.relative("bias")))
    weights, biases = zip(*errors, strict=True)
    assert 1 > weights[0] > weights[1] > weights[2] > weights[3]
    assert 1 > biases[0] > biases[1] > biases[2] == biases[3]
    whole, first = weft.load(tmp_path / "out"), weft.load(bundles[0])
    for (site, morris), (_, lora) in zip(whole.placements[:4], first.placements[:4], strict=True):
        assert torch.allclose(morris.weight_delta(0)[0], lora.weight_delta(0)[0], atol=1e-5), site


def test_shared_updates_have_a_small_rank(make, tmp_path):
    """Four tasks with one LoRA for all: Σk is 12, the rank of the tensor 3. One bundle is enough."""
    bundle = make("one", TASKS, {"use": "lora_bitfit_mtl", "rank": 3})
    done = assemble_morris([bundle], tmp_path / "out", rank=3, bias_rank=1)
    assert_same([bundle], tmp_path / "out", close(1e-5))
    assert done.relative("weight") < 1e-6
    again = assemble_morris([tmp_path / "out"], tmp_path / "again", rank=3, bias_rank=1)
    assert_same([bundle], tmp_path / "again", close(1e-5))
    assert again.relative("bias") < 1e-6


def test_methods_may_differ_and_only_what_is_updated_is_there(make, tmp_path):
    bundles = [
        make("one", [A], {"use": "lora", "rank": 2, "sites": "query", "layers": [1]}),
        make("two", [B], {"use": "bitfit", "biases": "blocks", "layers": [1]}),
        make("three", [C], {"use": "lora", "rank": 1, "sites": "key, ffn_out", "layers": [1]}),
        make("four", [D], "frozen"),
    ]
    assemble_morris(bundles, tmp_path / "out", rank=5, bias_rank=2)
    whole = assert_same(bundles, tmp_path / "out", close(1e-5))
    assert (whole.method.sites, whole.method.layers) == (("query", "key", "ffn_out"), [1])
    assert whole.method.biases == "all"
    uneven = [
        make("five", [A], {"use": "bitfit", "sites": "query", "layers": [0]}),
        make("six", [B], {"use": "bitfit", "sites": "norm_2", "layers": [1]}),
    ]
    assemble_morris(uneven, tmp_path / "uneven")
    whole = assert_same(uneven, tmp_path / "uneven", close(1e-5))
    assert [site.key for site, _ in whole.placements] == ["0/query", "1/norm_2"]


def test_modernbert_s_fused_maps(tmp_path):
    """And a family whose first norm is missing in layer 0."""
    tiny("modernbert").save_pretrained(tmp_path / "encoder")
    for name, task in (("one", A), ("two", B)):
        method = {"use": "lora_bitfit", "rank": 2, "biases": "all"}
        scramble(weft.Model(tmp_path / "encoder", [task], method)).save(tmp_path / name)
    bundles = [tmp_path / "one", tmp_path / "two"]
    assemble_morris(bundles, tmp_path / "out", rank=4, bias_rank=2)
    assert_same(bundles, tmp_path / "out", close(1e-5))


def test_what_cannot_become_morris_is_refused(make, tmp_path):
    out = tmp_path / "out"
    one = make("one", [A])
    cases = [
        (make("houlsby", [B], "houlsby"), "houlsby: method 'houlsby' changes"),
        (make("task-norm", [B], "task_norm"), "neither a low-rank update"),
        (make("bitfit", [B], "bitfit"), "bias of '(embeddings_norm|pooler)', which MORRIS does not have"),
        (make("full", [B], "full"), r"shared.safetensors: method 'full' trains the encoder itself"),
        (make("separate", [B], "separate"), r"bundle.json: method 'separate' trains the encoder itself"),
        (make("twice", [A]), "is in two bundles"),
    ]
    for bundle, message in cases:
        with pytest.raises(WeftError, match=message):
            assemble_morris([one, bundle], out)
    with pytest.raises(WeftError, match="method frozen updates no weight and no bias"):
        assemble_morris([make("f", [A], "frozen"), make("g", [B], "frozen")], out)
    with pytest.raises(WeftError, match="rank: expected greater than 0; found 0"):
        assemble_morris([one], out, rank=0)
    with pytest.raises(WeftError, match="no bundle"):
        assemble_morris([], out)
    assert not out.exists()
