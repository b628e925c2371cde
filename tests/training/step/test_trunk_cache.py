from __future__ import annotations

import pytest
import torch

import weft
from tests.support.every_kind import task_of_kind, tokens_of
from tests.support.tiny import no_dropout, scramble
from tests.support.tiny_run import save_encoder
from weft.data.batching.batch import make_batch
from weft.errors import WeftError
from weft.training.step.trunk_cache import TrunkCache

TASKS = ("classify", "apart", "tag", "regress")
UPPER = {"use": "lora", "rank": 2, "layers": "1"}
FROZEN = {
    "frozen": "frozen",
    "top_layer": {"use": "top_layer", "train_encoder": "none"},
    "lora above": UPPER,
    "last block": {"use": "full", "train_encoder": "layers 1"},
    "every layer read": {
        "use": "ca_mtl",
        "attention": "none",
        "alignment": "none",
        "norm": "none",
        "size": "large",
        "train_encoder": "none",
    },
}


@pytest.fixture(scope="module", params=["bert", "modernbert", "deberta-v2"])
def folder(request, tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("cache") / request.param, request.param)


def made(folder, method):
    tasks = [task_of_kind(name) for name in TASKS]
    model = scramble(weft.Model(folder, tasks, method, max_length=24, head_dropout=0.0))
    return model, [tokens_of(task, model.tokenizer) for task in tasks]


def gradients(model, batch, trunk=None):
    model.zero_grad()
    output = model.run(**batch.inputs, trunk=trunk)
    losses = model.example_losses(output, batch.labels)
    losses.sum().backward()
    return losses.detach(), {
        name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None
    }


@pytest.mark.each_value
@pytest.mark.parametrize("method", FROZEN)
def test_losses_and_gradients_are_those_without_it(folder, method):
    model, tokens = made(folder, FROZEN[method])
    model.head_dropout = 0.0
    no_dropout(model)
    ids = [2, 0, 3, 1]  # a plan may have another order than the model
    cache = TrunkCache(model, [tokens[i] for i in ids], ids)
    assert model.training
    assert cache.note is None
    wanted = sum(int(own.row_lengths.sum()) for own in tokens) + 1
    kept = cache.depth + 1 if model.body.reads_layers else 1
    assert cache.bytes == wanted * 32 * 4 * kept
    task = [3, 0, 1, 2, 0, 2, 1]
    items = [(tokens[t], i) for t, i in zip(task, [0, 5, 2, 3, 1, 0, 4], strict=True)]
    batch = make_batch(model, items, torch.tensor(task).numpy(), torch.device("cpu"))
    length = batch.inputs["input_ids"].size(1)
    trunk = cache.of(torch.from_numpy(cache.rows(items)), length)
    losses, expected = gradients(model, batch)
    found, own = gradients(model, batch, trunk)
    torch.testing.assert_close(found, losses, rtol=1e-5, atol=1e-5)
    assert own.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(own[name], gradient, rtol=1e-4, atol=1e-5)


def test_rows_beyond_a_batch_are_padding(folder):
    model, tokens = made(folder, "frozen")
    cache = TrunkCache(model, tokens, range(4))
    items = [(tokens[1], 0), (tokens[0], 3)]  # of two rows and one
    rows = cache.rows(items, 5)
    trunk = cache.of(torch.from_numpy(rows), 30)
    assert trunk.hidden.shape == (5, 30, 32)
    assert not trunk.hidden[3:].any()
    for row, (own, number) in enumerate(((tokens[1], 0), (tokens[1], 1), (tokens[0], 3))):
        there = trunk.hidden[row].any(-1)
        assert there.tolist() == [i < own.row_lengths[number] for i in range(30)]


def test_it_says_that_the_trunk_runs_without_dropout(folder):
    model, tokens = made(folder, UPPER)
    assert model.encoder.config.model_type == "modernbert" or "run without dropout" in str(
        TrunkCache(model, tokens, range(4)).note
    )


def test_it_refuses_what_has_no_trunk_and_what_is_too_large(folder):
    model, tokens = made(folder, "lora")
    with pytest.raises(WeftError, match="method 'lora' trains in the encoder's lowest block"):
        TrunkCache(model, tokens, range(4))
    model, tokens = made(folder, "frozen")
    with pytest.raises(WeftError, match=r"tokens of 1 × 32 numbers take .* MiB; found room for 0.0 MiB"):
        TrunkCache(model, tokens, range(4), limit=1000)
