"""Captured passes: the same answers as eager ones, counted, and dropped when they no longer hold.

On a CPU the same code runs uncaptured; test_on_gpu.py has the same on a GPU.
"""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch

from tests.support.captured import ONE_ROW, model_of, predicted_until_captured, requests_of
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.near import assert_near
from tests.support.tiny import build, scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.errors import WeftError
from weft.inference.captured import USES, CapturedModel
from weft.inference.runner import answers

TOKENIZER = tiny_tokenizer("words")


@pytest.mark.parametrize("names", [NAMES, ONE_ROW])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_answers_are_those_of_eager_passes(names, family, capturing, monkeypatch):
    model = scramble(build(family, "lora", [task_of_kind(name, 6) for name in names])).eval()
    tokens = [tokens_of(task, TOKENIZER) for task in model.tasks]
    listed = [(t, tokens[t], i) for i in range(6) for t in range(len(names))]
    captured = answers(model, listed, capture="always")
    assert model.captures.of(model, "float32").shapes > 0
    monkeypatch.undo()
    for found, expected in zip(captured, answers(model, listed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["frozen", {"use": "lora", "rank": 2, "layers": "1"}, "lora"])
def test_predict_and_predict_all(folder, method, capturing, monkeypatch):
    """With a trunk that all tasks share, one over some blocks, and none."""
    model = model_of(folder, method=method)
    requests = requests_of(NAMES)
    texts = ["the cat sees a dog", "a bird", "a bird", ("the cat sees", "a dog")]
    found = [(model.predict(requests), model.predict_all(texts)) for _ in range(USES)]
    assert model.captures.of(model, "float32").shapes > 0
    monkeypatch.undo()
    expected = model.predict(requests), model.predict_all(texts)
    for one in found:
        assert_near(one, expected)


def test_a_shape_is_captured_on_its_third_use(folder, capturing):
    model = model_of(folder, ONE_ROW)
    request = requests_of(("classify",), 1)
    for use in range(1, USES + 2):
        model.predict(request)
        assert model.captures.of(model, "float32").shapes == (use >= USES)


def test_a_call_of_several_equal_batches_captures_at_once(folder, capturing):
    model = model_of(folder, ONE_ROW)
    model.predict(requests_of(("classify",), 1) * (4 * USES), batch_size=4)
    assert model.captures.of(model, "float32").shapes == 1


def test_weights_may_train_on_between_captured_passes(folder, capturing):
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    before = predicted_until_captured(model, requests)
    scramble(model)
    after = model.predict(requests)
    model.release()
    assert_near(after, model.predict(requests))
    with pytest.raises(AssertionError):
        assert_near(after, before)


def test_parameters_that_lie_elsewhere_are_captured_anew(folder, capturing):
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    predicted_until_captured(model, requests)
    first = model.captures.of(model, "float32")
    assert first.shapes
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    assert model.captures.of(model, "float32") is not first
    assert model.captures.of(model, "float32").shapes == 0


@pytest.mark.parametrize("has_some", [True, False])
def test_a_model_with_a_further_buffer_is_captured_anew(folder, capturing, has_some):
    model = model_of(folder, ONE_ROW)
    predicted_until_captured(model, requests_of(ONE_ROW))
    first = model.captures.of(model, "float32")
    part = next(part for part in model.modules() if bool(part._buffers) == has_some)
    part.register_buffer("further", torch.zeros(1))
    assert model.captures.of(model, "float32") is not first


def test_copies_of_a_model_capture_for_themselves(folder, capturing):
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    expected = predicted_until_captured(model, requests)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.captures.of(other, "float32").shapes == 0
        assert_near(other.predict(requests), expected)


def test_bf16_on_request(folder, capturing):
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    whole = model.predict(requests)
    rounded = predicted_until_captured(model, requests, precision="bf16")
    assert model.captures.of(model, "bf16").shapes > 0
    chances = [
        np.array([list(a["probabilities"].values()) for a in found if a["task"] == "multilabel"])
        for found in (whole, rounded)
    ]
    assert (chances[0] != chances[1]).any()
    np.testing.assert_allclose(*chances, atol=0.05)
    with pytest.raises(WeftError, match="precision 'half'"):
        model.predict(requests, precision="half")


def test_a_named_precision_holds_whatever_was_captured(folder, capturing):
    """Also where another thread captures the model in between: the choice is made when passes are taken."""
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    whole, rounded = (model.predict(requests, precision=precision) for precision in ("float32", "bf16"))
    with pytest.raises(AssertionError):
        assert_near(rounded, whole)
    model.release()
    with model.lock:
        model.captures.request(model, CapturedModel(model, "bf16"))
    asked = model.captures.requested
    assert model.captures.of(model, "float32") is asked
    for _ in range(USES):
        assert_near(model.predict(requests), rounded)
        assert_near(model.predict(requests, precision="float32"), whole)
    assert model.captures.of(model, "float32", exact=True).shapes > 0
    assert model.captures.of(model, "float32", exact=True) is not asked
    assert model.captures.of(model, "bf16", exact=True) is asked
    asked.compiled = True  # the weights themselves are rounded then
    with pytest.raises(WeftError, match=r"captured in bf16 with compiled=True; call model.release\(\) first"):
        model.predict(requests, precision="float32")
    asked.compiled = False


def test_capture_needs_a_gpu_and_one_encoder(folder):
    model = model_of(folder, ONE_ROW)
    with pytest.raises(WeftError, match="capture needs a CUDA GPU, and the model is on cpu"):
        model.capture()
    with pytest.raises(WeftError, match="precision 'half'"):
        model.capture(precision="half")
    with pytest.raises(WeftError, match="method 'separate' cannot be captured"):
        CapturedModel(model_of(folder, ONE_ROW, "separate"))
    model.release()  # nothing to release is no error


def test_predict_all_has_the_same_most_rows_of_a_pass(folder, capturing, monkeypatch):
    """With many tasks a pass of all rows would not fit on a GPU."""
    model = model_of(folder, method="frozen")
    texts = ["the cat sees a dog", "a bird", "the dog", ("the cat sees", "a dog")]
    expected = model.predict_all(texts)
    rows = []
    plain = CapturedModel.eager_logits

    def counting(self, inputs, *args):
        rows.append(len(inputs["input_ids"]))
        return plain(self, inputs, *args)

    monkeypatch.setattr(CapturedModel, "eager_logits", counting)
    assert_near(model.predict_all(texts, batch_size=1), expected)
    assert len(rows) > 1
    assert max(rows) <= 16  # eight are filled up to the next number of the ladder


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_passes_do_not_depend_on_what_they_are_called_inside_of(folder, precision, capturing):
    """Autocast of another precision, and inference mode, whose tensors cannot be written to outside of it."""
    requests = requests_of(ONE_ROW)
    expected = model_of(folder, ONE_ROW).predict(requests, precision=precision)
    model = model_of(folder, ONE_ROW)
    other = torch.autocast("cpu", torch.bfloat16, enabled=precision == "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for inside in (torch.inference_mode(), other, torch.no_grad(), torch.enable_grad()):
            for _ in range(USES):
                with inside:
                    assert_near(model.predict(requests, precision=precision), expected)
    assert model.captures.of(model, precision).shapes > 0


def test_no_pass_reads_the_cache_of_an_autocast_around_it(folder, capturing, monkeypatch):
    """It is emptied after the call, and a graph would go on reading what was in it."""
    model = model_of(folder, method="full")
    cached = []
    run = type(model).run

    def watching(self, *args, **kwargs):
        cached.append(torch.is_autocast_cache_enabled())
        return run(self, *args, **kwargs)

    monkeypatch.setattr(type(model), "run", watching)
    for _ in range(USES):
        model.predict_all(["the cat sees a dog"], precision="bf16")
    assert model.captures.of(model, "bf16").shapes > 0
    assert cached
    assert not any(cached)


def test_passes_that_were_asked_for_follow_the_weights(folder, capturing):
    """Weights that were replaced lie elsewhere, where no graph reads them."""
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    first = CapturedModel(model, "bf16")
    with model.lock:
        model.captures.request(model, first)
    model.predict(requests)
    assert model.captures.of(model, "float32") is first
    model.load_state_dict({name: x.clone() for name, x in model.state_dict().items()}, assign=True)
    model.predict(requests)
    second = model.captures.of(model, "float32")
    assert second is not first
    assert second.precision == "bf16"
    with pytest.raises(WeftError, match="closed"):
        first()
    state = {name: x.clone() for name, x in model.state_dict().items()}
    second.compiled = True
    torch.nn.Module.load_state_dict(model, state, assign=True)
    with pytest.raises(WeftError, match=r"captured with compiled=True; call model.release\(\) first"):
        model.predict(requests)
    model.release()
    model.predict(requests)


def test_a_call_goes_on_when_its_passes_are_released(folder, capturing):
    """By another thread, between two of its batches."""
    model = model_of(folder, ONE_ROW)
    requests = requests_of(("classify",))
    captured = CapturedModel(model)
    with model.lock:
        model.captures.request(model, captured)
    expected = model.predict(requests)
    of = model.captures.of

    def released(*args, **options):
        found = of(*args, **options)
        model.release()
        return found

    model.captures.of = released
    for _ in range(USES):
        assert_near(model.predict(requests), expected)


def test_a_compiled_capture_guards_the_weights(folder, capturing):
    """The weights are stored differently: what would read or change them is refused with a next command."""
    model = model_of(folder, ONE_ROW)
    captured = CapturedModel(model)
    with model.lock:
        model.captures.request(model, captured)
    captured.compiled = True
    state = torch.nn.Module.state_dict(model)
    calls = [
        model.state_dict,
        model.train,
        lambda: model.load_state_dict(state),
        lambda: copy.deepcopy(model),
    ]
    for call in (*calls, lambda: pickle.dumps(model), lambda: model.save(folder.parent / "bundle")):
        with pytest.raises(WeftError, match=r"compiled=True.*call model.release\(\) before"):
            call()
    captured.compiled = False
    model.release()
    model.train()
    copy.deepcopy(model)


def test_only_so_many_graphs_are_kept(folder, capturing, monkeypatch):
    monkeypatch.setattr("weft.inference.captured.MOST", 2)
    model = model_of(folder, ONE_ROW)
    texts = [" ".join(["the"] * count) for count in (3, 18, 22, 3, 18)]  # of three lengths
    expected = [model.predict([("classify", text)]) for text in texts]
    for _ in range(USES):
        for text, right in zip(texts, expected, strict=True):
            assert_near(model.predict([("classify", text)]), right)
    assert model.captures.of(model, "float32").shapes <= 2
