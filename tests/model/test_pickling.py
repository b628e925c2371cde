"""A model and its copy, by pickling, by `deepcopy` or for another process: equal, with nothing shared."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
import warnings

import pytest
import torch

import weft
from tests.support.every_kind import NAMES, task_of_kind
from tests.support.tiny import FAMILIES, batch, build, labels, no_dropout, scramble
from tests.support.tiny_run import save_encoder
from weft.acceleration.joined_maps import JoinedMaps
from weft.model.transforms.quantize import quantize

METHODS = ["lora", ["ca_mtl", "bitfit"], ["pals", "lhuc"], "houlsby", "top_layer", "separate"]
# every family with some method, and every method with some family
CASES = [(family, METHODS[n % len(METHODS)]) for n, family in enumerate(FAMILIES)]


def pickled(one):
    return pickle.loads(pickle.dumps(one))


def logits(model, inputs):
    with torch.no_grad():
        return torch.cat([x.flatten() for x in model.run(**inputs).logits])


def wovens(model):
    """What stands in the place of modules' `forward`: what pickle reaches first decides in which order."""
    return [m.__dict__["forward"].__self__ for m in model.encoder.modules() if "forward" in m.__dict__]


ORDERS = {
    "model": lambda m: [m],
    "encoder": lambda m: [m.encoder, m],
    "adapters": lambda m: [m.adapters, m.encoder, m],
    "wovens": lambda m: [*wovens(m), m],
    "modules": lambda m: [*reversed(list(m.encoder.modules())), m],
}


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize(("family", "method"), CASES)
def test_a_copy_answers_alike_and_shares_nothing(family, method, copied):
    model = scramble(build(family, method))
    inputs = batch(model)
    expected = logits(model, inputs)
    for name in ORDERS if copied is pickled else ("wovens",):
        twin = copied(ORDERS[name](model))[-1]
        assert torch.equal(logits(twin, inputs), expected)
        moved = twin.encoder if model.method.separate else twin.adapters
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter.add_(0.1)
        assert torch.equal(logits(model, inputs), expected)
        assert not torch.equal(logits(twin, inputs), expected)
        assert twin.lock is not model.lock
        if not model.method.separate:
            assert twin.body.holder is not model.body.holder


def test_the_encoder_alone():
    model = scramble(build("deberta-v3", ["lora", "bitfit"]))
    inputs = batch(model)
    given = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}
    with torch.no_grad():
        found, expected = (e(**given).last_hidden_state for e in (pickled(model.encoder), model.encoder))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_checkpointed_model(copied):
    model = no_dropout(scramble(build("bert", "lora")))
    model.gradient_checkpointing_enable()
    inputs = batch(model)
    gradients = []
    for one in (model, copied(model), copied([model.encoder.gradient_checkpointing_enable, model])[1]):
        one.loss(one.run(**inputs), labels(one, inputs["task"])).backward()
        gradients.append([p.grad for p in one.parameters() if p.grad is not None])
        one.gradient_checkpointing_enable()  # and once more: it is each one's own encoder that is meant
    assert all(len(own) == len(gradients[0]) > 0 for own in gradients)
    for first, *others in zip(*gradients, strict=True):
        assert all(torch.equal(other, first) for other in others)


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_model_that_an_engine_runs(copied):
    model = scramble(build("bert", "lora"))
    inputs = batch(model)
    expected = logits(model, inputs)
    JoinedMaps([[m] for m in model.encoder.modules() if isinstance(m, torch.nn.Linear)])
    model.__dict__["answered"] = torch.compile(model.answered, backend="eager")
    twin = copied(model)
    assert "answered" not in twin.__dict__  # compiled, it would be the first model's
    torch.testing.assert_close(logits(twin, inputs), expected)
    with torch.no_grad():
        for parameter in twin.heads.parameters():
            parameter.zero_()
    assert logits(twin, inputs).abs().sum() == 0
    torch.compiler.reset()


def test_a_model_in_int8():
    model = quantize(scramble(build("bert", "lora")))
    inputs = batch(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of its own format
        assert torch.equal(logits(pickled(model), inputs), logits(model, inputs))


def answer(model, requests, queue):
    queue.put(model.predict(requests))


@pytest.mark.slow
def test_another_process(tmp_path):
    """Started anew (`spawn`): the model goes there by pickling."""
    folder = save_encoder(tmp_path / "encoder")
    tasks = [task_of_kind(name) for name in NAMES]
    model = scramble(weft.Model(folder, tasks, "lora", max_length=24))
    requests = [("classify", "the cat sees a dog"), ("tag", "the old bird"), ("regress", ("a cat", "a dog"))]
    expected = model.predict(requests)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=answer, args=(model, requests, queue))
    process.start()
    found = queue.get(timeout=120)
    process.join()
    assert process.exitcode == 0
    assert [one["task"] for one in found] == [one["task"] for one in expected]
    assert found[0]["probabilities"] == pytest.approx(expected[0]["probabilities"], abs=1e-6)
    assert found[1] == expected[1]
    assert found[2]["value"] == pytest.approx(expected[2]["value"], abs=1e-6)


def test_torch_saves_it_whole():
    model = scramble(build("bert", "lora"))
    inputs = batch(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.equal(logits(torch.load(file, weights_only=False), inputs), logits(model, inputs))
