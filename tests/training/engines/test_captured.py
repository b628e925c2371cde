"""Compiled and captured on a GPU: what test_graph.py checks of the uncaptured step, and captured inference.

Each case compiles: minutes in all. Without a GPU all of them are skipped.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, BertConfig, BertModel

import weft
from tests.support.engines import CASES, MERGED, WITH_TORCHJD, assert_same, built
from tests.support.patching import logits
from tests.support.tiny import CONFIGS
from tests.support.tiny_run import breaking_off, write_run
from weft.acceleration.difference import difference
from weft.data.batching.batch import TrainingBatch
from weft.inference.captured import CapturedModel
from weft.methods import METHODS
from weft.sampling.plan.plan import Step
from weft.training.engines import build_engine
from weft.training.engines.engine import Move
from weft.training.engines.verifier import Verifier
from weft.training.optim.owners import OwnerOptimizers
from weft.training.step.gradients import StepGradients
from weft.training.step.microbatches import MicroBatch, MicroBatches, PreparedStep
from weft.utils.processes import Processes

pytestmark = [pytest.mark.usefixtures("token_cache"), pytest.mark.gpu]


def go(file, out, engine, *overrides, resume=False, dropout=0.0):
    """Train on the GPU, verified; returns the model, the steps' losses and the engine at the end."""
    overrides = ["train.precision=float32", *overrides, f"train.engine={engine}"]
    run, model = built(file, overrides, dropout, "cuda")
    weft.train(model, run.training, out, resume=resume, resolved=run.resolved)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["event"] == "step"]
    end = lines[-1]
    assert "engine_fallback" not in end
    assert not [line for line in lines if line["event"] == "engine"]
    if end["engine"] != "eager":
        assert end["verified"]["shapes"] >= 1
    return model, losses, end["engine"]


def assert_alike(file, folder, *overrides, eager=()):
    """By both engines: the same losses and the same weights, and each ran."""
    first, losses, used = go(file, folder / "eager", "eager", *(eager or overrides))
    second, found, captured = go(file, folder / "graph", "graph", *overrides)
    assert (used, captured) == ("eager", "graph")
    assert len(losses) == len(found) > 0
    for a, b in zip(losses, found, strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-4)
    assert_same(first, second)


@pytest.mark.parametrize("case", CASES)
def test_graph_equals_eager_at_dropout_zero(case, every_kind, tmp_path):
    assert_alike(every_kind, tmp_path, *CASES[case])


@pytest.mark.parametrize("case", MERGED)
def test_gradients_are_merged_in_a_graph_as_by_the_eager_engine(case, every_kind, tmp_path):
    if case in WITH_TORCHJD:
        pytest.importorskip("torchjd")
    assert_alike(every_kind, tmp_path, *MERGED[case], "train.evaluate_every=3")
    expected, found = (conflicts(tmp_path / engine) for engine in ("eager", "graph"))
    assert len(expected) == len(found) > 0
    for a, b in zip(expected, found, strict=True):
        assert a["steps"] == b["steps"]
        assert a["cosine"] == pytest.approx(b["cosine"], rel=2e-2, abs=2e-3)


def conflicts(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["conflict"] for line in lines if line["event"] == "evaluation"]


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("method", ["full", "{use: lora, rank: 2, share: all, dropout: 0.2}"])
def test_merged_gradients_with_dropout_are_verified(method, precision, every_kind, tmp_path):
    """The tasks of a group run in several streams; a draw in another order would be a disagreement."""
    more = [f"method={method}", f"train.precision={precision}", "train.conflict=pcgrad"]
    _, _, used = go(every_kind, tmp_path / "out", "graph", *more, dropout=0.1)
    assert used == "graph"


def test_candidates_are_measured_in_a_graph_too(tmp_path):
    file = write_run(tmp_path, steps=5, sampler="mt_uncertainty", evaluate_every=0, log_every=1)
    assert_alike(file, tmp_path, "train.batch_size=4")


@pytest.mark.parametrize("method", ["frozen", "{use: top_layer, train_encoder: none}"])
def test_a_kept_trunk_changes_nothing_where_nothing_is_dropped(method, every_kind, tmp_path):
    plain = [f"method={method}", "train.steps=4"]
    assert_alike(every_kind, tmp_path, *plain, "train.trunk_cache=true", eager=plain)


@pytest.mark.parametrize("method", ["{use: lora, rank: 2}", "{use: houlsby, size: 4}"])
def test_a_resumed_run_draws_the_dropout_of_a_straight_one(method, tmp_path):
    file = write_run(tmp_path, steps=8, checkpoint_every=3)
    more = {"dropout": 0.1}
    straight, losses, _ = go(file, tmp_path / "straight", "graph", f"method={method}", **more)
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        go(file, tmp_path / "broken", "graph", f"method={method}", **more)
    resumed, again, used = go(file, tmp_path / "broken", "graph", f"method={method}", resume=True, **more)
    assert used == "graph"
    for a, b in zip(losses, again, strict=True):
        assert a == pytest.approx(b, rel=1e-5)
    assert_same(straight, resumed)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize(
    "method", ["{use: lora, rank: 2, dropout: 0.2}", "pals", "{use: morris, rank: 4}", "full"]
)
def test_dropout_is_drawn_alike_captured_and_not(method, precision, every_kind, tmp_path):
    """All heads, attentions and adapters drop out; a draw in another order would be a disagreement."""
    more = [f"method={method}", f"train.precision={precision}"]
    _, _, used = go(every_kind, tmp_path / "out", "graph", *more, dropout=0.1)
    assert used == "graph"


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("family", ["bert", "distilbert", "deberta-v3", "modernbert", "mpnet"])
def test_every_family_draws_alike_at_every_length(family, precision, monkeypatch):
    """Attention is in tiles, by torch's memory-efficient kernel or of its own choice, by length."""
    monkeypatch.setattr("weft.training.engines.verifier.SECONDS", 60.0)  # beside other tests all takes longer
    torch.manual_seed(0)
    sizes = CONFIGS[family][1] | {"max_position_embeddings": 512}
    sizes |= {"dim": 64, "hidden_dim": 96} if family == "distilbert" else {"hidden_size": 64}
    encoder = AutoModel.from_config(AutoConfig.for_model(CONFIGS[family][0], **sizes))
    tasks = [weft.Task("a", size=2), weft.Task("b", size=3), weft.Task("c", "regress")]
    model = weft.Model(encoder, tasks, "lora", seed=1).to("cuda")
    training = weft.Training(lr=1e-3, mixed=True, engine="graph", precision=precision)
    parts = MicroBatches(model, training, [], np.arange(3), Processes())
    optimizers = OwnerOptimizers(model, lr=1e-3)
    verifier = Verifier(precision == "bf16", 4)
    names = [task.name for task in tasks]
    engine = build_engine("graph", StepGradients(model, parts, names), optimizers, None, verifier)
    try:
        for number, length in enumerate((24, 72, 128, 200)):
            made = {name: x.cpu() for name, x in some_batch(length, number).items()}
            made["task"] = torch.arange(8) % 3
            labels = model.collate_labels([1, 2, 0.5, 0, 1, 0.1, 1, 2], made["task"])
            part = MicroBatch(
                made["task"].numpy(), np.full(8, 0.125, np.float32), TrainingBatch(made, labels, 8)
            )
            step = Step(number, part.tasks, np.arange(8), part.weight, 8)
            engine.step(engine.prepare(PreparedStep(step, [part])), Move(1.0, None, [0, 1, 2], [], None))
        assert np.isfinite(engine.losses().loss).all()
    finally:
        engine.close()
    assert verifier.shapes == 4, verifier.report()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "separate"])
@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bf16"])
def test_captured_inference_answers_as_the_model(method, bf16):
    """In bf16 short rows are attended to in tiles; one shape comes twice, and padding changes in between.

    How much bf16 changes depends on the method, with plain autocast as well: at most twice that is allowed.
    """
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96
    )
    tasks = [weft.Task(f"t{number}", size=3) for number in range(4)]
    model = weft.Model(BertModel(config), tasks, method, seed=1).to("cuda").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # a method without its adapters is off by 0.11 to 1.6 then
                parameter.add_(0.2 * torch.randn_like(parameter))
    batches = [some_batch(length, seed) for seed, length in enumerate((24, 72, 128, 24))]
    with torch.no_grad():
        expected = [logits(model(**batch)) for batch in batches]
        with torch.autocast("cuda", torch.bfloat16):
            rounded = [logits(model(**batch)).float() for batch in batches]
    captured = CapturedModel(model, "bf16" if bf16 else "float32", compiled=True)
    for batch, plain, right in zip(batches, rounded, expected, strict=True):
        found = logits(captured(**batch)).float()
        allowed = 2 * difference(plain, right) + 0.02 if bf16 else 1e-4
        assert difference(found, right) < allowed
    captured.close()
    with torch.no_grad():
        torch.testing.assert_close(logits(model(**batches[0])), expected[0])


def some_batch(length, seed):
    """Rows of mixed tasks, some of them padded."""
    made = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 99, (8, length), generator=made)
    mask = torch.ones_like(ids)
    mask[seed % 8, length // 2 :] = 0
    mask[(seed + 3) % 8, length - 2 :] = 0
    batch = {"input_ids": ids, "attention_mask": mask, "task": torch.arange(8) % 4}
    return {name: x.to("cuda") for name, x in batch.items()}
