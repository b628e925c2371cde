"""Runs by an engine on a CPU: nothing is compiled or captured, and the same code runs line by line."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from weft.acceleration.cuda_graph import Capturer
from weft.config import load_run
from weft.training.step import driver

NO_GRADIENT = (
    *("key.bias", "key.0.v", "key.0.D", "key.0.E"),
    *("span-2.bias", "choose-1.bias", "rank-1.bias", "rank-1-pairwise-2x9.bias"),
    "task:span.encoder.layer.1.output.LayerNorm.bias",  # the last one of an encoder that is a span task's own
)
"""No loss sees these: each adds the same to all numbers that a softmax, or a difference, is taken of. Their
gradient is rounding alone, of which Adam makes whole steps. `test_no_loss_sees_these` shows it."""


class Uncompiled:
    """In the place of `Compiled`: compiling takes minutes here."""

    def __init__(self, model):
        pass

    def apply(self):
        pass

    undo = apply


def warmed_up(self, function):
    """In the place of a capture: the runs that come before one, without the capture itself."""
    for _ in range(3):
        function()
    return function


def as_graph(patch):
    patch.setattr(driver, "choose_engine", lambda *_: ("graph", None))
    patch.setattr("weft.acceleration.compiled.Compiled", Uncompiled)
    patch.setattr(Capturer, "__call__", warmed_up)


def undropped(model, dropout):
    """The model with another dropout everywhere."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = dropout
    return model


def built(file, overrides, dropout, device="cpu"):
    """A run file, and its model with this dropout everywhere."""
    run = load_run(file, overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, head_dropout=dropout, seed=1).to(device)
    return run, undropped(model, dropout)


def assert_same(one, other):
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        if name.endswith(NO_GRADIENT):
            continue
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


CASES = {
    "lora": [],
    "accumulated": ["train.accumulate=3"],
    "one task a step": ["train.mixed=false"],
    "drift": ["train.mixed=false", "train.absent=drift"],
    "bert_adam": ["train.optimizer=bert_adam", "train.warmup=0.3"],
    "rates of tasks": [
        "train.lr_of={encoder: 0.001, tasks: {classify: 0.003, regress: 0.02}}",
        "train.betas=[0.8, 0.99]",
        "train.eps=1e-6",
    ],
    "learned weights": ["train.task_weights=learned"],
    "pals": ["method={use: pals, d_s: 8, heads: 2}"],
    "full": ["method=full", "train.lr=0.0005"],
    "separate": ["method=separate", "train.mixed=false", "train.lr=0.0005"],
    "separate, drift": ["method=separate", "train.mixed=false", "train.lr=0.0005", "train.absent=drift"],
    "separate, accumulated": ["method=separate", "train.mixed=false", "train.accumulate=2"],
    "gates": ["method={use: morris, rank: 4, l0: {steps: 3, penalty: 0.01}}", "train.steps=3"],
}

SHARED = "method={use: lora, rank: 2, share: all}"
FULL = ["method=full", "train.lr=0.0005"]
MERGED = {
    "pcgrad": [*FULL, "train.conflict=pcgrad"],
    "upgrad": [*FULL, "train.conflict=upgrad"],
    "mean": [*FULL, "train.conflict=mean"],
    "sum": [SHARED, "train.conflict=sum"],
    "scope all": [SHARED, "train.conflict={use: pcgrad, scope: all}"],
    "tseng": [SHARED, "train.conflict=pcgrad_tseng"],
    "groups": [
        "method={use: lora, rank: 2, share: {x: [classify, span, tag, rank], y: [regress, choose]}}",
        "train.conflict=pcgrad_tseng",
    ],
    "nothing shared": ["train.conflict=pcgrad"],
    "cr_mogm": [SHARED, "train.conflict=cr_mogm"],
    "accumulated": [*FULL, "train.conflict=pcgrad", "train.accumulate=3"],
    "learned weights": [*FULL, "train.conflict=pcgrad", "train.task_weights=learned"],
    "bert_adam": [SHARED, "train.conflict=pcgrad", "train.optimizer=bert_adam"],
    "pals": ["method={use: pals, d_s: 8, heads: 2}", "train.conflict=pcgrad"],
    "trunk": ["method={use: top_layer}", "train.conflict=pcgrad"],
    "gates": [
        "method={use: morris, rank: 4, l0: {steps: 3, penalty: 0.01}}",
        "train.conflict=pcgrad",
        "train.steps=3",
    ],
}
"""Settings of runs whose tasks' gradients are merged."""

WITH_TORCHJD = ("upgrad", "cr_mogm")
"""Those that need the package torchjd."""


def options():
    """The compiler's options that weft changes."""
    config = torch._dynamo.config
    duck = torch.fx.experimental._config.use_duck_shape
    limits = config.recompile_limit, config.accumulated_recompile_limit
    return config.force_nn_module_property_static_shapes, *limits, duck, config.specialize_float


def go(file, out, engine, *overrides, dropout=0.1, compiled=Uncompiled, progress=False):
    """Train by an engine whose compiled pieces are `compiled`; returns the model and the log."""
    run, model = built(file, overrides, dropout)
    with pytest.MonkeyPatch.context() as patch:
        if engine == "graph":
            as_graph(patch)
        if engine == "compiled":
            patch.setattr(driver, "choose_engine", lambda *_: ("compiled", None))
        patch.setattr("weft.acceleration.compiled.Compiled", compiled)
        weft.train(model, run.training, out, resolved=run.resolved, progress=progress)
    return model, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
