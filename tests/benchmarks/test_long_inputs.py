"""Long inputs: what runs without padding gives the vectors of padded rows, and every variant is measured."""

import json

import pytest
import torch
from benchmarks.speed import long_inputs
from benchmarks.speed.long_prediction import _filled, documents, model_of
from benchmarks.speed.varlen_attention import VARLEN, packed, segments, set_attention

from tests.support.tiny import tiny

LENGTHS = (5, 30, 17, 1)


@pytest.fixture
def rows():
    made = torch.Generator().manual_seed(0)
    return [torch.randint(3, 99, (length,), generator=made) for length in LENGTHS]


def padded(rows):
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([[len(row)] for row in rows])
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.size(1)) < lengths).long()}


def test_segments_are_the_tokens_and_the_padding_of_each_row(rows):
    mask = padded(rows)["attention_mask"].bool()
    assert segments(mask).tolist() == [0, 5, 30, 60, 60, 77, 90, 91, 120]


@torch.no_grad()
def test_rows_without_padding_have_the_vectors_of_padded_ones(rows):
    """The tiny encoder has blocks that attend to all tokens and blocks with a window of 8."""
    encoder = tiny("modernbert", "sdpa")
    inputs = padded(rows)
    real = inputs["attention_mask"].bool()
    expected = encoder(**inputs).last_hidden_state[real]
    set_attention(encoder, VARLEN)
    torch.testing.assert_close(encoder(**inputs).last_hidden_state[real], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(encoder(**packed(rows)).last_hidden_state[0], expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_woven_model_has_the_same_logits(rows):
    inputs = padded(rows) | {"task": torch.arange(len(rows))}
    cpu = torch.device("cpu")
    logits = []
    for attention in (None, VARLEN):
        torch.manual_seed(0)
        logits.append(model_of("random:modernbert-tiny", cpu, attention)(**inputs).by_shape)
    for shape, expected in logits[0].items():
        torch.testing.assert_close(logits[1][shape], expected, atol=1e-5, rtol=1e-4)


def test_documents_have_the_tokens_that_are_asked_for():
    examples = documents(128, 3000)
    assert 3000 <= examples.lengths.sum() < 3128
    assert examples.lengths.max() == 128
    batches = _filled(examples.lengths, 400)
    assert [i for batch in batches for i in batch] == list(range(len(examples)))
    assert all(examples.lengths[batch].sum() <= 400 for batch in batches)


@pytest.mark.slow
def test_every_variant_is_measured_or_has_a_reason(monkeypatch, tmp_path, capsys):
    out = tmp_path / "long.json"
    line = ["long_inputs", "--quick", "--device", "cpu", "--lengths", "48", "--positions", "96"]
    monkeypatch.setattr("sys.argv", [*line, "--out", str(out)])
    long_inputs.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    prediction, training = found["works"]
    assert len(prediction["rows"]) == 7
    assert all(row["tokens_per_s"] <= row["positions_per_s"] for row in prediction["rows"])
    assert {row["checkpointing"] for row in training["rows"]} == {True, False}
    reasons = {skipped["variant"]: skipped["why"] for skipped in found["skipped"]}
    assert "flash_attn" in reasons["bare encoder, no padding, flash_attention_2, eager"]
    assert "tokens_per_s" in capsys.readouterr().out
