"""The authors' checkpoints: their own numbers (golden), and every variant of their code."""

from __future__ import annotations

import itertools
import json
import types

import pytest
import torch

from tests.support.bert_n_pals_reference import Drawn, run
from tests.support.golden import read_golden
from tests.support.more import some_of
from weft.errors import WeftError
from weft.interop import load_bert_n_pals
from weft.interop.bert_n_pals.keys import places_of_encoder, places_of_tasks
from weft.interop.bert_n_pals.variant import Variant
from weft.tasks.task import Task

NEAR = {"rtol": 0, "atol": 1e-5}
MODELS = ("model_shared", "model_pals", "model_low_rank", "model_houlsby")
FLAGS = ("pals", "mult", "houlsby", "top", "bert_lay_top", "lhuc")
SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "hidden_size_aug": 12,
    "hidden_act": "gelu",
    "num_tasks": 3,
}


def read(name):
    return read_golden("bert_n_pals", name)


def loaded(name):
    told, part = read(name)
    model = load_bert_n_pals(part("param."), told["config"], told["num_labels"], told["task_names"])
    return model, told, part


@pytest.mark.parametrize("name", MODELS)
def test_golden_models(name):
    model, _, part = loaded(name)
    given, out = part("in."), part("out.")
    rows = len(given["input_ids"])
    inputs = [torch.cat([given[k]] * 3) for k in ("input_ids", "attention_mask", "token_type_ids")]
    with torch.no_grad():
        found = model.run(*inputs, torch.arange(3).repeat_interleave(rows), layers=True)  # all tasks at once
    for t in range(3):
        own = slice(t * rows, (t + 1) * rows)
        for n in range(3):
            torch.testing.assert_close(found.layers[n + 1][own], out[f"task{t}.layer{n}"], **NEAR)
        torch.testing.assert_close(found.hidden[own], out[f"task{t}.layer2"], **NEAR)
        torch.testing.assert_close(found.pooled[own], out[f"task{t}.pooled"], **NEAR)
        torch.testing.assert_close(torch.stack(found.logits[own]), out[f"task{t}.logits"], **NEAR)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", range(3))
def test_golden_losses_and_gradients(name, task):
    model, told, part = loaded(name)
    given = part("in.")
    ids = torch.full((len(given["input_ids"]),), task)
    output = model.run(given["input_ids"], given["attention_mask"], given["token_type_ids"], ids)
    labels = model.collate_labels(given[f"task{task}.labels"].tolist(), ids)
    loss = model.loss(output, labels)
    assert loss.item() == pytest.approx(told["losses"][str(task)], abs=1e-5)
    loss.backward()
    for parameter in model.parameters():  # the gradients where the values were: the same keys find them
        parameter.data.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    places = places_of_encoder(model.encoder, own_pooler=True).of
    places |= places_of_tasks(model, _variant(told["config"])).of
    norms = told["grad_norms"][str(task)]
    assert set(norms) <= set(places)
    for key, norm in norms.items():
        (target,) = places[key][1]
        assert target.norm().item() == pytest.approx(norm or 0.0, abs=1e-5), key
    for key, gradient in part(f"grad.task{task}.").items():
        torch.testing.assert_close(places[key][1][0], gradient, **NEAR, msg=lambda m, k=key: f"{k}: {m}")


def _variant(config):
    return Variant(**{k: v for k, v in config.items() if k in Variant.__dataclass_fields__})


def variants():
    for flags in itertools.product((False, True), repeat=len(FLAGS)):
        config = {**SIZES, **dict(zip(FLAGS, flags, strict=True)), "extra_dim": None}
        if config["houlsby"] and config["pals"] and (config["mult"] or config["lhuc"]):
            continue  # their code does not run
        name = "-".join(flag for flag in FLAGS if config[flag]) or "shared"
        yield pytest.param(config, None, False, id=name)
        if config["mult"] ^ config["houlsby"]:
            yield pytest.param({**config, "extra_dim": 5}, None, False, id=f"{name}-extra")
            yield pytest.param(config, [1], False, id=f"{name}-layer 1")
        if config["mult"] or config["top"]:
            yield pytest.param(config, None, True, id=f"{name}-pooler a task")


def made(config, multis=None, pool=False):
    """Rows, what the reference gives for each task, and the state dict that it drew."""
    drawn = Drawn()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 50, (2, 9), generator=generator)
    segments = torch.randint(0, 2, (2, 9), generator=generator)
    mask = torch.ones(2, 9)
    mask[1, 5:] = 0
    expected = [run(drawn, config, ids, mask, segments, task, multis, pool) for task in range(3)]
    return (ids, mask.long(), segments), expected, drawn.state


@pytest.mark.parametrize(("config", "multis", "pool"), some_of(variants(), 9))
def test_every_variant_of_the_code(config, multis, pool):
    (ids, mask, segments), expected, state = made(config, multis, pool)
    model = load_bert_n_pals(state, config, [2, 3, 1], layers=multis)
    task = torch.tensor([0, 1, 2, 2, 1, 0])
    row = torch.tensor([0, 0, 0, 1, 1, 1])
    with torch.no_grad():
        found = model.run(ids[row], mask[row], segments[row], task, layers=True)
    for at, (t, r) in enumerate(zip(task.tolist(), row.tolist(), strict=True)):
        layers, pooled, logits = expected[t]
        for n in range(len(layers)):
            torch.testing.assert_close(found.layers[n + 1][at], layers[n][r], **NEAR)
        torch.testing.assert_close(found.hidden[at], layers[-1][r], **NEAR)
        torch.testing.assert_close(found.pooled[at], pooled[r], **NEAR)
        torch.testing.assert_close(found.logits[at], logits[r], **NEAR)
    assert all(p.requires_grad for n, p in model.encoder.named_parameters() if "pooler" not in n)
    held = model.ledger()
    assert sum(held["per_task"].values()) + sum(held["heads"].values()) + held["encoder"] == sum(
        p.numel() for p in model.parameters()
    )


@pytest.mark.parametrize(("config", "multis", "pool"), some_of(variants(), 9))
def test_gradients_of_every_variant(config, multis, pool):
    """Of task 1's first logit, with respect to every key of the state dict."""
    (ids, mask, segments), _, state = made(config, multis, pool)
    model = load_bert_n_pals(state, config, [2, 3, 1], layers=multis)
    drawn = Drawn()
    leaves = {id(value): value.clone().requires_grad_() for value in state.values()}
    drawn.state = {key: leaves[id(value)] for key, value in state.items()}  # tied keys stay one tensor
    run(drawn, config, ids, mask.float(), segments, 1, multis, pool)[2][:, 0].sum().backward()
    logits = model.run(ids, mask, segments, torch.tensor([1, 1])).logits
    torch.stack(logits)[:, 0].sum().backward()
    for parameter in model.parameters():
        parameter.data.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    places = places_of_encoder(model.encoder, own_pooler=not pool).of
    places |= places_of_tasks(model, _variant(config)).of
    assert set(places) == set(drawn.state)
    for key, (_, targets) in places.items():
        expected = drawn.state[key].grad
        expected = torch.zeros_like(drawn.state[key]) if expected is None else expected
        found = sum(targets) if targets else torch.zeros_like(expected)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")


PALS = {**SIZES, "pals": True, "mult": True}


@pytest.fixture
def state():
    return made({**PALS, **dict.fromkeys(FLAGS[2:], False), "extra_dim": None})[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s.pop("bert.encoder.layer.1.multi_layers.2.attn.key.bias"),
            r"missing: \S+multi_layers.2.attn.key.bias",
        ),
        (lambda s: s.pop("classifier.2.weight"), "missing: classifier.2.weight"),
        (lambda s: s.update(extra=torch.ones(1)), "unexpected: extra"),
        (
            lambda s: s.update({"bert.pooler.dens.bias": s.pop("bert.pooler.dense.bias")}),
            r"missing: bert.pooler.dense.bias\n  unexpected: bert.pooler.dens.bias; did you mean 'bert",
        ),
        (
            lambda s: s.update({"classifier.0.weight": torch.ones(3, 16)}),
            r"classifier.0.weight has shape \[3, 16\]; expected \[2, 16\]",
        ),
        (
            lambda s: s.update({"bert.encoder.mult_aug_dense.1.weight": torch.ones(12, 16)}),
            "mult_aug_dense.1.weight.* tied",
        ),
    ],
)
def test_wrong_states_are_named(state, change, message):
    change(state)
    with pytest.raises(WeftError, match=message):
        load_bert_n_pals(state, PALS, [2, 3, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pal": True}, "pal: no such key; did you mean 'pals'"),
        ({"vocab_size": None}, "vocab_size: missing"),
        ({"mult": "yes"}, "mult: expected true or false; found 'yes'"),
        ({"hidden_size_aug": "big"}, "hidden_size_aug: expected a number; found 'big'"),
        ({"num_tasks": 4}, "num_tasks: 4; num_labels has 3"),
        ({"houlsby": True}, "cannot run houlsby, mult and pals together"),
        ({"houlsby": True, "mult": False, "lhuc": True}, "cannot run houlsby, lhuc and pals together"),
        ({"hidden_size_aug": 10}, "cannot run pals with hidden_size_aug 10: not a multiple of its 6 heads"),
        (
            {"top": True, "hidden_size_aug": 18},
            "cannot run top with hidden_size_aug 18: not a multiple of its 12 heads",
        ),
        ({"num_attention_heads": 3}, "cannot run hidden_size 16"),
        ({"hidden_size_aug": 24}, r"aug_dense.weight has shape \[12, 16\]; expected \[24, 16\]"),
        ({"lhuc": True}, "missing: bert.encoder.layer.0.multi_lhuc.0.lhuc"),
        ({"mult": False}, "unexpected: bert.encoder.layer.0.multi_layers"),
    ],
)
def test_wrong_configurations_are_named(state, change, message):
    with pytest.raises(WeftError, match=message):
        load_bert_n_pals(state, {**PALS, **change}, [2, 3, 1])


def test_a_layer_without_any_function_is_taken_as_left_out_and_said_so(state):
    for key in list(state):
        if key.startswith("bert.encoder.layer.0.multi_layers."):
            del state[key]
    with pytest.warns(UserWarning, match=r"for the layers \[0\].*pass layers=\[1\]"):
        model = load_bert_n_pals(state, PALS, [2, 3, 1])
    assert model.method.layers == [1]
    with pytest.raises(WeftError, match=r"missing: bert\.encoder\.layer\.0\.multi_layers"):
        load_bert_n_pals(state, PALS, [2, 3, 1], layers=[0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_labels": 3}, "num_labels: expected the outputs of each task, .*; found 3"),
        ({"num_labels": [2, 0, 1]}, "num_labels: expected"),
        ({"config": None}, "config: expected the authors' configuration"),
        ({"state": None}, "state: expected a state dict or its file; found NoneType"),
        ({"state": {"classifier.0.weight": "x"}}, "state: classifier.0.weight: expected a tensor; found str"),
        ({"task_names": ["a", "b", "a"]}, "two tasks are named 'a'"),
        ({"task_names": [Task("a", size=2), Task("b", size=4), "c"]}, "'b' has 4 outputs; num_labels says 3"),
    ],
)
def test_wrong_arguments_are_told(state, arguments, message):
    given = {"state": state, "config": PALS, "num_labels": [2, 3, 1], "task_names": None, **arguments}
    with pytest.raises(WeftError, match=message):
        load_bert_n_pals(**given)


def test_older_and_other_forms_are_read(state):
    expected = load_bert_n_pals(state, PALS, [2, 3, 1]).state_dict()
    other = {key: value.numpy() for key, value in state.items()}
    other["bert.embeddings.position_ids"] = torch.arange(12)[None]
    config = types.SimpleNamespace(**{**PALS, "pals": 1, "mult": 1, "top": 0, "num_tasks": 1})
    found = load_bert_n_pals(other, config, (2, 3, 1)).state_dict()
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_tasks_may_be_told_whole(state):
    tasks = [
        Task("cola", labels=("bad", "good")),
        Task("mnli", labels=("e", "n", "c"), texts=("premise", "hypothesis")),
        Task("sts", "regress", texts=("a", "b"), range=(0, 5)),
    ]
    model = load_bert_n_pals(state, PALS, [2, 3, 1], tasks)
    assert model.tasks == tuple(tasks)


def test_names_must_be_as_many_as_tasks(state):
    with pytest.raises(WeftError, match="2 names for 3 tasks"):
        load_bert_n_pals(state, PALS, [2, 3, 1], ["a", "b"])


def test_files_data_parallel_names_and_configs_of_google(state, tmp_path):
    torch.save({f"module.{k}": v for k, v in state.items()}, tmp_path / "model.bin")
    config = {**PALS, "directionality": "bidi", "pooler_fc_size": 768, "initializer_range": 0.02}
    (tmp_path / "config.json").write_text(json.dumps(config))
    one = load_bert_n_pals(tmp_path / "model.bin", tmp_path / "config.json", [2, 3, 1])
    other = load_bert_n_pals(state, PALS, [2, 3, 1])
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
    with pytest.raises(WeftError, match="there is no such file"):
        load_bert_n_pals(tmp_path / "no.bin", PALS, [2, 3, 1])
    for name in ("damaged.bin", "damaged.safetensors"):
        (tmp_path / name).write_bytes(b"no weights at all")
        with pytest.raises(WeftError, match=f"{name} cannot be read as a file of weights"):
            load_bert_n_pals(tmp_path / name, PALS, [2, 3, 1])
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(WeftError, match="cannot be read as JSON"):
        load_bert_n_pals(state, tmp_path / "config.json", [2, 3, 1])


@pytest.mark.parametrize("trained", [False, True])
def test_a_loaded_checkpoint_becomes_a_bundle(state, tmp_path, trained):
    """Its encoder has no files elsewhere: it comes along, trained or not."""
    import weft
    from weft.training.optim.owners import OwnerOptimizers

    model = load_bert_n_pals(state, PALS, [2, 3, 1], ["cola", "mnli", "sts"])
    ids, task = torch.arange(18).view(2, 9), torch.tensor([0, 2])
    if trained:
        optimizers = OwnerOptimizers(model, lr=1e-2, weight_decay=0.0)
        model.run(ids, task=task).hidden.square().sum().backward()
        optimizers.step([0, 2])
    again = weft.load(model.save(tmp_path / "bundle")).eval()
    with torch.no_grad():
        for one, two in zip(model.run(ids, task=task).logits, again.run(ids, task=task).logits, strict=True):
            assert torch.equal(one, two)
    again.save(tmp_path / "again")  # a bundle's encoder has files: found where it was
