"""Soft sharing: the penalties and their gradients, and what they do to encoders."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from tests.support.tiny import build, scramble
from tests.support.tiny_run import write_run
from weft.config.run_file import load_run
from weft.errors import WeftError
from weft.methods import build_method
from weft.training.optim.soft_sharing import soft_penalty, soft_sharing_of, squared_distances, trace_norm
from weft.workflows.train import prepare_run


def values_of(tasks, shape, seed):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(tasks)]


@settings(max_examples=examples(25))
@given(st.integers(2, 5), st.sampled_from([(3,), (4, 2), (2, 3, 2)]), st.integers(0, 99))
def test_squared_distances_of_all_pairs(tasks, shape, seed):
    values = values_of(tasks, shape, seed)
    expected = sum((a - b).square().sum() for a, b in itertools.combinations(values, 2))
    torch.testing.assert_close(squared_distances(values), expected)


@settings(max_examples=examples(25))
@given(st.integers(2, 4), st.sampled_from([(6,), (4, 3)]), st.integers(0, 99))
def test_the_trace_norm_and_its_gradient(tasks, shape, seed):
    values = values_of(tasks, shape, seed)
    found = trace_norm(values)
    expected = torch.linalg.matrix_norm(torch.stack([value.flatten() for value in values]), ord="nuc")
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(
        torch.autograd.grad(found, values), torch.autograd.grad(expected, values), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


def test_equal_tasks_have_a_finite_gradient():
    value = torch.randn(5)
    values = [value.clone().requires_grad_() for _ in range(3)]
    norm = trace_norm(values)
    norm.backward()
    torch.testing.assert_close(norm, (3**0.5) * value.norm())
    for one in values:
        torch.testing.assert_close(one.grad, value / (3**0.5) / value.norm())
    assert squared_distances([value, value]) == 0


def test_only_what_trains_is_penalized():
    model = scramble(build("bert", {"use": "separate", "soft": {"l2": 0.5, "trace_norm": 0.1}}))
    soft = soft_sharing_of(model)
    everything = soft_penalty(model, soft)
    assert everything > 0
    for encoder in model.encoders:
        for name, parameter in encoder.named_parameters():
            parameter.requires_grad_("layer.0.attention.self.query.weight" in name)
    queries = [
        dict(e.named_parameters())["encoder.layer.0.attention.self.query.weight"] for e in model.encoders
    ]
    expected = 0.5 * squared_distances(queries) + 0.1 * trace_norm(queries)
    torch.testing.assert_close(soft_penalty(model, soft), expected)


@pytest.mark.parametrize("method", ["separate", {"use": "separate", "soft": {}}, "full", "lora"])
def test_no_penalty(method):
    assert soft_sharing_of(build("bert", method)) is None


def distance(folder, soft):
    from weft.training.run.run import train

    text = f"method={{use: separate, soft: {soft}}}"
    run_file = load_run(write_run(folder, steps=12), [text, "train.baselines=false", "heads.start=random"])
    prepared = prepare_run(run_file, folder / "out", device="cpu", tell=lambda note: None)
    train(prepared.model, run_file.training, folder / "out", splits=prepared.splits, progress=False)
    with torch.no_grad():
        names = [name for name, _ in prepared.model.encoders[0].named_parameters()]
        encoders = [dict(encoder.named_parameters()) for encoder in prepared.model.encoders]
        return float(sum(squared_distances([e[name] for e in encoders]) for name in names))


def test_encoders_stay_closer(tmp_path):
    alone, near = distance(tmp_path / "a", "null"), distance(tmp_path / "b", "{l2: 1.0}")
    assert 0 < near < 0.5 * alone


@pytest.mark.parametrize(
    ("soft", "message"),
    [("{l1: 3}", "l1"), ("{l2: -1}", "l2"), ("3", "expected settings"), ("{l2: .inf}", "l2")],
)
def test_mistakes(tmp_path, soft, message):
    with pytest.raises(WeftError, match=message):
        load_run(write_run(tmp_path, steps=1), [f"method={{use: separate, soft: {soft}}}"])


def test_settings_come_back():
    method = build_method({"use": "separate", "soft": {"l2": 0.25}})
    assert build_method(method.settings()) == method
    assert method.settings()["soft"] == {"l2": 0.25, "trace_norm": 0.0}
