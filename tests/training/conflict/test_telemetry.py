import json

import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.training.conflict.telemetry import Telemetry

steps = st.lists(
    st.tuples(st.integers(0, 10**6), st.sets(st.integers(0, 3), min_size=1, max_size=4)), max_size=6
)


@given(steps=steps, cut=st.integers(0, 6))
def test_cosines_of_a_window(steps, cut):
    """The mean over steps of each pair's cosine, and a window that was cut by a checkpoint is the same."""
    names = ["a", "b", "c", "d"]
    whole, parts = Telemetry(names), Telemetry(names)
    expected = {}
    for number, (seed, tasks) in enumerate(steps):
        present = sorted(tasks)
        rows = torch.randn(
            len(present), 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        for i, first in enumerate(present):
            for j in range(i + 1, len(present)):
                cosine = float(torch.cosine_similarity(rows[i], rows[j], dim=0))
                expected.setdefault(f"{names[first]}|{names[present[j]]}", []).append(cosine)
        if number == cut:
            said, parts = json.loads(json.dumps(parts.state())), Telemetry(names)
            parts.load(said)
        for telemetry in (whole, parts):
            telemetry.add(rows @ rows.T, present, torch.ones(len(present), len(present), dtype=torch.bool))
    told = whole.window()
    assert parts.window() == told
    assert told["steps"] == sum(len(tasks) > 1 for _, tasks in steps)
    assert told["cosine"].keys() == expected.keys()
    for pair, cosines in expected.items():
        assert abs(told["cosine"][pair] - sum(cosines) / len(cosines)) < 1e-9
    every = [c for cosines in expected.values() for c in cosines]
    share = sum(c < 0 for c in every) / len(every) if every else None
    assert told["conflicting"] == share
    # a new window has begun
    assert whole.window() == {"steps": 0, "cosine": {}, "conflicting": None}


def test_pairs_that_do_not_count():
    telemetry = Telemetry(["a", "b", "c"])
    related = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=torch.bool)
    short = [[1, -1, 1e-200], [-1, 1, 0], [1e-200, 0, 1e-320]]
    telemetry.add(torch.tensor(short, dtype=torch.float64), [0, 1, 2], related)
    # a and b share nothing; c is very short, but has a direction
    assert set(telemetry.window()["cosine"]) == {"a|c", "b|c"}
    telemetry.add(torch.diag(torch.tensor([1.0, 0.0, 1.0])), [0, 1, 2], related)
    assert set(telemetry.window()["cosine"]) == {"a|c"}
