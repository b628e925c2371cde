"""Inference on a GPU through public calls: captured passes answer as eager ones, in threads too."""

from __future__ import annotations

import gc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind, tokens_of
from tests.support.near import assert_near
from tests.support.tiny import CONFIGS, build, scramble
from tests.support.tiny_run import save_encoder
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.errors import RunFailed
from weft.evaluation.evaluate import evaluate
from weft.inference.captured import USES
from weft.inference.runner import answers, outputs
from weft.methods import METHODS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("token_cache"),
    # a fallback to eager is a failure
    pytest.mark.filterwarnings("error::RuntimeWarning"),
]
TOKENIZER = tiny_tokenizer("words")
UPPER = {"use": "lora", "rank": 2, "layers": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("gpu") / "encoder")


def model_of(folder, method="lora", names=NAMES):
    tasks = [task_of_kind(name) for name in names]
    return scramble(weft.Model(folder, tasks, method, max_length=24)).to("cuda").eval()


def requests_of(names=NAMES, count=3):
    return [(name, row) for i in range(count) for name in names for row in rows_of_kind(name, 1, i)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_built_on_the_gpu(folder, method):
    """An encoder on a GPU makes it the default device while adapters get their initial values."""
    tasks = [task_of_kind(name) for name in ("classify", "regress")]
    model = weft.Model(folder, tasks, method, max_length=24, device="cuda").eval()
    assert {parameter.device.type for parameter in model.parameters()} == {"cuda"}
    plain = weft.Model(folder, tasks, method, max_length=24).eval()
    requests = requests_of(("classify", "regress"))
    assert_near(model.predict(requests), plain.predict(requests), 1e-4)


def test_a_stream_gives_the_answers_of_predict(folder, monkeypatch):
    """The answers to one window are decoded while the GPU works on the next."""
    monkeypatch.setattr("weft.inference.stream.SIZES", (3, 8))
    model, requests = model_of(folder), requests_of(count=4)
    for _ in range(USES + 1):
        assert_near(list(model.predict_stream(iter(requests))), model.predict(requests), 1e-4)


def eager_answers(model, listed):
    """The logits of eager passes, with no part in what is tested."""
    found = [None] * len(listed)
    heads = [model.tasks[task].head for task, _, _ in listed]
    for batch in outputs(model, listed, batch_size=16):
        own = batch.output.on_host().logits
        for number, logits in zip(batch.examples, own, strict=True):
            found[number] = logits.numpy()
    return found, heads


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family(family):
    model = scramble(build(family, "lora", [task_of_kind(name, 6) for name in NAMES])).to("cuda").eval()
    tokens = [tokens_of(task, TOKENIZER) for task in model.tasks]
    listed = [(t, tokens[t], i) for i in range(6) for t in range(len(NAMES))]
    expected, heads = eager_answers(model, listed)
    found = answers(model, listed, capture="always")
    assert model.captures.of(model, "float32").shapes > 0
    for own, right, head in zip(found, expected, heads, strict=True):
        np.testing.assert_allclose(own.reshape(right.shape), right, rtol=1e-4, atol=1e-4, err_msg=head)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "separate"])
def test_every_method(method, folder):
    model = model_of(folder, method)
    tokens = [tokens_of(task, TOKENIZER) for task in model.tasks]
    listed = [(t, tokens[t], i) for i in range(6) for t in range(len(NAMES))]
    expected, _ = eager_answers(model, listed)
    for _ in range(2):  # a graph captured, and replayed
        found = answers(model, listed, capture="always")
    assert model.captures.of(model, "float32").shapes > 0
    for own, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(own.reshape(right.shape), right, rtol=1e-4, atol=1e-4)


def test_many_encoders_run_eagerly(folder):
    model = model_of(folder, "separate")
    on_cpu = model_of(folder, "separate").to("cpu")
    assert_near(model.predict(requests_of()), on_cpu.predict(requests_of()))
    assert model.captures.of(model, "float32") is None


@pytest.mark.parametrize("method", ["frozen", UPPER, "lora"])
def test_predict_and_predict_all_as_on_a_cpu(folder, method):
    model, on_cpu = model_of(folder, method), model_of(folder, method).to("cpu")
    texts = ["the cat sees a dog", "a bird", "a bird", ("the cat sees", "a dog")]
    expected = on_cpu.predict(requests_of()), on_cpu.predict_all(texts)
    for _ in range(USES + 1):
        assert_near((model.predict(requests_of()), model.predict_all(texts)), expected)
    assert model.captures.of(model, "float32").shapes > 1


def test_the_same_metrics(folder):
    model, on_cpu = model_of(folder), model_of(folder).to("cpu")
    data = {task.name: tokens_of(task, TOKENIZER) for task in model.tasks}
    found, expected = evaluate(model, data), evaluate(on_cpu, data)
    for name, metrics in expected["tasks"].items():
        for metric, value in metrics.items():
            # pairs of equal texts have a cosine of 1, and the last bit decides on their ranks
            if (name, metric) != ("cosine", "spearman"):
                assert found["tasks"][name][metric] == pytest.approx(value, abs=1e-4), (name, metric)
    assert evaluate(model, data) == found  # to the last bit


@pytest.mark.parametrize(("precision", "compiled"), [("float32", False), ("bf16", False), ("bf16", True)])
def test_capture_and_release(folder, precision, compiled):
    names = ("classify", "two", "multilabel")
    model = model_of(folder, "lora", names)
    expected = model.predict(requests_of(names))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.capture(precision, compiled, lengths=[8, 24], rows=[1, 16])
    assert model.captures.requested.shapes >= 2
    found = model.predict(requests_of(names))
    for own, right in zip(found, expected, strict=True):
        both = [np.concatenate([np.ravel(v) for v in numbers(a)]) for a in (own, right)]
        np.testing.assert_allclose(*both, atol=1e-4 if precision == "float32" else 0.05)
    model.release()
    assert_near(model.predict(requests_of(names)), expected)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert any(p.requires_grad for p in model.parameters())


def numbers(answer):
    for value in answer.values():
        if isinstance(value, dict):
            yield list(value.values())
        elif isinstance(value, float) or (isinstance(value, list) and value and isinstance(value[0], float)):
            yield value


def test_memory_is_given_back(folder):
    model = model_of(folder)
    held = []
    for _ in range(3):
        model.capture(lengths=[24], rows=[1, 64, 512])
        most = torch.cuda.memory_reserved()
        model.release()
        gc.collect()
        torch.cuda.empty_cache()
        held.append(torch.cuda.memory_reserved())
        assert held[-1] < most
    # the first time leaves the workspaces of the libraries behind
    assert held[2] <= held[1]


def test_eight_threads(folder):
    """Some shapes are captured on the way, while other threads run eagerly or replay."""
    model = model_of(folder)
    lists = [requests_of(NAMES[i % 5 :], 1 + i % 3) for i in range(24)]
    on_cpu = model_of(folder).to("cpu")
    expected = [on_cpu.predict(requests) for requests in lists]
    with ThreadPoolExecutor(8) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            for found, right in zip(pool.map(model.predict, lists), expected, strict=True):
                assert_near(found, right)
    assert model.captures.of(model, "float32").shapes > 2


def test_predictions_between_steps_of_training(folder):
    """Weights that train on, in place, are those that captured passes read."""
    model = model_of(folder, "full", ("classify", "two"))
    requests = requests_of(("classify", "two"))
    for _ in range(USES + 1):
        model.predict(requests)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.01)
    assert model.captures.of(model, "float32").shapes > 0
    found = model.predict(requests)
    model.release()
    assert_near(found, model.predict(requests))


def test_a_batch_that_does_not_fit_is_told(folder):
    model = model_of(folder)
    with pytest.raises(weft.WeftError, match="batch_size must be at least 1"):
        model.predict(requests_of(), batch_size=0)
    assert len(model.predict(requests_of(), batch_size=1)) == len(requests_of())


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_vectors_of_captured_passes(folder, precision):
    """`embed` reads captured passes before the next one overwrites them; without adapters it runs eagerly."""
    captured, eager = model_of(folder), model_of(folder)
    eager.captures.enabled = False
    texts = [text for i in range(40) for text in ("the cat", f"a {'red ' * (i % 12)}dog", ("a bird", "now"))]
    for task in ("classify", None):
        found = captured.embed(texts, task=task, batch_size=16, precision=precision)
        expected = eager.embed(texts, task=task, batch_size=16, precision=precision)
        assert found.device.type == "cpu"
        assert float((found - expected).norm() / expected.norm()) < (1e-5 if precision == "float32" else 1e-2)
    assert captured.captures.of(captured, precision).shapes > 0


def test_outputs_that_are_no_numbers_are_refused(folder):
    """A captured pass reads the weights in place: what was spoilt after the capture is found too."""
    model = model_of(folder, names=("classify", "tag"))
    requests = [("classify", "the cat sees a dog"), ("tag", "a bird")]
    for _ in range(USES + 1):
        model.predict(requests)
    assert model.captures.of(model, "float32").shapes > 0
    with torch.no_grad():
        model.get_parameter("heads.classify-2.weight").fill_(torch.nan)
    with pytest.raises(RunFailed, match="task 'classify': the model's outputs for 1 of 1 examples are NaN"):
        model.predict(requests)
    with torch.no_grad():
        model.get_parameter("encoder.embeddings.word_embeddings.weight").fill_(torch.inf)
    with pytest.raises(RunFailed, match="task 'classify'"):
        model.embed(["the cat"], task="classify")


def test_long_documents_run_in_pieces(folder):
    words = ("the cat sees a dog and not a bird " * 500).split()
    model, on_cpu = model_of(folder), model_of(folder).to("cpu")
    requests = [("tag", words), ("span", ("the cat", " ".join(words))), ("tag", words[:5])]
    expected = on_cpu.predict(requests)
    for _ in range(USES + 1):
        assert_near(model.predict(requests), expected)
    assert_near(model.predict_all([" ".join(words)]), on_cpu.predict_all([" ".join(words)]))
