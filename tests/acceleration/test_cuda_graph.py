"""Capturing a function into a CUDA graph, and what a capture that fails leaves behind."""

from __future__ import annotations

import json
from inspect import signature
from unittest.mock import MagicMock

import pytest
import torch
from torch.nn import functional

import weft
from tests.support.engines import built
from tests.support.tiny_run import write_run
from weft.acceleration import cuda_graph
from weft.acceleration.cuda_graph import Capturer

MODES = ["global", "thread_local"]


@pytest.mark.parametrize("mode", MODES)
def test_what_ends_a_capture_that_failed_leaves_other_threads_alone_too(mode, monkeypatch):
    """Without a GPU: torch's functions are stand-ins."""
    fake = MagicMock()
    for context in (fake.cuda.device, fake.cuda.stream, fake.cuda.graph):
        context.return_value.__exit__.return_value = False
    monkeypatch.setattr(cuda_graph, "torch", fake)

    def fails():
        raise RuntimeError("operation not permitted")

    with pytest.raises(RuntimeError, match="operation not permitted"):
        Capturer(torch.device("cuda"), warm_ups=0, mode=mode)(fails)
    assert [call.kwargs["capture_error_mode"] for call in fake.cuda.graph.call_args_list] == [mode, mode]


def test_torch_has_the_argument():
    assert signature(torch.cuda.graph).parameters["capture_error_mode"].default == "global"


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_after_a_capture_that_failed_random_numbers_are_drawn_as_before(mode):
    ones = torch.ones(1000, device="cuda")

    def stops_the_capture():
        functional.dropout(ones, 0.5)
        if torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()

    torch.manual_seed(3)
    expected = functional.dropout(ones, 0.5)
    torch.manual_seed(3)
    capture = Capturer(ones.device, mode=mode)
    stream = torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        capture(stops_the_capture)
    assert torch.cuda.current_stream() == stream
    assert functional.dropout(ones, 0.5).equal(expected)
    found = torch.empty_like(ones)
    again = capture(lambda: found.copy_(functional.dropout(ones, 0.5)))
    torch.manual_seed(3)
    again()
    assert set(found.tolist()) == {0.0, 2.0}


@pytest.mark.gpu
@pytest.mark.may_fall_back
@pytest.mark.usefixtures("token_cache")
def test_a_graph_that_the_user_holds_stops_the_capture_and_not_the_run(tmp_path):
    """Its backward belongs to the stream that it ran on, and no capture can run there."""
    run, model = built(write_run(tmp_path), ["train.engine=graph", "train.precision=float32"], 0.1, "cuda")
    ids = torch.ones(2, 4, dtype=torch.long, device="cuda")
    task = torch.zeros(2, dtype=torch.long, device="cuda")
    held = model.train()(input_ids=ids, attention_mask=torch.ones_like(ids), task=task)
    weft.train(model, run.training, tmp_path / "out", resolved=run.resolved)
    end = json.loads((tmp_path / "out" / "log.jsonl").read_text().splitlines()[-1])
    assert end["event"] == "end"
    assert end["engine"] in ("graph", "eager")
    if end["engine"] == "eager":
        assert "captur" in end["engine_fallback"]["why"]
    del held
