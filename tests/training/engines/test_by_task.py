"""Merged gradients in captured steps, uncaptured: one pass per task on its own rows, against the eager step."""

from __future__ import annotations

import json

import pytest

from tests.support.engines import assert_same, go
from tests.support.more import some_of

pytestmark = pytest.mark.usefixtures("token_cache")

GROUPS = "{use: lora, rank: 2, share: {first: [classify, span, tag, rank], second: [regress, choose]}}"
CASES = {
    "pcgrad": ["method=full", "train.lr=0.0005", "train.conflict=pcgrad"],
    "upgrad": ["method=full", "train.lr=0.0005", "train.conflict=upgrad"],
    "mean": ["method=full", "train.lr=0.0005", "train.conflict=mean"],
    "all of it": ["method={use: lora, rank: 2, share: all}", "train.conflict={use: pcgrad, scope: all}"],
    "sum": ["method={use: lora, rank: 2, share: all}", "train.conflict=sum"],
    "tseng": ["method={use: lora, rank: 2, share: all}", "train.conflict=pcgrad_tseng"],
    "groups": [f"method={GROUPS}", "train.conflict=pcgrad_tseng"],
    "nothing shared": ["train.conflict=pcgrad"],
    "smoothed": ["method={use: lora, rank: 2, share: all}", "train.conflict=cr_mogm"],
    "accumulated": ["method=full", "train.lr=0.0005", "train.conflict=pcgrad", "train.accumulate=3"],
    "learned weights": [
        "method=full",
        "train.lr=0.0005",
        "train.conflict=pcgrad",
        "train.task_weights=learned",
    ],
    "bert_adam": [
        "method={use: lora, rank: 2, share: all}",
        "train.conflict=pcgrad",
        "train.optimizer=bert_adam",
    ],
    "pals": ["method={use: pals, d_s: 8, heads: 2}", "train.conflict=pcgrad"],
    "gates": [
        "method={use: morris, rank: 4, l0: {steps: 3, penalty: 0.01}}",
        "train.conflict=pcgrad",
        "train.steps=3",
    ],
}


def losses(log):
    return [line["loss"] for line in log if line["event"] == "step"]


@pytest.mark.parametrize("case", CASES)
def test_merged_in_a_graph_as_by_the_eager_engine(case, every_kind, tmp_path):
    more = [*CASES[case], "train.evaluate_every=3"]
    eager, expected = go(every_kind, tmp_path / "eager", "eager", *more, dropout=0.0)
    captured, log = go(every_kind, tmp_path / "graph", "graph", *more, dropout=0.0)
    assert (expected[-1]["engine"], log[-1]["engine"]) == ("eager", "graph")
    assert log[-1]["verified"]["shapes"] >= 1
    assert len(losses(log)) == len(losses(expected)) > 0
    for a, b in zip(losses(expected), losses(log), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
    conflicts = [
        [line["conflict"] for line in lines if line["event"] == "evaluation"] for lines in (expected, log)
    ]
    for a, b in zip(*conflicts, strict=True):
        assert a["steps"] == b["steps"]
        assert a["cosine"] == pytest.approx(b["cosine"], rel=1e-2, abs=1e-3)
    assert_same(eager, captured)
