"""`Model.capture`: what a pass costs is known from then on, and batches are cut by it.

On a CPU the same code runs uncaptured; test_on_gpu.py has it on a GPU.
"""

from __future__ import annotations

import pytest

from tests.support.captured import ONE_ROW, model_of
from tests.support.near import assert_near
from weft.inference import warm_up
from weft.inference.captured import CapturedModel
from weft.inference.warm_up import MINILM, OVERHEAD, WIDER
from weft.serving.batching.ticket import Item
from weft.serving.batching.worker import TOKENS, Worker
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks

LONG = "the cat sees the dog and the bird sees the cat and the dog sees the bird again"
TEXTS = [LONG, *["the cat"] * 4]


@pytest.fixture
def model(folder, capturing, monkeypatch):
    """A model all of whose shapes are said to be captured; they are when they are used."""

    def noted(self, inputs, examples=None):
        self._passes[self.form_of(inputs, examples)] = None

    made = model_of(folder, ONE_ROW)
    with monkeypatch.context() as patch:
        patch.setattr(warm_up, "_check_device", lambda device: None)
        patch.setattr(CapturedModel, "logits", noted)
        made.capture()
    return made


def used(model):
    """Rows and length of the shapes that passes have run in."""
    forms = [form for form, done in model.captures.requested._passes.items() if done is not None]
    return {field.shape for fields, *_ in forms for field in fields if field.name == "input_ids"}


def predicted(model, **options):
    return model.predict([("classify", text) for text in TEXTS], **options)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_what_a_pass_costs_is_known_once_all_shapes_are_captured(folder, precision, capturing, monkeypatch):
    captured = []
    monkeypatch.setattr(warm_up, "_check_device", lambda device: None)
    monkeypatch.setattr(
        CapturedModel, "logits", lambda self, inputs, count=None: captured.append(self.form_of(inputs, count))
    )
    monkeypatch.setattr(CapturedModel, "shapes", property(lambda self: len(captured)))
    model = model_of(folder, ONE_ROW)
    model.capture(precision=precision)
    assert len(set(captured)) == len(captured) > 10
    width = model.encoder_source.model.config.hidden_size
    assert model.captures.requested.overhead == OVERHEAD[precision] * (MINILM / width) ** WIDER
    for some in ({"lengths": [16]}, {"rows": [1]}):
        captured.clear()
        model.capture(precision=precision, **some)
        assert captured
        assert model.captures.requested.overhead is None


def test_calls_are_cut_by_it(model):
    """Lengths are no longer powers of two; if passes cost little, a long text has a batch of its own."""
    captured = model.captures.requested
    found = predicted(model)
    assert used(model) == {(8, 24)}
    captured.overhead = 1.0
    assert_near(predicted(model), found)
    assert used(model) == {(8, 24), (1, 24), (4, 16)}
    captured.overhead = None
    assert_near(predicted(model), found)
    assert used(model) == {(8, 24), (1, 24), (4, 16), (8, 32)}


def test_calls_with_a_batch_size_are_not_because_their_shapes_are_not_captured(model):
    model.captures.requested.overhead = 1.0
    model.captures.requested._passes.clear()
    forms = model.captures.requested._uses
    predicted(model, batch_size=10)
    assert {field.shape for form in forms for field in form[0] if field.name == "input_ids"} == {(8, 32)}


@pytest.mark.parametrize(("tokens", "batches"), [(None, [4, 1]), (TOKENS["cuda"], [4, 1]), (10_000, [5])])
def test_a_server_cuts_by_it_with_the_usual_size_of_a_batch(model, monkeypatch, tokens, batches):
    tasks = model.tasks
    served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
    body = {"requests": [{"task": "classify", "text": text} for text in TEXTS]}
    questions = predict_questions(body, served, ServeSettings())
    items = [Item(None, number, question) for number, question in enumerate(questions)]
    monkeypatch.setattr(Worker, "waits", True)  # as on a GPU
    monkeypatch.setitem(TOKENS, "cpu", TOKENS["cuda"])
    worker = Worker(model, tokens=tokens)
    worker.tokenize(items)
    model.captures.requested.overhead = 1.0
    assert sorted((len(batch.items) for batch in worker.batches(items)), reverse=True) == batches
    model.captures.requested.overhead = None
    assert [len(batch.items) for batch in worker.batches(items)] == [5]
