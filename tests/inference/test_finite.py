"""Outputs that are no numbers: an error names the task, and nothing is made of them."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch

import weft
from tests.support.captured import predicted_until_captured
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind, tokens_of
from tests.support.more import some_of
from tests.support.not_finite import spoil
from tests.support.predicting import predict
from tests.support.tiny import scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.errors import RunFailed
from weft.evaluation.evaluate import evaluate
from weft.inference.finite import NotFinite, check_logits
from weft.inference.logits import AllLogits, BatchLogits, HostLogits
from weft.inference.predict import tokenized
from weft.inference.runner import answers
from weft.inference.stream import predict_stream
from weft.model.transforms.quantize import quantize
from weft.utils.processes import Processes

ONE = "classify"
PLAIN = ("classify", "two", "multilabel")


def model_of(folder, names=NAMES, method="lora"):
    tasks = [task_of_kind(name) for name in names]
    return scramble(weft.Model(folder, tasks, method, max_length=24, kernels="reference")).eval()


def spoil_head(model, name, value=float("nan")):
    """Spoil the head of one task; heads of other tasks of the same shape stay as they are."""
    head = model.tasks[model.task_id(name)].head
    stack = model.heads[head].stacks["weight"]
    return spoil(model, f"heads.{head}.weight", value, stack.slots.of_task[model.task_id(name)])


@pytest.fixture(scope="module")
def good(folder):
    """The answers of every kind before anything is spoilt."""
    model = model_of(folder)
    return {name: model.predict(name, rows_of_kind(name, 2)) for name in NAMES}


WITH_WEIGHTS = [name for name in NAMES if name != "cosine"]


@pytest.mark.parametrize("name", some_of(WITH_WEIGHTS, 5))
def test_every_kind_is_refused_and_the_other_tasks_answer(folder, good, name):
    model = spoil_head(model_of(folder), name, float("-inf") if len(name) % 2 else float("nan"))
    for other in NAMES:
        if other == name:
            with pytest.raises(NotFinite, match=f"task '{name}': the model's outputs for [12] of 2 examples"):
                model.predict(name, rows_of_kind(name, 2))
        else:
            assert model.predict(other, rows_of_kind(other, 2)) == good[other]


@pytest.fixture
def bad(folder):
    return spoil_head(model_of(folder, PLAIN), ONE)


TEXTS = ["the cat sees a dog", "a bird", "not now"]
MESSAGE = "task 'classify': the model's outputs for 3 of 3 examples are NaN or infinite"


def test_all_tasks_of_a_text(bad):
    with pytest.raises(NotFinite, match=MESSAGE):
        bad.predict_all(TEXTS)
    assert len(bad.predict_all(TEXTS, tasks=["two", "multilabel"])) == 3


def test_a_stream_ends_where_the_numbers_do(bad):
    requests = [("two", text) for text in TEXTS * 30] + [(ONE, TEXTS[0])]
    stream = predict_stream(bad, iter(requests))
    answered = []
    with pytest.raises(NotFinite, match="outputs for 1 of 1 examples"):
        answered += list(stream)
    stream = predict_stream(bad, iter(requests))
    assert [next(stream)["task"] for _ in range(64)] == ["two"] * 64


def test_evaluations_and_thresholds(bad):
    tokens = {name: tokens_of(task_of_kind(name), tiny_tokenizer("words")) for name in PLAIN}
    with pytest.raises(NotFinite, match="task 'classify': the model's outputs for"):
        evaluate(bad, tokens)
    assert np.isfinite(evaluate(bad, {"two": tokens["two"]})["average"])


def test_the_first_of_several_tasks_is_named_with_its_examples(bad):
    spoil_head(bad, "multilabel")
    with pytest.raises(NotFinite, match="task 'classify': the model's outputs for 1 of 1 examples"):
        bad.predict([("multilabel", "the cat"), ("two", "a dog"), (ONE, "a bird")])


def test_vectors(folder):
    model = model_of(folder, PLAIN, "lora")
    assert model.embed(TEXTS, task=ONE).isfinite().all()
    name = next(n for n, _ in model.named_parameters() if n.startswith("adapters.1/"))
    spoil(model, name, slot=model.task_id(ONE))
    with pytest.raises(NotFinite, match=MESSAGE):
        model.embed(TEXTS, task=ONE)
    assert model.embed(TEXTS, task="two").isfinite().all()
    assert model.embed(TEXTS).isfinite().all()
    spoil(model, "encoder.encoder.layer.0.output.dense.weight")
    with pytest.raises(NotFinite, match="the encoder: the model's outputs for 3 of 3"):
        model.embed(TEXTS, normalize=True)


@pytest.mark.usefixtures("capturing")
def test_captured_passes(folder):
    """The logits are checked where they come to the host, whoever has computed them."""
    model = model_of(folder, PLAIN)
    requests = [(name, text) for text in TEXTS for name in PLAIN]
    predicted_until_captured(model, requests)
    assert model.captures.of(model, "float32").shapes
    spoil_head(model, ONE)  # a graph reads the weights in place
    others = [request for request in requests if request[0] != ONE]
    with pytest.raises(NotFinite, match=MESSAGE):
        model.predict(requests)
    assert len(predicted_until_captured(model, others)) == len(others)
    with pytest.raises(NotFinite, match=MESSAGE):
        model.predict_all(TEXTS)
    tokens = three_texts(model)
    with pytest.raises(NotFinite, match=MESSAGE):
        answers(model, [(0, tokens, i) for i in range(3)], capture="always")


def three_texts(model):
    return tokenized(model, [(ONE, text) for text in TEXTS], range(3)).tokens[0]


def test_padding_may_hold_anything():
    """Rows and tokens that only fill a batch are no answers."""
    nan = float("nan")
    logits = {
        "tokens": torch.tensor([[[1.0], [nan]], [[2.0], [3.0]], [[nan], [nan]]]),
        "rows": torch.tensor([[1.0], [2.0], [nan]]),
        "examples": torch.tensor([[nan], [nan], [nan]]),
    }
    task = np.array([0, 1])
    by = {"tokens": "token", "rows": "row", "examples": "example"}
    every = AllLogits(["tokens", "rows", "examples"], task, by)
    every.add(BatchLogits(HostLogits.of(logits), [0, 1], [0, 1], [1, 2]))
    assert not every.finish().odd.any()
    every = AllLogits(["examples", "rows"], task, by)
    every.add(BatchLogits(HostLogits.of(logits), [0, 1], [0, 1], [1, 2]))
    assert every.finish().odd.tolist() == [True, False]


def test_maps_in_int8(folder):
    model = model_of(folder, PLAIN)
    spoil(model, "encoder.encoder.layer.0.output.LayerNorm.bias")
    with pytest.raises(NotFinite, match="task 'classify'"):
        quantize(model).predict(ONE, TEXTS)


@pytest.fixture
def overflowing(folder, tmp_path):
    """A bundle with finite weights, with which one task's logits overflow."""
    model = model_of(folder, PLAIN)
    with torch.no_grad():
        model.get_parameter("heads.classify-2.weight").fill_(3.4e38)
    return model.save(tmp_path / "bundle")


@pytest.mark.parametrize("arguments", [["--task", ONE], ["--all"], ["--tasks", f"two,{ONE}"]])
def test_the_command_prints_no_answer_and_fails(overflowing, tmp_path, capsys, arguments):
    code, rows, told = predict(capsys, overflowing, *arguments, "--text", "the cat", "--text", "a dog")
    assert (code, rows) == (1, [])
    assert "task 'classify': the model's outputs for 2 of 2 examples are NaN or infinite" in told
    assert "--precision float32" in told
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        out = tmp_path / name
        code, _, _ = predict(capsys, overflowing, *arguments, "--text", "the cat", "--out", out)
        assert (code, out.exists()) == (1, False)


def test_the_lines_before_are_kept(overflowing, tmp_path, capsys):
    lines = [{"task": "two", "text": "a dog"}] * 64 + [{"task": ONE, "text": "the cat"}]
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for arguments in ([], ["--on-error", "skip"]):
        code, rows, told = predict(capsys, overflowing, file, *arguments)
        assert (code, [row["task"] for row in rows]) == (1, ["two"] * 64)
        assert "outputs for 1 of 1 examples" in told


def test_processes_end_together_and_exchange_the_error():
    wrong = NotFinite("task 'a'", 1, 3)
    again = pickle.loads(pickle.dumps(wrong))
    assert (str(again), again.what) == (str(wrong), wrong.what)
    assert isinstance(again, RunFailed)


class Both(Processes):
    """The first of two processes; what the second has is known."""

    def __init__(self, second=None):
        super().__init__(0, 2)
        self.second = second

    def gathered(self, value):
        return [value, self.second or value]


def test_a_process_knows_what_the_other_has_found(folder):
    """Each runs every second batch: an example that is odd in one of them ends both."""
    model = model_of(folder, PLAIN)
    tokens = three_texts(model)
    listed = [(0, tokens, i) for i in range(3)]
    merged = answers(model, listed, batch_size=1)
    found = [*merged], np.array([False, True, False])
    with pytest.raises(NotFinite, match="task 'classify': the model's outputs for 1 of 3 examples"):
        answers(model, listed, batch_size=1, processes=Both(found))
    assert len(answers(model, listed, batch_size=1, processes=Both((merged, np.zeros(3, bool))))) == 3


def test_nothing_odd_raises_nothing():
    check_logits([], np.zeros(0, np.int64), np.zeros(0, bool))
