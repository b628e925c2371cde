"""The load of the serving benchmark: every request is sent, answered and counted."""

from __future__ import annotations

import argparse
import asyncio

import pytest
from benchmarks.speed.serving.host_parts import of_batch, of_request
from benchmarks.speed.serving.load import send
from benchmarks.speed.serving.measure import write_bodies

import weft
from tests.support.serving import TEXT, save_every_kind, serving


def test_what_is_sent_is_what_the_server_counts(tmp_path):
    folder = save_every_kind(tmp_path / "model")
    bodies = write_bodies(tmp_path / "bodies", [TEXT, {**TEXT, "task": "multilabel"}] * 10, 4)
    with serving(folder) as server:
        url = f"{server.url}/v1/predict"
        options = {"rate": 200.0, "seconds": 0.5, "most": 8, "seed": 1}
        found = asyncio.run(send(argparse.Namespace(url=url, bodies=str(bodies), **options)))
        assert found["statuses"].keys() == {"200"}
        assert server.count("weft_requests_total", status="200") == found["statuses"]["200"]
        assert server.count("weft_texts_total") == 4 * found["statuses"]["200"]
    assert found["p50"] <= found["p95"] <= found["p99"]
    # some are answered after the last was sent, and do not count for the rate
    assert 0 < found["per_s"] * 0.5 <= found["statuses"]["200"] * 1.1


@pytest.mark.slow
def test_the_parts_of_the_host_are_timed(tmp_path):
    model = weft.load(save_every_kind(tmp_path / "model"))
    parts = of_batch(model, [TEXT] * 8, 4, 2)
    assert list(parts) == ["read", "tokenize", "cut", "start", "decode", "write"]
    assert all(taken > 0 for taken in parts.values())
    assert asyncio.run(of_request(model, [TEXT], 3)) > 0
