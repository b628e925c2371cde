"""Captured passes that are wrong, fail or do not fit: inference falls back to eager passes."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext

import pytest
import torch

import weft
from tests.support.captured import ONE_ROW, model_of, requests_of
from tests.support.every_kind import task_of_kind
from tests.support.near import assert_near
from tests.support.tiny import scramble
from weft.inference import captured as captured_passes
from weft.inference.captured import (
    COMPILED_BF16,
    MOST_BF16,
    TOLERANCE,
    USES,
    CapturedModel,
    CaptureWrong,
)
from weft.inference.warm_up import _blank


@pytest.mark.parametrize("wrong", [0.5, float("nan")])
def test_a_wrong_graph_is_never_used(folder, wrong, capturing, monkeypatch):
    """A captured pass with different biases of the heads: one warning, and eager answers from then on."""
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    expected = model.predict(requests)
    biases = [head.bias for head in model.heads.values()]

    def captured(self, function):
        def run():
            before = [bias.detach().clone() for bias in biases]
            with torch.no_grad():
                for bias in biases:
                    bias += wrong
                function()
                for bias, value in zip(biases, before, strict=True):
                    bias.copy_(value)

        return run

    monkeypatch.setattr("weft.acceleration.cuda_graph.Capturer.__call__", captured)
    with pytest.warns(RuntimeWarning, match="inference falls back to eager: captured passes over"):
        found = [model.predict(requests) for _ in range(USES)]
    for one in found:
        assert_near(one, expected)
    assert model.captures.of(model, "float32") is None
    assert_near(model.predict(requests), expected)


def test_a_capture_that_fails_is_no_error(folder, capturing, monkeypatch):
    model = model_of(folder, ONE_ROW)
    requests = requests_of(ONE_ROW)
    expected = model.predict(requests)

    def failing(self, function):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr("weft.acceleration.cuda_graph.Capturer.__call__", failing)
    with pytest.warns(RuntimeWarning, match="eager: operation not permitted when stream is capturing$"):
        found = [model.predict(requests) for _ in range(USES)]
    for one in found:
        assert_near(one, expected)


def test_a_wrong_head_is_not_hidden_by_the_logits_of_tokens(folder, capturing, monkeypatch):
    """A tagger has a thousand times as many logits as a classifier."""
    tagger = weft.Task("many", kind="tag", labels=("O", *(f"B-{n}" for n in range(300))), texts=("words",))
    tasks = [task_of_kind("classify"), tagger]
    model = scramble(weft.Model(folder, tasks, "lora", max_length=24)).eval()
    requests = requests_of(("classify",), 9)
    bias = model.heads[model.tasks[0].head].bias

    def captured(self, function):
        def run():
            with torch.no_grad():
                bias.add_(0.3)
                function()
                bias.sub_(0.3)

        return run

    monkeypatch.setattr("weft.acceleration.cuda_graph.Capturer.__call__", captured)
    with pytest.warns(RuntimeWarning, match="inference falls back to eager: captured passes over"):
        found = [model.predict(requests, precision="bf16") for _ in range(USES)]
    assert_near(found[-1], found[0])


@pytest.mark.parametrize(("compiled", "least"), [(False, TOLERANCE["bf16"]), (True, COMPILED_BF16)])
@pytest.mark.parametrize("autocast", [0.0, 0.04, 0.12, 5.0, float("nan")])
def test_in_bf16_twice_the_distance_of_autocast_is_allowed_but_never_more_than_a_limit(
    folder, monkeypatch, compiled, least, autocast
):
    """However far autocast is from float32 for a model that is ill-conditioned."""
    model = model_of(folder, ONE_ROW)
    inputs = _blank(model, 1, 16)
    allowed = least if math.isnan(autocast) else min(max(least, 2 * autocast), MOST_BF16)
    for distance, agrees in ((0.99 * allowed, True), (1.01 * allowed, False), (math.nan, False)):
        captured = CapturedModel(model, "bf16")
        captured.compiled = compiled
        measured = iter([autocast, distance])

        def distances(*args, measured=measured):
            return [next(measured)]

        monkeypatch.setattr(captured_passes, "_distances", distances)
        with nullcontext() if agrees else pytest.raises(CaptureWrong, match=f"allowed: {allowed:.0e}"):
            captured.logits(inputs)
        assert captured.shapes == agrees
    assert allowed <= MOST_BF16 < 2 * 5.0


def test_a_shape_without_memory_stays_eager_and_the_others_are_captured(folder, capturing, monkeypatch):
    model = model_of(folder, ONE_ROW)
    small, large = [("classify", "the cat")], requests_of(ONE_ROW)
    expected = model.predict(small), model.predict(large)
    plain = CapturedModel._captured

    def scarce(self, inputs, *args):
        if len(inputs["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, inputs, *args)

    monkeypatch.setattr(CapturedModel, "_captured", scarce)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(USES + 1):
            assert_near((model.predict(small), model.predict(large)), expected)
    captured = model.captures.of(model, "float32")
    assert captured.shapes == 1
    monkeypatch.setattr(captured, "compiled", True)  # such passes are captured at once, given the memory
    assert captured._too_large
    assert not any(captured.is_warm(form) for form in captured._too_large)
