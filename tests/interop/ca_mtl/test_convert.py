"""The authors' checkpoints of CA-MTL: their own numbers (golden), base and large, and what is refused."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import save_file

import weft
from tests.support.ca_mtl_reference import Reference, draw
from tests.support.golden import read_golden
from tests.support.more import some_of
from weft.errors import WeftError
from weft.interop import load_ca_mtl

NEAR = {"rtol": 0, "atol": 1e-5}
TASKS = ["first", "second", "third"]
SIZES = [2, 3, 1]
CONFIG = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 30,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-6,
    "max_seq_length": 12,
}


def read(name):
    return read_golden("ca_mtl", name)


def test_golden_base_model():
    told, part = read("model_base")
    model = load_ca_mtl(part("param."), told["config"], told["tasks"])
    given, mid, out = part("in."), part("mid."), part("out.")
    found = model.run(
        *(given[k] for k in ("input_ids", "attention_mask", "token_type_ids", "task_id")), layers=True
    )
    torch.testing.assert_close(found.layers[0], mid["aligned"], **NEAR)
    for n in range(4):
        torch.testing.assert_close(found.layers[n + 1], mid[f"layer{n}"], **NEAR)
    torch.testing.assert_close(found.hidden, out["sequence_output"], **NEAR)
    torch.testing.assert_close(found.pooled, out["pooled"], **NEAR)
    task = given["task_id"]
    for t, name in enumerate(told["tasks"]):
        own = [logits for logits, one in zip(found.logits, task.tolist(), strict=True) if one == t]
        torch.testing.assert_close(torch.stack(own), out[f"logits.{name}"], **NEAR)
    numbers = [model.tasks[t].kind == "regress" for t in task.tolist()]
    values = [v if n else int(v) for v, n in zip(given["labels"].tolist(), numbers, strict=True)]
    labels = model.collate_labels(values, task)
    losses = model.example_losses(found, labels)
    for t in range(4):
        torch.testing.assert_close(losses[task == t].mean(), out["loss_per_task"][0, t], **NEAR)
    torch.testing.assert_close(model.loss(found, labels)[None], out["loss"], **NEAR)


def test_the_reference_is_the_authors():
    """So that what it says of large and of other lengths counts."""
    told, part = read("model_base")
    given, mid, out = part("in."), part("mid."), part("out.")
    reference = Reference(part("param."), told["config"], large=False)
    lengths = given["attention_mask"].sum(1).tolist()
    for r, (length, task) in enumerate(zip(lengths, given["task_id"].tolist(), strict=True)):
        row = reference.row(given["input_ids"][r, :length], given["token_type_ids"][r, :length], task)
        torch.testing.assert_close(row[0], mid["aligned"][r, :length], **NEAR)
        torch.testing.assert_close(row[2], out["sequence_output"][r, :length], **NEAR)
        torch.testing.assert_close(row[3], out["pooled"][r], **NEAR)


@pytest.mark.parametrize("length", some_of([4, 6, 8, 12, 24], 2))
@pytest.mark.parametrize(("large", "layers"), [(False, 2), (False, 4), (True, 1), (True, 3), (True, 4)])
def test_every_variant_at_every_length(large, layers, length):
    config = {**CONFIG, "num_hidden_layers": layers, "max_seq_length": length}
    state = draw(config, SIZES, large, seed=length)
    model = load_ca_mtl(state, config, TASKS)
    reference = Reference(state, config, large)
    generator = torch.Generator().manual_seed(length)
    for wide in {length, max(2, length - 3)}:  # rows shorter than L too, to which the authors must pad
        lengths = torch.randint(1, wide + 1, (7,), generator=generator)
        lengths[0] = wide
        ids = torch.randint(1, 50, (7, wide), generator=generator)
        types = torch.randint(0, 2, (7, wide), generator=generator)
        task = torch.tensor([0, 2, 1, 1, 0, 2, 0])
        mask = (torch.arange(wide) < lengths[:, None]).long()
        with torch.no_grad():
            found = model.run(ids, mask, types, task, layers=True)
        for r, n in enumerate(lengths.tolist()):
            aligned, blocks, sequence, pooled, logits = reference.row(ids[r, :n], types[r, :n], int(task[r]))
            torch.testing.assert_close(found.layers[0][r, :n], aligned, **NEAR)
            for block, expected in zip(found.layers[1:-1], blocks[:-1], strict=True):
                torch.testing.assert_close(block[r, :n], expected, **NEAR)
            torch.testing.assert_close(found.hidden[r, :n], sequence, **NEAR)
            torch.testing.assert_close(found.pooled[r], pooled, **NEAR)
            torch.testing.assert_close(found.logits[r], logits, **NEAR)


@pytest.mark.parametrize("large", [False, True])
def test_epsilon_and_activation_are_the_configurations(large):
    config = {**CONFIG, "layer_norm_eps": 1e-2, "hidden_act": "relu", "initializer_range": 1}
    state = draw(config, SIZES, large)
    model = load_ca_mtl(state, config, TASKS)
    reference = Reference(state, config, large)
    ids, types = (
        torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(2)),
        torch.zeros(12).long(),
    )
    with torch.no_grad():
        found = model.run(ids, task=torch.arange(3))
    for task in range(3):
        torch.testing.assert_close(found.hidden[task], reference.row(ids[task], types, task)[2], **NEAR)


@pytest.mark.parametrize("large", [False, True])
def test_gradients_are_the_references(large):
    state = {k: v.requires_grad_() for k, v in draw(CONFIG, SIZES, large).items()}
    model = load_ca_mtl({k: v.detach() for k, v in state.items()}, CONFIG, TASKS, train_encoder="all")
    ids, task = torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(1)), torch.arange(3)
    types = torch.zeros_like(ids)
    reference = Reference(state, CONFIG, large)
    sum(reference.row(ids[r], types[r], r)[4].square().sum() for r in range(3)).backward()
    sum(x.square().sum() for x in model.run(ids, None, types, task).logits).backward()
    from weft.interop.ca_mtl.keys import places_of_adapters, places_of_encoder, places_of_heads

    places = places_of_encoder(model.encoder, 4, renamed_top=not large).of
    places |= places_of_adapters(model).of | places_of_heads(model).of
    by_memory = {}
    for parameter in model.parameters():
        for slot in [parameter, *(parameter if parameter.dim() > 1 else ())]:
            by_memory[slot.data_ptr(), tuple(slot.shape)] = (parameter, slot)
    compared = 0
    for key, (shape, (target,)) in places.items():
        parameter, slot = by_memory[target.data_ptr(), shape]
        offset = slot.storage_offset() - parameter.storage_offset()
        gradient = parameter.grad.flatten()[offset : offset + target.numel()].view(shape)
        torch.testing.assert_close(gradient, state[key].grad, rtol=1e-4, atol=1e-5, msg=key)
        compared += bool(state[key].grad.abs().sum() > 0)
    assert compared > 0.9 * len(places)


def test_it_is_a_model_like_any_other(tmp_path):
    """From a file, saved and loaded, on its way to training: an encoder without files goes along."""
    state = draw(CONFIG, SIZES, large=True)
    state["bert.embeddings.token_type_ids"] = torch.zeros(1, 24).long()  # a buffer of later libraries
    save_file(state, tmp_path / "large.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "num_tasks": 3}))
    tasks = [weft.Task("pairs", labels=("no", "yes"), texts=("a", "b")), "second", "third"]
    model = load_ca_mtl(tmp_path / "large.safetensors", tmp_path / "config.json", tasks)
    assert model.tasks[0].texts == ("a", "b")
    assert model.max_length == model.method.length == 12
    assert model.method.size == "large"
    trained = {n for n, p in model.encoder.named_parameters() if p.requires_grad}
    assert trained == {
        n for n, _ in model.encoder.named_parameters() if n.startswith(("encoder.layer.2", "encoder.layer.3"))
    } | {"pooler.dense.weight", "pooler.dense.bias"}
    model.save(tmp_path / "bundle")
    ids, task = torch.randint(1, 50, (3, 9)), torch.tensor([2, 0, 1])
    with torch.no_grad():
        found, expected = weft.load(tmp_path / "bundle").eval().run(ids, task=task), model.run(ids, task=task)
    assert torch.equal(found.hidden, expected.hidden)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ["a", "b"]}, "tasks: 2; the state dict has 3 decoders"),
        ({"tasks": "abc"}, "expected the tasks' names"),
        ({"config": {"num_tasks": 5}}, "num_tasks: 5; the state dict has 3 decoders"),
        ({"config": {"max_seq_length": 6}}, "max_seq_length: 6; the state dict was made for 12"),
        ({"config": {"num_hidden_layers": 3}}, "even number"),
        ({"config": {"hidden_size": 25}}, "not a multiple of max_seq_length"),
        ({"config": {"num_attention_heads": 5}}, "not a multiple of 5 heads"),
        ({"config": {"intermediate_size": 31}}, r"intermediate.dense.weight has shape \[30, 24\]"),
        ({"without": "bert.encoder.layer.1.attention.self.random_weight_matrix"}, "missing: bert.encoder"),
        ({"without": "decoders.1.model.weight"}, r"decoders.0.model.weight and so on; found \[0, 2\]"),
        ({"more": "bert.encoder.odd"}, "unexpected: bert.encoder.odd"),
        ({"config": {"hidden_act": "gelo"}}, "hidden_act: 'gelo'; did you mean 'gelu'"),
        ({"config": {"vocab_size": "50"}}, "vocab_size: expected a whole number; found '50'"),
        ({"config": {"layer_norm_eps": "1e-5"}}, "layer_norm_eps: expected a number"),
        ({"nan": "bert.pooler.dense.bias"}, "not finite: bert.pooler.dense.bias"),
        (
            {"scalar": "decoders.0.model.weight"},
            r"decoders.0.model.weight: expected a matrix; found shape \[\]",
        ),
        ({"tasks": [weft.Task("a", size=4), "b", "c"]}, "'a' has 4 outputs; its decoder says 2"),
    ],
)
def test_what_does_not_fit_is_told(change, message):
    state = draw(CONFIG, SIZES, large=False)
    state.pop(change.get("without"), None)
    if "more" in change:
        state[change["more"]] = torch.zeros(1)
    if "nan" in change:
        state[change["nan"]][0] = math.nan
    if "scalar" in change:
        state[change["scalar"]] = torch.tensor(1.0)
    with pytest.raises(WeftError, match=message):
        load_ca_mtl(state, {**CONFIG, **change.get("config", {})}, change.get("tasks", TASKS))


def test_what_is_neither_base_nor_large():
    with pytest.raises(WeftError, match="neither CA-MTL base"):
        load_ca_mtl({"bert.pooler.dense.weight": torch.zeros(2, 2)}, CONFIG, TASKS)
