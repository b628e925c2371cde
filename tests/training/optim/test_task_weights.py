import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.training.optim.task_weights import TaskWeights

NAMES = ["a", "b", "c"]
SQUARED = [False, True, False]

losses = st.lists(st.floats(0, 50), min_size=3, max_size=3)
masses = st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 1.0, 7.0]), min_size=3, max_size=3)
run = st.lists(st.tuples(losses, masses, st.floats(0, 1)), min_size=1, max_size=8)


class ByAutograd:
    """The same by torch: one parameter and one Adam a task."""

    def __init__(self, lr):
        self.s = [torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in NAMES]
        self.adams = [torch.optim.Adam([s], lr=lr) for s in self.s]
        self.lr = lr

    def factors(self):
        c = [0.5 if squared else 1.0 for squared in SQUARED]
        return [c * float((-s.detach()).exp()) for c, s in zip(c, self.s, strict=True)]

    def update(self, losses, mass, lr_factor):
        total = torch.zeros((), dtype=torch.float64)
        for s, loss, m, squared in zip(self.s, losses, mass, SQUARED, strict=True):
            if m:
                total = total + (0.5 if squared else 1.0) * (-s).exp() * loss + m * s / 2
        if total.requires_grad:
            total.backward()
        for s, adam, m in zip(self.s, self.adams, mass, strict=True):
            if m:
                adam.param_groups[0]["lr"] = self.lr * lr_factor
                adam.step()
            s.grad = None


@given(steps=run, cut=st.integers(0, 8))
def test_learned_is_autograd_and_adam_and_resumes_exactly(steps, cut):
    ours, parts, theirs = TaskWeights("learned", NAMES, SQUARED, 0.1), None, ByAutograd(0.1)
    for number, (loss, mass, factor) in enumerate(steps):
        loss = [value if m else 0.0 for value, m in zip(loss, mass, strict=True)]
        before = ours.state()
        if number == cut:
            parts = TaskWeights("learned", NAMES, SQUARED, 0.1)
            parts.load_state(json.loads(json.dumps(before)))
        for weights in filter(None, (ours, parts)):
            weights.update(loss, mass, factor)
        theirs.update(loss, mass, factor)
        assert np.allclose(ours.factors(), theirs.factors(), rtol=1e-6)
        for name, m in zip(NAMES, mass, strict=True):
            if not m:
                assert ours.state()[name] == before[name]
    if parts is not None:
        assert parts.state() == ours.state()


def test_learned_finds_the_uncertainty():
    """At rest σ² = 2c·L: the factor of a squared error is 1/(2·L), of others 1/(2·L) as well."""
    weights = TaskWeights("learned", NAMES, SQUARED, 0.05)
    assert weights.factors().tolist() == [1.0, 0.5, 1.0]
    for step in range(3000):
        weights.update(np.array([0.2, 3.0, 1.5]) / 3, np.full(3, 1 / 3), 1 - step / 3000)
    assert np.allclose(weights.factors(), [1 / 0.4, 1 / 6, 1 / 3], rtol=1e-3)
    assert weights.report() == pytest.approx({"a": 2.5, "b": 1 / 6, "c": 1 / 3}, rel=1e-3)


def test_given_weights():
    weights = TaskWeights({"b": 2, "c": 0.25}, NAMES, SQUARED, 0.1)
    weights.update([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert weights.factors().tolist() == [1.0, 2.0, 0.25]
    assert weights.factors().dtype == np.float32
    assert weights.state() == {}
    assert weights.report() == {"a": 1.0, "b": 2.0, "c": 0.25}
    assert TaskWeights(None, NAMES, SQUARED, 0.1).factors().tolist() == [1.0] * 3
